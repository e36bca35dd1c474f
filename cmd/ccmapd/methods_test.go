package main

import (
	"strings"
	"testing"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/advice"
)

// TestFinderHints: an error in a name says which names are like it, or what to do.
func TestFinderHints(t *testing.T) {
	t.Parallel()
	names := ccmap.NewNames()
	for _, name := range []string{"main.(*Server).handle", "main.(*Client).handle", "net/http.(*conn).serve", "main.Observer.handler"} {
		names.Intern(ccmap.Method{Name: name})
	}
	for text, want := range map[string]string{
		"handle":      "Give more of the name, or --match REGEXP: main.(*Client).handle, main.(*Server).handle",
		"Server.hand": "Near it: main.(*Server).handle, main.Observer.handler",
		"srve":        "Near it: net/http.(*conn).serve",
		"quux":        listsAllMethods,
		"quux>quuux":  "A path is written with spaces around the separators: 'A > B > C'.",
	} {
		_, err := finder(false)(names, text)
		if hint, _ := advice.Of(err); hint != want {
			t.Errorf("%q: %v, hint %q, want %q", text, err, hint, want)
		}
	}
	if _, err := finder(true)(names, "("); exitCode(err) != exitUsage || !strings.Contains(err.Error(), "not a regular expression") {
		t.Errorf("bad expression: %v, exit code %d, want %d", err, exitCode(err), exitUsage)
	}
	_, err := finder(true)(names, "xyz")
	if hint, _ := advice.Of(err); hint != listsAllMethods {
		t.Errorf("an expression that matches nothing: %v", err)
	}
	if set, err := finder(true)(names, `\.handle$`); err != nil || len(set.IDs()) != 2 {
		t.Errorf("%d methods, %v", len(set.IDs()), err)
	}
}
