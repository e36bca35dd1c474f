package symbols

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files again: go test ./sampler/wasm/symbols -update")

// read reads a module of testdata, which build.sh there makes.
func read(t testing.TB, name string) *Table {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return mustRead(t, data)
}

func mustRead(t testing.TB, data []byte) *Table {
	t.Helper()
	table, err := Read(data, nil)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// describe prints all that a table knows: of each function also the offsets from which
// on its code is on another line.
func describe(table *Table) string {
	var b strings.Builder
	for i := range table.Len() {
		f := table.Function(i)
		fmt.Fprintf(&b, "%d %s %s", i, f.Name, f.Signature)
		if f.Linkage != f.Name {
			fmt.Fprintf(&b, " = %s", f.Linkage)
		}
		if f.File != "" {
			fmt.Fprintf(&b, " %s:%d", f.File, f.StartLine)
		}
		b.WriteString("\n" + describeLines(table, i))
	}
	return b.String()
}

func describeLines(table *Table, i int) string {
	var b strings.Builder
	last := int32(0)
	for offset := range uint32(table.functions[i].end - table.functions[i].begin) {
		if line := table.Line(i, offset); line != last {
			fmt.Fprintf(&b, "\t+%#x: %d\n", offset, line)
			last = line
		}
	}
	return b.String()
}

func TestGolden(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"dwarf4", "dwarf5", "lines", "names"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path, got := filepath.Join("testdata", name+".txt"), describe(read(t, name+".wasm"))
			if *update {
				if err := os.WriteFile(path, []byte(got), 0o666); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// Versions of DWARF say the same of one program.
func TestVersionsAgree(t *testing.T) {
	t.Parallel()
	if diff := cmp.Diff(describe(read(t, "dwarf4.wasm")), describe(read(t, "dwarf5.wasm"))); diff != "" {
		t.Errorf("(-version 4 +version 5):\n%s", diff)
	}
}

// The modules that wazero's own tests read, of other compilers: where a function of
// each is declared, and where it calls.
func TestOtherCompilers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		module, name, file string
		start, call        int32
	}{
		{"tinygo", "main.a", "/main.go", 7, 8},
		{"zig", "main.main", "/main.zig", 1, 2},
		{"zig-cc", "a", "/main.c", 3, 5},
	} {
		data, err := os.ReadFile(filepath.Join(wazero(t), "internal/testing/dwarftestdata/testdata", c.module, "main.wasm"))
		if err != nil {
			t.Fatal(err)
		}
		table := mustRead(t, data)
		i := find(t, table, c.name)
		f := table.Function(i)
		if !strings.HasSuffix(f.File, c.file) || f.StartLine != c.start {
			t.Errorf("%s: %s is at %s:%d, want %s:%d", c.module, c.name, f.File, f.StartLine, c.file, c.start)
		}
		if lines := describeLines(table, i); !strings.Contains(lines, fmt.Sprintf(": %d\n", c.call)) {
			t.Errorf("%s: %s calls on line %d, not\n%s", c.module, c.name, c.call, lines)
		}
	}
}

func find(t *testing.T, table *Table, name string) int {
	t.Helper()
	for i := range table.Len() {
		if table.Function(i).Name == name {
			return i
		}
	}
	t.Fatalf("no function %s", name)
	return 0
}

// wazero returns the folder of the module that this one depends on.
var wazero = func() func(testing.TB) string {
	once := sync.OnceValues(func() ([]byte, error) {
		return exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/tetratelabs/wazero").Output()
	})
	return func(t testing.TB) string {
		t.Helper()
		out, err := once()
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(out))
	}
}()

// Many goroutines may ask, while none has read the DWARF yet.
func TestConcurrentReaders(t *testing.T) {
	t.Parallel()
	table, want := read(t, "dwarf5.wasm"), describe(read(t, "dwarf5.wasm"))
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if got := describe(table); got != want {
				t.Error(cmp.Diff(want, got))
			}
		})
	}
	all.Wait()
}

func TestNoLineOutside(t *testing.T) {
	t.Parallel()
	table := read(t, "dwarf5.wasm")
	run := find(t, table, "run")
	size := uint32(table.functions[run].end - table.functions[run].begin)
	for _, offset := range []uint32{size, size + 1, 1<<32 - 1} {
		if line := table.Line(run, offset); line != 0 {
			t.Errorf("offset %d of %d is on line %d", offset, size, line)
		}
	}
	if line := table.Line(0, 0); line != 0 || !table.Function(0).Imported {
		t.Errorf("function 0 is %+v, and on line %d", table.Function(0), line)
	}
}
