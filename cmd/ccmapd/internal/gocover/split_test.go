package gocover

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// split splits all functions of the program.
func split(t *testing.T, p *Program) map[string]Function {
	t.Helper()
	files := sources(t)
	all := make(map[string]Function)
	for _, pkg := range p.Packages {
		for _, f := range pkg.Functions {
			parts, ok := files[f.File].Split(f, p.Mode)
			if !ok {
				t.Errorf("%s is not in %s", f.Name, f.File)
			}
			for _, part := range parts {
				all[pkg.Symbol(&part)] = part
			}
		}
	}
	return all
}

// TestSplitIsTrue: calls, branches and cases have exactly the counts that the program
// prints, and there are no other counts.
func TestSplitIsTrue(t *testing.T) {
	t.Parallel()
	for _, mode := range []Mode{ModeCount, ModeAtomic} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			c := counts(t, mode)
			got := make(map[string]int)
			for name, f := range split(t, c.read(t)) {
				got["call "+name] = int(f.Blocks[0].Count)
				names := marked(t, strings.TrimPrefix(f.File, "example.com/counted/"))
				addBranches(t, got, names, f)
				addCases(got, names, f)
			}
			if diff := cmp.Diff(expected(c.truth), got); diff != "" {
				t.Errorf("counts (-truth +coverage):\n%s", diff)
			}
		})
	}
}

func addBranches(t *testing.T, got map[string]int, names map[uint32]string, f Function) {
	for _, b := range f.Branches {
		name, ok := strings.CutPrefix(names[b.Start.Line], "branch ")
		if !ok {
			t.Errorf("%s:%d is no branch", f.File, b.Start.Line)
		}
		got["taken "+name], got["untaken "+name] = int(b.Taken), int(b.Untaken)
	}
}

func addCases(got map[string]int, names map[uint32]string, f Function) {
	for _, s := range f.Switches {
		got["none "+strings.TrimPrefix(names[s.Start.Line], "switch ")] = int(s.None)
		for _, c := range s.Cases {
			got[names[c.Line]] = int(c.Count)
		}
	}
}

// expected completes the truth with counts that stayed 0 and counts that the program does
// not keep.
func expected(truth map[string]int) map[string]int {
	want := map[string]int{
		"call main.unused": 0, "taken unused": 0, "untaken unused": 0, "taken never": 0,
		"case nine": 0, "case minus": 0, "none kind": 0, "none type": 0, "none select": 0,
		"untaken yield": 0,
	}
	for what, n := range truth {
		want[what] = n
	}
	delete(want, "a bare block")
	want["call main.count"] = calls(truth)
	want["call main.mapped"] = truth["call main.work"]
	want["call main.receive"] = truth["call main.kind"]
	return want
}

// calls returns the sum of the program's counts.
func calls(truth map[string]int) int {
	n := 0
	for _, count := range truth {
		n += count
	}
	return n
}

// TestReceivers: methods have the receiver of their name, and nothing else has one.
func TestReceivers(t *testing.T) {
	t.Parallel()
	p := counts(t, ModeCount).read(t)
	functions := split(t, p)
	got := make(map[string]string)
	for _, pkg := range p.Packages {
		for name, f := range functions {
			if r := pkg.ReceiverType(&f); r != "" && pkg.Name == "main" {
				got[name] = r
			}
		}
	}
	want := map[string]string{
		"main.(*shape).pointer":   "*main.shape",
		"main.shape.value":        "main.shape",
		"main.(*stack[...]).push": "*main.stack[...]",
		"main.(*stack[...]).all":  "*main.stack[...]",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("receivers (-want +got):\n%s", diff)
	}
}

// TestSplitKeepsBlocks: every block goes to one function, with its count.
func TestSplitKeepsBlocks(t *testing.T) {
	t.Parallel()
	p := counts(t, ModeCount).read(t)
	files := sources(t)
	for _, pkg := range p.Packages {
		for _, f := range pkg.Functions {
			var blocks []Block
			parts, _ := files[f.File].Split(f, p.Mode)
			for _, part := range parts {
				blocks = append(blocks, part.Blocks...)
			}
			byStart := func(a, b Block) int { return a.Start.compare(b.Start) }
			want := slices.SortedStableFunc(slices.Values(f.Blocks), byStart)
			if diff := cmp.Diff(want, slices.SortedStableFunc(slices.Values(blocks), byStart)); diff != "" {
				t.Errorf("blocks of %s (-want +got):\n%s", f.Name, diff)
			}
		}
	}
}

