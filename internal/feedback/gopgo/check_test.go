package gopgo

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/gosym"
)

const oldSource = `package main

import "strings"

type shape interface{ area() int }

type square int

//go:noinline
func (s square) area() int { return direct(int(s)) }

//go:noinline
func direct(n int) int { return n * len(strings.Repeat("x", n)) }

func small(n int) int { return direct(n) + 1 }

//go:noinline
func stays(n int) int {
	return direct(n) + 3
}

//go:noinline
func changes(n int) int {
	n *= 3
	return direct(n) + small(n)
}

//go:noinline
func moves(s shape, n int) int {
	n++
	n = small(n)
	n += s.area()
	return direct(n)
}

//go:noinline
func twice(n int) int {
	n = direct(n)
	return n
}

//go:noinline
func loses(n int) int {
	return direct(n) * 5
}

//go:noinline
func before(n int) int {
	return direct(n) * 7
}

//go:noinline
func calls(f func(int) int) int {
	return f(3)
}

//go:noinline
func closes(n int) int {
	add := func(m int) int { return direct(m) + n }
	return add(1)
}

func main() {
	println(stays(1), changes(2), moves(square(3), 4), twice(1), loses(5), before(6), calls(direct), closes(7))
}
`

// newSource is the source after changes. Comments and renamed variables are none to a machine, but move lines. A closure
// with a defer is not inlined.
var newSource = strings.NewReplacer(
	"n *= 3", "n *= 4",
	"	n++\n", "	// a comment\n	// of two lines\n	n++\n",
	"	n = direct(n)\n", "	println()\n	n = direct(n)\n	n += direct(n + 1)\n",
	"return direct(n) * 5", "return n * 5",
	"before(", "after(",
	"return direct(m) + n }", "defer println(); return direct(m) + n }\n",
).Replace(oldSource)

// program writes a module with a main package, and builds it if there are flags.
func programOf(t *testing.T, source string, flags ...string) (dir, binary string) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range map[string]string{"main.go": source, "go.mod": "module example.com/shapes\n\ngo 1.26\n", "other.go": "//go:build ignore\n\npackage broken syntax\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	build := exec.Command("go", append([]string{"build", "-o", "program"}, flags...)...)
	build.Dir = dir
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return dir, filepath.Join(dir, "program")
}

