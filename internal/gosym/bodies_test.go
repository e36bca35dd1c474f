package gosym

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/ccmapd/ccmapd/ccmap"
)

// anyName wants all functions.
func anyName(string) bool { return true }

// codeOf returns the functions of a program on disk.
func codeOf(t *testing.T, path string, wanted func(string) bool) *Code {
	t.Helper()
	table, err := OpenFile(t.Context(), path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer table.Close()
	code, err := table.Code(t.Context(), wanted)
	if err != nil {
		t.Fatal(err)
	}
	return code
}

// below calls f through what stacks leave out or add: a wrapper, a closure, an inlined function, a
// deferred call.
//
//go:noinline
func below(s interface{ visit(func()) }, f func()) {
	defer func() { inlinedCaller(f) }()
	s.visit(func() { slices.SortFunc([]int{2, 1}, func(a, b int) int { f(); return a - b }) })
}

func inlinedCaller(f func()) { f() }

type visitor struct{ _ int } // with a size: its pointer is no constant

//go:noinline
func (visitor) visit(f func()) { f() }

// stacks returns the stacks that below calls with, innermost first, as methods of names.
func stacks(table *Table, names *ccmap.Names) (all [][]ccmap.Frame) {
	below(&visitor{}, func() {
		pcs := make([]uintptr, 64)
		var physical []uint64
		for i, n := 0, runtime.Callers(1, pcs); i < n; {
			physical = append(physical, uint64(pcs[i]))
			i += max(len(table.inlined(uint64(pcs[i]), true, nil)), 1)
		}
		all = append(all, table.Stack(physical, names, nil))
	})
	return all
}

// TestHashBodies: functions of this process have the bodies that its file has, and calls on its stacks
// are calls of the file.
func TestHashBodies(t *testing.T) {
	t.Parallel()
	table, names := openSelf(t), ccmap.NewNames()
	seen := stacks(table, names)
	table.HashBodies(0)
	if id, _ := names.Lookup("testing.tRunner", ""); names.At(id).Body != 0 {
		t.Error("a body without a byte for it")
	}
	table.HashBodies(1 << 20)
	code := codeOf(t, "/proc/self/exe", anyName)
	hashed := 0
	for id := range ccmap.MethodID(names.Len()) {
		m := names.At(id)
		if m.Body == 0 {
			continue
		}
		hashed++
		if got, known := code.Method(m.Name, ""); !known || got.Body != m.Body || got.StartLine != m.StartLine {
			t.Errorf("%+v, and in the file %+v", m, got)
		}
	}
	if hashed < 5 {
		t.Errorf("%d functions with a body of %d", hashed, names.Len())
	}
	for _, frames := range seen {
		for i := 1; i < len(frames); i++ {
			caller, callee := names.At(frames[i].Method), names.At(frames[i-1].Method)
			if may, known := code.MayCall(caller, frames[i].Offset, callee); !may || !known {
				t.Errorf("%s calls %s at %d: may %t, known %t", caller.Name, callee.Name, int32(frames[i].Offset), may, known)
			}
		}
	}
	if len(seen) < 2 {
		t.Errorf("%d stacks", len(seen))
	}
}

// TestBodiesOfOtherNames: another table of names gets the bodies, too.
func TestBodiesOfOtherNames(t *testing.T) {
	t.Parallel()
	table := openSelf(t)
	for range 2 {
		names := ccmap.NewNames()
		stacks(table, names)
		table.HashBodies(1 << 20)
		if id, _ := names.Lookup("testing.tRunner", ""); names.At(id).Body == 0 {
			t.Error("no body")
		}
	}
}

const rebuiltSource = `package main

import "fmt"

//go:noinline
func same(n int) string { return fmt.Sprint(changed(n), n) }

//go:noinline
func changed(n int) int { return n + 1 }

//go:noinline
func other(n int) int { return n - 1 }

//go:noinline
func through(f func(int) int) int {
	return f(7)
}

func main() { println(same(3), through(other)) }
`

// buildSource builds a program of one file.
func buildSource(t *testing.T, source string, flags ...string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	build := exec.Command("go", append(append([]string{"build", "-o", "program"}, flags...), "main.go")...)
	build.Dir = dir
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return filepath.Join(dir, "program")
}

// TestBodiesAcrossBuilds: another build has the bodies of functions that have not changed, stripped or
// not, although nearly all of their bytes moved.
func TestBodiesAcrossBuilds(t *testing.T) {
	t.Parallel()
	all := []string{"main.same", "main.changed", "main.other", "main.through", "main.main"}
	wanted := func(name string) bool { return slices.Contains(all, name) || strings.HasPrefix(name, "fmt.") }
	before := codeOf(t, buildSource(t, rebuiltSource), wanted)
	edited := strings.NewReplacer("n + 1", "n*3 + 1", "return fmt", "\n\treturn fmt", "f(7)", "f(8)",
		"\n//go:noinline\nfunc same", "\nfunc init() { println(`earlier`) }\n\n//go:noinline\nfunc same").Replace(rebuiltSource)
	after := codeOf(t, buildSource(t, edited, "-ldflags=-s -w"), wanted)
	for name, want := range map[string]bool{"same": true, "other": true, "main": true, "changed": false, "through": false} {
		a, _ := before.Method("main."+name, "")
		b, known := after.Method("main."+name, "")
		if same := a.Body == b.Body; same != want || a.Body == 0 || !known {
			t.Errorf("%s: bodies %#x and %#x", name, a.Body, b.Body)
		}
		if a.StartLine == b.StartLine {
			t.Errorf("%s did not move", name)
		}
	}
	common, equal := 0, 0
	for name, a := range before.methods {
		if b, known := after.methods[name]; known {
			common++
			if a.Body == b.Body {
				equal++
			}
		}
	}
	if common < 30 || equal != common-2 {
		t.Errorf("%d of %d functions have the same body, want all but two", equal, common)
	}
	f := func(name string) ccmap.Method { return ccmap.Method{Name: "main." + name} }
	for _, c := range []struct {
		caller, callee string
		offset         uint32
		before, after  bool
	}{
		{"same", "changed", 0, true, false},
		{"same", "changed", 1, false, true},
		{"same", "other", 0, false, false},
		{"through", "other", 1, true, true},
		{"through", "other", 2, false, false},
		{"through", "other", ccmap.NoOffset, true, true},
	} {
		a, _ := before.MayCall(f(c.caller), c.offset, f(c.callee))
		b, _ := after.MayCall(f(c.caller), c.offset, f(c.callee))
		if a != c.before || b != c.after {
			t.Errorf("%s calls %s at %d: %t and %t, want %t and %t", c.caller, c.callee, c.offset, a, b, c.before, c.after)
		}
	}
	if _, known := before.MayCall(f("nothing"), 0, f("main")); known {
		t.Error("calls of a function that is not there are known")
	}
}

// FuzzBodies takes any bytes for the code of a function, in a file of a sound module.
func FuzzBodies(f *testing.F) {
	m, err := loadMade(madeModule())
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte{0xe8, 0, 0, 0, 0, 0x48, 0x8b, 5, 0xff, 0xff, 0xff, 0x7f}, uint64(0), uint64(128))
	f.Add([]byte{}, ^uint64(0), ^uint64(0))
	f.Fuzz(func(t *testing.T, code []byte, off, size uint64) {
		fuzzed := *m
		fuzzed.image = &image{path: "/made", file: &elfFile{r: bytes.NewReader(code), segments: []segment{
			{typ: 1, flags: 5, off: off, vaddr: m.minpc, fileSize: size, size: size},
		}}}
		table := newTable(0, bytesMemory{}, "", Options{})
		table.modules = []*module{&fuzzed}
		names := ccmap.NewNames()
		for range 2 {
			table.Stack([]uint64{m.minpc, m.minpc + 16, m.maxpc - 1}, names, nil)
			table.HashBodies(1 << 20)
		}
		if len(table.bodies.pending) > 0 && !table.Exceeded() {
			t.Fatalf("%d functions wait", len(table.bodies.pending))
		}
		table.Code(t.Context(), anyName)
		b := testBudget()
		b.steps, b.look = 1<<20, 1<<20
		table.eachCall(b, anyName, func(c Call) { c.May("main.main") })
	})
}
