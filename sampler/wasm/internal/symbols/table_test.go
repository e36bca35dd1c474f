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

	"github.com/ccmapd/ccmapd/internal/testrun"
	"github.com/ccmapd/ccmapd/sampler/wasm/internal/debuginfo"
	"github.com/google/go-cmp/cmp"
)

func TestMain(m *testing.M) { os.Exit(testrun.Guard(m).Run()) }

var update = flag.Bool("update", false, "write the golden files again: go test ./sampler/wasm/internal/symbols -update")

// read reads a module of testdata, which testdata/build.sh makes.
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

// describe prints everything in a table. For each function it also prints the offsets
// where the line changes.
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

// All versions of DWARF describe a program alike.
func TestVersionsAgree(t *testing.T) {
	t.Parallel()
	if diff := cmp.Diff(describe(read(t, "dwarf4.wasm")), describe(read(t, "dwarf5.wasm"))); diff != "" {
		t.Errorf("(-version 4 +version 5):\n%s", diff)
	}
}

// The modules of wazero's own tests come from other compilers. The test reads where a
// function of each is declared, and where it calls.
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

// wazero returns the folder of the wazero module that this module depends on.
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

// Many goroutines may ask before any has read the DWARF.
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

// The module's size bounds the cost of its DWARF. After the bound nothing more is known.
func TestBudget(t *testing.T) {
	t.Parallel()
	table := read(t, "dwarf5.wasm")
	for table.lines.budget.Keep(1 << 10) {
	}
	for i := range table.Len() {
		if f := table.Function(i); f.File != "" || table.Line(i, 1) != 0 || f.Name == "" {
			t.Errorf("%+v is known without reading", f)
		}
	}
}

// Repeated requests spend the budget once.
func TestAskingAgainIsFree(t *testing.T) {
	t.Parallel()
	table := read(t, "dwarf5.wasm")
	first := describe(table)
	left := *table.lines.budget
	if again := describe(table); again != first || *table.lines.budget != left {
		t.Errorf("%+v is left, then %+v\n%s", left, *table.lines.budget, cmp.Diff(first, again))
	}
}

// Dropped code and missing lines have no rows.
func TestRowsOfDroppedCode(t *testing.T) {
	t.Parallel()
	c := rowCollector{l: &lineInfo{code: 100, budget: debuginfo.NewBudget(0)}}
	c.beginSequence()
	for _, r := range []debuginfo.Row{
		{Address: 0, Line: 1}, {Address: 9, End: true}, // at 0
		{Address: 10, Line: 2, File: 3}, {Address: 12, Line: 0}, {Address: 14, Line: 4}, {Address: 16, End: true},
		{Address: 20, Line: 5}, {Address: 20, End: true}, // empty
		{Address: 90, Line: 6}, {Address: 101, End: true}, // beyond the code
		{Address: 30, Line: 7}, // without an end
	} {
		c.add(&r)
	}
	want := rows{{address: 10, line: 2, file: 3}, {address: 14, line: 4}, {address: 16}}
	if diff := cmp.Diff(want, c.rows[:c.sequence], cmp.AllowUnexported(row{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
