package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ccmapd/ccmapd/ccmap"
)

// stacks makes a profile of stacks, outermost first: "C:f" is a function of C, "m:7" a method of
// Java that calls at 7. Each takes as many ns as its place in the list.
func stacks(list ...string) *ccmap.Snapshot {
	m := ccmap.New(ccmap.Options{})
	for i, stack := range list {
		at, call := m.Root(), ccmap.NoOffset
		for _, word := range strings.Fields(stack) {
			method := ccmap.Method{Name: strings.TrimPrefix(word, "C:"), Coordinate: ccmap.CoordinateMachine}
			next := uint32(99)
			if name, position, java := strings.Cut(word, ":"); java && name != "C" {
				method = ccmap.Method{Name: name, Coordinate: ccmap.CoordinateBytecode}
				fmt.Sscan(position, &next)
			}
			at = m.Child(at, call, m.Names().Intern(method))
			call = next
		}
		at = m.Child(at, call, ccmap.NoMethod)
		m.Add(at, ccmap.Counters{Samples: 1, Time: int64(i + 1)})
	}
	return m.Snapshot()
}

// TestJavaOf keeps the Java code of stacks, with the positions of its calls.
func TestJavaOf(t *testing.T) {
	t.Parallel()
	s := stacks("C:clone Thread.run:1 A.m:2 C:read C:[kernel]", "Thread.run:1 A.m:3 C:invoke B.n:4", "C:clone C:gc", "C:[truncated] A.m:3 B.n:4")
	java := javaOf(s)
	var got []string
	for n := range java.Nodes() {
		if n.Method == ccmap.NoMethod {
			continue
		}
		line := fmt.Sprintf("%s %d", methodOf(java, n.ID).Name, n.Self.Time)
		if n.Parent != 0 {
			line += fmt.Sprintf(" from %s:%d", methodOf(java, n.Parent).Name, n.Offset)
		}
		got = append(got, line)
	}
	slices.Sort(got)
	want := []string{"A.m 0", "A.m 1 from Thread.run:1", "B.n 2 from A.m:3", "B.n 4 from A.m:3", "Thread.run 0"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if cut, broken := cutShare(java), shareOf(s, isBroken); cut != 100*4./7 || broken != 40 {
		t.Errorf("%v %% without a beginning, %v %% broken", cut, broken)
	}
}

// TestIsBroken knows the names of both profilers, and no others.
func TestIsBroken(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"[truncated]": true, "[native]": true, "[unknown]": true, "unknown_Java": true, "not_walkable_not_Java": true, "break_compiled": true,
		"no_Java_frame": true, "[kernel]": false, "[gc]": false, "unknown": false, "break": false, "truncated_name": false,
	} {
		if got := isBroken(ccmap.Method{Name: name, Coordinate: ccmap.CoordinateMachine}); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if isBroken(ccmap.Method{Name: "[unknown]", Signature: "libc.so.6"}) || isBroken(ccmap.Method{Name: "truncated", Coordinate: ccmap.CoordinateBytecode}) {
		t.Error("a function without a symbol, or a method of Java, is broken")
	}
}

// TestAsyncProfiler finds the library of a build, and says what to do without one.
func TestAsyncProfiler(t *testing.T) {
	t.Parallel()
	f := &field{}
	if found, err := f.asyncProfiler(); found != "" || err != nil {
		t.Errorf("no build: %q, %v", found, err)
	}
	f.async = t.TempDir()
	if found, err := f.asyncProfiler(); err == nil || !strings.Contains(err.Error(), "-async") {
		t.Errorf("an empty folder: %q, %v", found, err)
	}
	library := filepath.Join(f.async, "lib", "libasyncProfiler.so")
	if err := os.MkdirAll(filepath.Dir(library), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(library, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if found, err := f.asyncProfiler(); string(found) != library || err != nil {
		t.Errorf("%q, %v, want %q", found, err, library)
	}
}
