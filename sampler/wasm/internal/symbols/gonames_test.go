package symbols

import (
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// goProgram has names that Go's linker changes.
const goProgram = `package main

type shape struct{}

func (*shape) draw(n int) int { println(n); return n }

func largest[T int | float64](a, b T) T {
	println("largest")
	return max(a, b)
}

func main() {
	defer func() { recover() }()
	(&shape{}).draw(largest(1, 2))
	println(largest(1.5, 2.5))
}
`

// buildGo builds a program for WebAssembly.
func buildGo(t *testing.T, source string, flags ...string) []byte {
	t.Helper()
	dir := t.TempDir()
	program := filepath.Join(dir, "main.go")
	if err := os.WriteFile(program, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	made := filepath.Join(dir, "main.wasm")
	build := exec.Command("go", append(append([]string{"build", "-o", made, "-gcflags=-l"}, flags...), program)...)
	build.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "GOFLAGS=")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	data, err := os.ReadFile(made)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// A Go function has its name in Go, also in a stripped module.
func TestGoNames(t *testing.T) {
	t.Parallel()
	for _, flags := range [][]string{nil, {"-ldflags=-s"}} {
		table := mustRead(t, buildGo(t, goProgram, flags...))
		names, linked := map[string]int{}, map[string]string{}
		for i := range table.Len() {
			f := table.Function(i)
			names[f.Name]++
			linked[f.Name] = f.Linkage
		}
		for want, n := range map[string]int{
			"main.main": 1, "main.main.func1": 1, "main.(*shape).draw": 1, "main.largest[go.shape.int]": 1, "main.largest[go.shape.float64]": 1,
			"runtime.(*mcache).refill": 1,
		} {
			if names[want] != n {
				t.Errorf("flags %q: %d functions are %s, want %d", flags, names[want], want, n)
			}
		}
		if want := "main.__shape_.draw"; flags == nil && linked["main.(*shape).draw"] != want {
			t.Errorf("linkage name %q, want %q", linked["main.(*shape).draw"], want)
		}
	}
}

// A defect in the table costs names, and nothing else.
func TestMalformedGoNames(t *testing.T) {
	t.Parallel()
	data := buildGo(t, goProgram)
	whole := mustRead(t, data)
	at := 0
	for i := range data {
		if len(data)-i > 72 && slices.Equal(data[i:i+len(goHeader)], goHeader) {
			at = i + len(goHeader)
			break
		}
	}
	for word := range goHeaderWords {
		broken := slices.Clone(data)
		for i := range 8 {
			broken[at+8*word+i] = 0xff
		}
		table := mustRead(t, broken)
		for i := range table.Len() {
			if f, g := table.Function(i), whole.Function(i); f.Name != g.Name && f.Name != f.Linkage {
				t.Fatalf("word %d: function %d is %q, in truth %q", word, i, f.Name, g.Name)
			}
		}
	}
}

func TestIsLinked(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, linked string
		want         bool
	}{
		{"main.(*T).f", "main.__T_.f", true},
		{"main.(*T).f", "", true},
		{"", "", false},
		{"", "main.f", false},
		{"main.f", "main.g", false},
		{"a/b.f·dwrap1", "a_b.f_dwrap1", true},
		{"main.F[go.shape.int].f", "main.F_go.shape.int_.f", true},
	} {
		if got := isLinked(c.name, c.linked); got != c.want {
			t.Errorf("%q is linked as %q: %v, want %v", c.name, c.linked, got, c.want)
		}
	}
}

// goData is a data section with a table of functions "main.(*T).f" and "main.g", in two
// segments.
func goData() []byte {
	table := slices.Clone(goHeader)
	for _, word := range [goHeaderWords]uint64{goFunctionCount: 2, goNames: 72, goFunctions: 96} {
		table = binary.LittleEndian.AppendUint64(table, word)
	}
	table = append(table, "main.(*T).f\x00main.g\x00\x00\x00\x00\x00\x00"...)
	for _, number := range []uint32{goFirst, 16, goFirst + 1, 24, goFirst, 0, goFirst + 1, 12} {
		table = binary.LittleEndian.AppendUint32(table, number)
	}
	const first = 16
	data := append([]byte{2, 0, 0x41, 0, 0x0b, first}, table[:first]...)
	data = append(data, 0, 0x41, first+8, 0x0b, byte(len(table)-first-8))
	return append(data, table[first+8:]...)
}

func TestGoTable(t *testing.T) {
	t.Parallel()
	m := module{madeByGo: true, data: goData(), functions: []function{{from: &Import{"a", "b"}}, {name: "main.__T_.f"}, {}}, imports: 1}
	m.readGoNames()
	for i, want := range []string{"a.b", "main.(*T).f", "main.g"} {
		if got := m.functions[i].nameForPeople(i); got != want {
			t.Errorf("function %d is %q, want %q", i, got, want)
		}
	}
}

// A malformed table gives only names of the module's functions, or none.
func FuzzGoTable(f *testing.F) {
	f.Add(goData())
	f.Fuzz(func(t *testing.T, data []byte) {
		m := module{madeByGo: true, data: data, functions: make([]function, 4), imports: 1}
		m.readGoNames()
		for _, f := range m.functions {
			if len(f.goName) >= maxGoName || strings.ContainsRune(f.goName, 0) {
				t.Fatalf("a name %q", f.goName)
			}
		}
	})
}