// bodiesOf returns the bodies of a binary's functions.
func bodiesOf(t *testing.T, binary string) map[string]uint64 {
	t.Helper()
	table, err := gosym.OpenFile(t.Context(), binary, gosym.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer table.Close()
	bodies := make(map[string]uint64)
	err = table.Bodies(t.Context(), func(string) bool { return true }, func(b gosym.Body) { bodies[b.Name] = b.Hash })
	if err != nil {
		t.Fatal(err)
	}
	return bodies
}

// TestCheck: each call of an old program has its class in a new one, by its binary and by its source.
func TestCheck(t *testing.T) {
	t.Parallel()
	_, old := programOf(t, oldSource)
	dir, now := programOf(t, newSource, "-ldflags=-s -w")
	bodies := bodiesOf(t, old)
	tests := []struct {
		caller           string
		offset           uint32
		callee           string
		inBinary, source Class
		now              uint32 // offset, where it moved and the new one is known; 0: not
	}{
		{"main.stays", 1, "main.direct", SameBody, OnLine, 0},
		{"main.square.area", 0, "main.direct", SameBody, OnLine, 0},
		{"main.changes", 2, "main.direct", OnLine, OnLine, 0},
		{"main.changes", 2, "main.small", OnLine, OnLine, 0},
		{"main.small", 0, "main.direct", OnLine, OnLine, 0}, // inlined everywhere: it has no body
		{"main.moves", 2, "main.small", Moved, Moved, 4},
		{"main.moves", 3, "main.square.area", Moved, Moved, 5},
		{"main.moves", 4, "main.direct", Moved, Moved, 6},
		{"main.twice", 1, "main.direct", Moved, Moved, 0},
		{"main.loses", 1, "main.direct", Gone, Gone, 0},
		{"main.before", 1, "main.direct", Renamed, Gone, 0},
		{"main.calls", 1, "main.direct", SameBody, Indirect, 0},
		{"main.calls", 1, "main.after", SameBody, Indirect, 0},
		{"main.stays", 7, "main.direct", Moved, Moved, 1},
		{"main.changes", ccmap.NoOffset, "main.direct", Unread, Unread, 0},
		{"strings.Repeat", 900, "strings.nothing", Gone, Gone, 0},
		{"gone.example/p.f", 1, "main.direct", Gone, Unread, 0},
		{"main.twice", 9, "runtime.mallocgc", Gone, Unread, 0},
		{"main.closes", 2, "main.closes.func1", Moved, Moved, 3},
		{"main.closes", 3, "main.closes.func1", Indirect, Indirect, 0},
		{"main.closes", 2, "main.closes.func2", Gone, Gone, 0},
	}
	var edges []Edge
	for i, c := range tests {
		e := call(c.caller, c.offset, c.callee, int64(1000-i))
		e.Caller.Body, e.Callee.Body = bodies[c.caller], bodies[c.callee]
		edges = append(edges, e)
	}
	calls := Calls{Edges: edges, Hot: len(edges)}
	binary, err := Binary(t.Context(), now, edges)
	if err != nil {
		t.Fatal(err)
	}
	source, err := Source(t.Context(), dir, edges)
	if err != nil {
		t.Fatal(err)
	}
	inBinary, inSource := Check(calls, binary), Check(calls, source)
	for i, c := range tests {
		for name, got := range map[string]Checked{"binary": inBinary[i], "source": inSource[i]} {
			want := c.inBinary
			if name == "source" {
				want = c.source
			}
			if got.Class != want {
				t.Errorf("%s: %v is %s (%s), want %s", name, c, got.Class, got.Why, want)
			}
			if c.now != 0 && got.Now.Offset != c.now {
				t.Errorf("%s: %v is now at %d", name, c, got.Now.Offset)
			}
		}
	}
	if got := inBinary[10].Now.Caller.Name; got != "main.after" {
		t.Errorf("main.before is now %s", got)
	}
	if tally := TallyOf(inBinary, true); tally.Total != Sum(edges)-edges[14].Weight || tally.Fits() == 0 {
		t.Errorf("total %d of %d, %d fit", tally.Total, Sum(edges), tally.Fits())
	}
	healed, err := Binary(t.Context(), now, edges)
	if err != nil {
		t.Fatal(err)
	}
	checkHealed(t, calls, inBinary, healed)
}

// checkHealed compares the profile that was healed: no call that has a new place moves again.
func checkHealed(t *testing.T, calls Calls, checked []Checked, p *Program) {
	t.Helper()
	m := calls.Heal(checked, ccmap.Meta{})
	again, err := CallsOf(m.Snapshot())
	if err != nil {
		t.Fatal(err)
	}
	moved := 0
	for _, c := range Check(again, p) {
		if c.Class == Renamed || c.Class == Moved && c.Why == "" {
			t.Errorf("%v is %s in the healed profile", c.Edge, c.Class)
		}
		if c.Caller.Name == "main.moves" && c.Class == SameBody {
			moved++
		}
	}
	if moved != 3 {
		t.Errorf("%d calls of main.moves were healed, want 3", moved)
	}
}

// TestHealMinimal: a minimal profile that is healed has the same ranks, and stays one.
func TestHealMinimal(t *testing.T) {
	t.Parallel()
	edges := []Edge{call("main.moves", 2, "main.small", 900), call("main.stays", 1, "main.direct", 100), call("main.loses", 1, "main.direct", 1)}
	m := minimalOf(t, edges, 1)
	calls, err := CallsOf(m.Snapshot())
	if err != nil {
		t.Fatal(err)
	}
	if !calls.Ranks || calls.Hot != 2 || len(calls.Edges) != 3 {
		t.Fatalf("%+v", calls)
	}
	p := &Program{functions: map[string]*function{
		"main.moves": {[]site{{7, "main.small", named}}}, "main.stays": {[]site{{1, "main.direct", named}}},
	}}
	healed := calls.Heal(Check(calls, p), m.Snapshot().Meta())
	got, err := CallsOf(healed.Snapshot())
	if err != nil {
		t.Fatal(err)
	}
	if !got.Ranks || got.Hot != 2 || len(got.fillers) != len(calls.fillers) || got.Edges[0].Offset != 7 || got.Edges[0].Weight != calls.Edges[0].Weight {
		t.Errorf("healed: %+v", got)
	}
	if tally := TallyOf(Check(calls, p), false); tally.Of[Moved] != 899 || tally.Of[OnLine] != 99 {
		t.Errorf("weights are not the times: %v", tally.Of)
	}
}

// TestCheckErrors: what is no program of the profile is an error that says what it is.
func TestCheckErrors(t *testing.T) {
	t.Parallel()
	dir, binary := programOf(t, oldSource)
	_, pie := programOf(t, oldSource, "-buildmode=pie")
	other := []Edge{call("example.org/other.f", 1, "example.org/other.g", 1)}
	ours := []Edge{call("main.stays", 1, "main.direct", 1)}
	text := filepath.Join(dir, "go.mod")
	stripped := filepath.Join(dir, "stripped")
	data, err := os.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(stripped, data[:4096], 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		path  string
		edges []Edge
		want  error
	}{
		"another program": {binary, other, ErrOtherProgram}, "no program": {text, ours, gosym.ErrNotGo},
		"position-independent": {pie, ours, nil}, "cut off": {stripped, ours, gosym.ErrNotGo},
		"missing": {filepath.Join(dir, "missing"), ours, os.ErrNotExist},
	} {
		if _, err := Binary(t.Context(), c.path, c.edges); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Source(t.Context(), dir, other); !errors.Is(err, ErrOtherProgram) {
		t.Errorf("source of another program: %v", err)
	}
	if _, err := Source(t.Context(), t.TempDir(), ours); !errors.Is(err, ErrNoModule) {
		t.Errorf("no source: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "broken.go"), []byte("package main\nfunc {"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Source(t.Context(), dir, ours); err == nil || !strings.Contains(err.Error(), "broken.go:2") {
		t.Errorf("source with an error: %v", err)
	}
}

func TestPlainName(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"main.f": "main.f", "p.F[go.shape.int]": "p.F[...]", "p.(*T[go.shape.[]int,go.shape.string]).M.func1": "p.(*T[...]).M.func1",
		"p.F[...]": "p.F[...]", "p.[[": "p.[...]",
	} {
		if got := plainName(name); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
	for name, want := range map[string]string{
		"main.f": "main", "gopkg.in/yaml%2ev3.f": "gopkg.in/yaml.v3", "a.b/c.(*T).M": "a.b/c", "p.F[a.b/c.T]": "p", "memmove": "",
	} {
		if got := packageOf(name); got != want {
			t.Errorf("package of %s is %q, want %q", name, got, want)
		}
	}
}

// TestModuleDirs: packages are found where go.mod says.
func TestModuleDirs(t *testing.T) {
	t.Parallel()
	m := &module{dir: "/m", required: map[string]string{}, replaced: map[string]string{}, root: "/go", cache: "/c"}
	m.parse([]byte("module example.com/m // us\n\ngo 1.26\nrequire a.b/One v1.2.3\nrequire (\n\ta.b/One/two/v2 v2.0.0 // indirect\n\tx.y/z v0.1.0\n\tl.m/n v1.0.0\n)\n" +
		"replace x.y/z => ../z\nreplace (\n\tl.m/n v1.0.0 => o.p/q v1.5.0\n)\n"))
	for pkg, want := range map[string]string{
		"example.com/m": "/m", "example.com/m/in": "/m/in", "example.com/more": "", "fmt": "/go/src/fmt", "vendor/golang.org/x/net": "/go/src/vendor/golang.org/x/net",
		"a.b/One/p": "/c/a.b/!one@v1.2.3/p", "a.b/One/two/v2/p": "/c/a.b/!one/two/v2@v2.0.0/p", "x.y/z/p": "/z/p", "l.m/n": "/c/o.p/q@v1.5.0", "not.there/p": "",
	} {
		if got := m.dirOf(pkg); got != want {
			t.Errorf("%s is in %q, want %q", pkg, got, want)
		}
	}
}

// FuzzSource takes any text for a source file and a go.mod. What it calls is on lines that it has.
func FuzzSource(f *testing.F) {
	f.Add(oldSource, "module m\n")
	f.Add("package p\nfunc (t *T[K]) f() { defer func() { go g[int](x.y()) }(); return }\nvar v = func() {}\n//line x:9\nfunc init() { for range f() {} }", "module x\nrequire (\na.b v1\n)\nreplace a => ")
	f.Add("package p\nfunc (", "module")
	f.Fuzz(func(t *testing.T, source, mod string) {
		dir := t.TempDir()
		for name, text := range map[string]string{"f.go": source, "go.mod": mod} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		edges := []Edge{call("main.f", 1, "main.g", 1), call("p.f", 1, "p.g", 1), call("m.f.func1", 1, "m.g", 1)}
		p, err := Source(t.Context(), dir, edges)
		if err != nil {
			return
		}
		for _, c := range Check(Calls{Edges: edges, Hot: 1}, p) {
			if c.Class == SameBody || c.Class == Renamed {
				t.Errorf("a source has no bodies: %v", c)
			}
		}
	})
}

// TestCheckAddsUp: whatever a program calls, each call has one class, and a call that is healed fits.
func TestCheckAddsUp(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		names := []string{"main.a", "main.b", "main.c"}
		p := &Program{functions: make(map[string]*function)}
		for range rapid.IntRange(0, 12).Draw(t, "sites") {
			s := site{uint32(rapid.IntRange(0, 9).Draw(t, "line")), rapid.SampledFrom(names).Draw(t, "callee"), named}
			if rapid.Bool().Draw(t, "indirect") {
				s.callee, s.kind = "", anything
			}
			p.add(rapid.SampledFrom(names).Draw(t, "caller"), s)
		}
		var edges []Edge
		for i := range rapid.IntRange(1, 12).Draw(t, "edges") {
			edges = append(edges, call(rapid.SampledFrom(names).Draw(t, "from"), uint32(rapid.IntRange(0, 9).Draw(t, "at")),
				rapid.SampledFrom(names).Draw(t, "to"), int64(100-i)))
		}
		checked := Check(Calls{Edges: edges, Hot: 1}, p)
		sum := int64(0)
		for _, weight := range TallyOf(checked, false).Of {
			sum += weight
		}
		if sum != Sum(edges) {
			t.Fatalf("classes weigh %d of %d", sum, Sum(edges))
		}
		for _, c := range checked {
			f := p.functions[c.Caller.Name]
			switch {
			case c.Class == Moved && c.Why == "" && f.at(c.Now.Offset, c.Callee.Name) == never:
				t.Fatalf("%v moved to line %d, which does not call", c.Edge, c.Now.Offset)
			case c.Class == OnLine && f.at(c.Offset, c.Callee.Name) != surely:
				t.Fatalf("%v is not on its line", c.Edge)
			case c.Class == Gone && f != nil && f.at(c.Offset, c.Callee.Name) != never:
				t.Fatalf("%v is on its line", c.Edge)
			}
		}
	})
}
