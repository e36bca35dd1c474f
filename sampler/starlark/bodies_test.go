package starlark

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"go.starlark.net/starlark"
)

const bodyOfF = `def f(x, *args):
    total = 0.5
    for i in range(x):
        if i % 2:
            total += scale * len(str(i)) + 12345678901234567890
        else:
            total += args[i].field
    names[x] = lambda y: y + total
    return total
`

// bodiesByName returns the bodies of a program's functions by name.
func bodiesByName(t testing.TB, source string) map[string]uint64 {
	t.Helper()
	_, p, err := starlark.SourceProgramOptions(dialect, "p.star", source, func(string) bool { return false })
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]uint64)
	bodies := bodiesOf(p)
	lines := strings.Split(source, "\n")
	for at, body := range bodies {
		name := "toplevel"
		if at.line > 0 && int(at.line) <= len(lines) {
			if _, after, isDef := strings.Cut(lines[at.line-1], "def "); isDef {
				name, _, _ = strings.Cut(after, "(")
			} else if strings.Contains(lines[at.line-1], "lambda") {
				name = "lambda"
			}
		}
		all[name] = body
	}
	return all
}

// TestBodies: what does not change a function does not change its body: other code around it, so much of it that
// numbers of constants, names and globals take more bytes. Any change of its own does.
func TestBodies(t *testing.T) {
	t.Parallel()
	const before = "names = {}\nscale = 2\n"
	want := bodiesByName(t, before+bodyOfF)
	if want["f"] == 0 || want["lambda"] == 0 || want["f"] == want["lambda"] {
		t.Fatalf("%x", want)
	}
	var much strings.Builder
	for i := range 300 {
		fmt.Fprintf(&much, "v%d = ['text %d', %d].n%d if len('') else %d\n", i, i, 1000+i, i, 2000+i)
	}
	for _, around := range []string{"# a comment\n" + before, before + "def g():\n    return 'g'.upper()\n", much.String() + before} {
		got := bodiesByName(t, around+bodyOfF)
		if got["f"] != want["f"] || got["lambda"] != want["lambda"] {
			t.Errorf("%x, want %x, after %d bytes", got, want, len(around))
		}
	}
	for _, change := range [][2]string{
		{"scale", "names"}, {"len(", "int("}, {"% 2", "% 3"}, {"0.5", "0.25"}, {".field", ".other"}, {"567890", "567891"},
		{"range(x)", "range(1)"}, {"*args", "**args"}, {"    return total", "    # a line\n    return total"}, {"if i", "if not i"},
	} {
		changed := strings.Replace(bodyOfF, change[0], change[1], 1)
		if got := bodiesByName(t, before+changed); changed == bodyOfF || got["f"] == want["f"] || got["lambda"] != want["lambda"] {
			t.Errorf("%q: %x, was %x", change, got, want)
		}
	}
}

// TestCompilerVersion: bodies are known of the version of the interpreter that is used here.
func TestCompilerVersion(t *testing.T) {
	t.Parallel()
	if starlark.CompilerVersion != compilerVersion {
		t.Errorf("the interpreter's programs have version %d: read bodies.go against its internal/compile", starlark.CompilerVersion)
	}
}

// TestBodiesGoWithTheirProgram: a program that is collected leaves nothing.
func TestBodiesGoWithTheirProgram(t *testing.T) {
	t.Parallel()
	const source = "def f():\n    return 'a program of its own'\n"
	_, p, err := starlark.SourceProgramOptions(dialect, "p.star", source, func(string) bool { return false })
	if err != nil {
		t.Fatal(err)
	}
	want := bodiesOf(p)
	isThere := func() (there bool) {
		written.Range(func(_, bodies any) bool {
			there = there || maps.Equal(bodies.(map[place]uint64), want)
			return !there
		})
		return there
	}
	if !isThere() {
		t.Fatal("the bodies are not kept")
	}
	p = nil
	for deadline := time.Now().Add(time.Minute); isThere(); runtime.Gosched() {
		runtime.GC()
		if time.Now().After(deadline) {
			t.Fatal("the bodies stay")
		}
	}
}

// writtenProgram returns a program as starlark.Program.Write writes it.
func writtenProgram(t testing.TB) []byte {
	t.Helper()
	var text bytes.Buffer
	_, p, err := starlark.SourceProgramOptions(dialect, "p.star", "names = {}\nscale = 2\n"+bodyOfF, func(string) bool { return false })
	if err == nil {
		err = p.Write(&text)
	}
	if err != nil {
		t.Fatal(err)
	}
	return text.Bytes()
}

func checkReadBodies(t *testing.T, program []byte) {
	t.Helper()
	bodies := slices.Collect(maps.Values(readBodies(program)))
	if slices.Contains(bodies, 0) || slices.Contains(bodies, math.MaxUint64) {
		t.Error("a body that has a meaning")
	}
}

// TestBodiesOfChangedPrograms: no byte of a written program is trusted.
func TestBodiesOfChangedPrograms(t *testing.T) {
	t.Parallel()
	program := writtenProgram(t)
	for i := range program {
		changed := bytes.Clone(program)
		changed[i] ^= 0x80
		checkReadBodies(t, changed)
	}
}

// FuzzBodies: programs that are read from elsewhere never panic. One seed: CI fuzzes for a second, and reads all seeds first.
func FuzzBodies(f *testing.F) {
	f.Add(writtenProgram(f))
	f.Fuzz(checkReadBodies)
}
