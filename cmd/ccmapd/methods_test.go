package main

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/ccmapd/ccmapd/ccmap"
)

func namesOf(names ...string) *ccmap.Names {
	table := ccmap.NewNames()
	for _, name := range names {
		table.Intern(ccmap.Method{Name: name})
	}
	return table
}

var exampleNames = []string{
	"main.main", "main.(*Server).handle", "main.(*Client).handle", "net/http.(*conn).serve",
	"example.com/x/server.Map[go.shape.int]", "example.com/x/server.Map[go.shape.string].func1", "type:.eq.main.T",
	"main.Observer.handler",
}

func TestResolveMethod(t *testing.T) {
	t.Parallel()
	names := namesOf(exampleNames...)
	for text, want := range map[string]string{
		"main.main":                "main.main",
		"main":                     "main.main",
		"Server.handle":            "main.(*Server).handle",
		"(*Server).handle":         "main.(*Server).handle",
		"http.conn.serve":          "net/http.(*conn).serve",
		"net/http.(*conn).serve":   "net/http.(*conn).serve",
		"serve":                    "net/http.(*conn).serve",
		"server.Map":               "example.com/x/server.Map[go.shape.int]",
		"Map.func1":                "example.com/x/server.Map[go.shape.string].func1",
		"type:.eq.main.T":          "type:.eq.main.T",
		"example.com/x/server.Map": "example.com/x/server.Map[go.shape.int]",
	} {
		got, err := resolveMethod(names, text)
		if err != nil || got != want {
			t.Errorf("resolveMethod(%q) = %q, %v, want %q", text, got, err, want)
		}
	}
}

// TestResolveMethodAsWritten: a method of a value has a wrapper for its pointer.
func TestResolveMethodAsWritten(t *testing.T) {
	t.Parallel()
	names := namesOf("main.T.f", "main.(*T).f", "main.U.g", "x.U.g")
	for text, want := range map[string]string{"T.f": "main.T.f", "(*T).f": "main.(*T).f", "U.g": "", "f": ""} {
		got, err := resolveMethod(names, text)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("resolveMethod(%q) = %q, %v, want %q", text, got, err, want)
		}
	}
}

func TestResolveMethodErrors(t *testing.T) {
	t.Parallel()
	names := namesOf(exampleNames...)
	for text, want := range map[string][2]string{
		"handle":      {`2 methods are called "handle"`, "main.(*Client).handle, main.(*Server).handle"},
		"Server.hand": {`no method "Server.hand"`, "Near it: main.(*Server).handle, main.Observer.handler"},
		"srve":        {`no method "srve"`, "Near it: net/http.(*conn).serve"},
		"quux":        {`no method "quux"`, "lists all methods"},
		"quux>quuux":  {`no method "quux>quuux"`, "spaces around"},
		"":            {`no method ""`, ""},
	} {
		_, err := resolveMethod(names, text)
		if err == nil || !strings.Contains(err.Error(), want[0]) {
			t.Errorf("resolveMethod(%q): error %v, want one with %q", text, err, want[0])
			continue
		}
		var hint hintError
		if !errors.As(err, &hint) || !strings.Contains(hint.hint, want[1]) {
			t.Errorf("resolveMethod(%q): hint %q, want one with %q", text, hint.hint, want[1])
		}
	}
}

func TestSelectRegexp(t *testing.T) {
	t.Parallel()
	names := namesOf(exampleNames...)
	set, err := selectMethods(names, `\.handle$`, true)
	if err != nil {
		t.Fatal(err)
	}
	want := append(make(methodSet, ccmap.FirstID), false, true, true, false, false, false, false, false)
	if !slices.Equal(set, want) {
		t.Errorf("methods that match = %v, want %v", set, want)
	}
	if set.has(ccmap.NoMethod) {
		t.Error("the set has NoMethod")
	}
	if _, err := selectMethods(names, "(", true); exitCode(err) != exitUsage {
		t.Errorf("bad expression: %v, exit code %d, want %d", err, exitCode(err), exitUsage)
	}
	if _, err := selectMethods(names, "xyz", true); err == nil {
		t.Error("an expression that matches nothing: no error")
	}
}

// TestEditDistance: a metric, bounded by the number of edits that were made.
func TestEditDistance(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.StringMatching(`[abc]{0,8}`)
		a, b, c := word.Draw(t, "a"), word.Draw(t, "b"), word.Draw(t, "c")
		ab := editDistance(a, b)
		switch {
		case (ab == 0) != (a == b):
			t.Errorf("distance of %q and %q = %d", a, b, ab)
		case ab != editDistance(b, a):
			t.Errorf("distance of %q and %q is not symmetric", a, b)
		case editDistance(a, c) > ab+editDistance(b, c):
			t.Errorf("triangle inequality: %q %q %q", a, b, c)
		case editDistance(a+b, b) > len(a):
			t.Errorf("distance of %q and %q is over %d deletions", a+b, b, len(a))
		}
	})
}
