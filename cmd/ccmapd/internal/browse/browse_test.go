package browse

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// TestPrepare: root and who has no display or no opener get none; else the opener gets the page as it is.
func TestPrepare(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	display := func(name string) string { return map[string]string{"DISPLAY": ":0"}[name] }
	for _, test := range []struct {
		euid   int
		getenv func(string) string
		want   error
	}{
		{0, display, ErrRoot}, {1000, func(string) string { return "" }, ErrNoDisplay}, {1000, display, ErrNoOpener},
	} {
		if b, err := Prepare(test.euid, test.getenv); !errors.Is(err, test.want) || b != nil {
			t.Errorf("of user %d: %v, %v", test.euid, b, err)
		}
	}
	script := "#!/bin/sh\nprintf %s \"$1\" >" + filepath.Join(dir, "opened") + "\nexit 3\n"
	if err := os.WriteFile(filepath.Join(dir, "x-www-browser"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	b, err := Prepare(1000, display)
	if err != nil {
		t.Fatal(err)
	}
	const page = `/tmp/a b; $(x) "y" \z*.html`
	if err := b.Open(page); err != nil {
		t.Fatal(err)
	}
	if err := <-b.Failed(); err == nil {
		t.Error("an opener that fails is not told")
	}
	if got, err := os.ReadFile(filepath.Join(dir, "opened")); err != nil || string(got) != page {
		t.Errorf("the opener got %q, %v", got, err)
	}
	unused, err := Prepare(1000, display)
	if err != nil {
		t.Fatal(err)
	}
	unused.Close()
	if err := <-unused.Failed(); err == nil {
		t.Error("a browser without a page is opened")
	}
}
