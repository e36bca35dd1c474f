package report

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A portion is rewritten alone, any number of times, and the text around it stays.
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

// Written rows are read again, without the heads and the text around.
func TestRows(t *testing.T) {
	t.Parallel()
	const p Portion = "campaign"
	path := filepath.Join(t.TempDir(), "REPORT.md")
	if rows, err := p.Rows(path); err != nil || rows != nil {
		t.Errorf("of no file: %v, %v", rows, err)
	}
	want := [][]string{{"a", "1"}, {"b", ""}}
	table := Table{Head: []string{"name", "figure"}, Rows: want}
	if err := os.WriteFile(path, []byte("| by | hand |\n| --- | --- |\n| c | 3 |\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := p.Rewrite(path, "Measured.\n\n"+table.String()); err != nil {
		t.Fatal(err)
	}
	rows, err := p.Rows(path)
	if diff := cmp.Diff(want, rows); diff != "" || err != nil {
		t.Errorf("%v; -want +got\n%s", err, diff)
	}
}
