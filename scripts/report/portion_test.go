package report

import "testing"

// A portion is rewritten alone, and what stands around it stays, however often.
func TestPortionsAreRewrittenAlone(t *testing.T) {
	t.Parallel()
	const native, guests Portion = "campaign, native", "campaign, guests"
	text := "By hand.\n"
	text = native.Replaced(text, "old\n")
	text = guests.Replaced(text, "guests\n") + "\nBy hand, too.\n"
	text = native.Replaced(text, "new\n")
	want := "By hand.\n\n" + native.Begin() + "\nnew\n\n" + native.End() +
		"\n" + guests.Begin() + "\nguests\n\n" + guests.End() + "\nBy hand, too.\n"
	if text != want {
		t.Errorf("%q, want\n%q", text, want)
	}
	if again := guests.Replaced(text, "guests\n"); again != text {
		t.Errorf("not the same again:\n%q, want\n%q", again, text)
	}
}
