package main

import "testing"

// A portion is rewritten alone, and what stands around it stays, however often.
func TestPortionsAreRewrittenAlone(t *testing.T) {
	t.Parallel()
	text := "By hand.\n"
	text = nativePortion.replaced(text, "old\n")
	text = guestPortion.replaced(text, "guests\n") + "\nBy hand, too.\n"
	text = nativePortion.replaced(text, "new\n")
	want := "By hand.\n\n" + nativePortion.begin() + "\nnew\n\n" + nativePortion.end() +
		"\n" + guestPortion.begin() + "\nguests\n\n" + guestPortion.end() + "\nBy hand, too.\n"
	if text != want {
		t.Errorf("%q, want\n%q", text, want)
	}
	if again := guestPortion.replaced(text, "guests\n"); again != text {
		t.Errorf("not the same again:\n%q, want\n%q", again, text)
	}
}