// TestSplitLines: with the source, functions have the lines of their declarations, as in
// the runtime.
func TestSplitLines(t *testing.T) {
	t.Parallel()
	f := Function{Name: "F", Blocks: []Block{{Start: Position{5, 9}, End: Position{6, 2}}}}
	s, err := ParseSource([]byte("package p\n\nfunc F(\n\tn int,\n) (err) {\n}\n"))
	if err != nil {
		t.Fatal(err)
	}
	f.Blocks[0].Start.Column++ // of an empty body
	parts, ok := s.Split(f, ModeCount)
	if !ok || parts[0].Line != 3 {
		t.Errorf("split %v, line of the declaration: %+v; want 3", ok, parts)
	}
}

// TestSplitInModeSet: in mode set there are no branches, because counters do not say how
// often a block was executed.
func TestSplitInModeSet(t *testing.T) {
	t.Parallel()
	p := counts(t, ModeCount).read(t)
	p.Mode = ModeSet
	for name, f := range split(t, p) {
		if len(f.Branches)+len(f.Switches) > 0 {
			t.Errorf("%s has branches in mode set", name)
		}
	}
}

// TestSplitRefusesEditedSource: with one more line before a block, Split refuses the
// function.
func TestSplitRefusesEditedSource(t *testing.T) {
	t.Parallel()
	p := counts(t, ModeCount).read(t)
	text := bytes.Replace(sourceText(t, "work.go"), []byte("\tif m := n"), []byte("\n\tif m := n"), 1)
	s, err := ParseSource(text)
	if err != nil {
		t.Fatal(err)
	}
	for _, pkg := range p.Packages {
		for _, f := range pkg.Functions {
			_, ok := s.Split(f, p.Mode)
			if want := f.Name == "work" || strings.HasPrefix(f.Name, "init."); ok != want {
				t.Errorf("%s: split %v, want %v", f.Name, ok, want)
			}
		}
	}
}

// TestCountsThatDoNotFit: in counters that were written while the program ran, a body may
// have a higher count than the block before it.
func TestCountsThatDoNotFit(t *testing.T) {
	t.Parallel()
	s, err := ParseSource([]byte("package p\nfunc F(n int) {\n\tif n > 0 {\n\t\tn--\n\t}\n}\n"))
	if err != nil {
		t.Fatal(err)
	}
	parts, ok := s.Split(Function{Blocks: []Block{
		{Start: Position{2, 15}, End: Position{3, 11}, Count: 5},
		{Start: Position{3, 11}, End: Position{5, 3}, Count: 6},
	}}, ModeCount)
	if !ok {
		t.Fatal("the function is not in its source")
	}
	want := []Branch{{Start: Position{3, 2}, End: Position{5, 3}, Taken: 6}}
	if diff := cmp.Diff(want, parts[0].Branches); diff != "" {
		t.Errorf("branches (-want +got):\n%s", diff)
	}
}

// TestSplitLibrary: Split finds every function of some of Go's own packages in its
// source.
func TestSplitLibrary(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("builds packages of the standard library again")
	}
	p := runWithLibrary(t, "encoding/json,reflect,strconv,fmt")
	root := goroot(t)
	parsed := make(map[string]*Source)
	functions, branches, switches := 0, 0, 0
	for _, pkg := range p.Packages {
		if pkg.Module == "example.com/counted" {
			continue
		}
		for _, f := range pkg.Functions {
			if parsed[f.File] == nil {
				parsed[f.File] = parseFile(t, filepath.Join(root, "src", f.File))
			}
			parts, ok := parsed[f.File].Split(f, p.Mode)
			if !ok {
				t.Errorf("%s:%d: %s is not in its source", f.File, f.Line, f.Name)
			}
			functions++
			for _, part := range parts {
				branches += len(part.Branches)
				switches += len(part.Switches)
			}
		}
	}
	if functions < 600 || branches < 1200 || switches < 150 {
		t.Errorf("%d functions, %d branches, %d switches: these packages have more", functions, branches, switches)
	}
}

// runWithLibrary runs the counted program with counters in packages that it uses.
func runWithLibrary(t *testing.T, packages string) *Program {
	t.Helper()
	dir := t.TempDir()
	binary := filepath.Join(t.TempDir(), "counted")
	build := exec.Command("go", "build", "-cover", "-covermode=atomic", "-coverpkg=./...,"+packages, "-o", binary, ".")
	build.Dir = "testdata/counted"
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	run := exec.Command(binary)
	run.Env = append(os.Environ(), "GOCOVERDIR="+dir)
	if out, err := run.CombinedOutput(); err != nil {
		t.Fatalf("run: %v\n%s", err, out)
	}
	return counted{dir: dir}.read(t)
}

func goroot(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

func parseFile(t *testing.T, name string) *Source {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	s, err := ParseSource(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
