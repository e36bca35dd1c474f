package gosym

import (
	"os"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// openSelf opens the test's own process.
func openSelf(tb testing.TB) *Table {
	tb.Helper()
	return openProcess(tb, os.Getpid())
}

// runtimeFrame is what the runtime and this package both tell of a frame.
type runtimeFrame struct {
	Name, File      string
	StartLine, Line int
}

// throughRuntime expands a return address as the runtime does. It expands
// inlined calls only where another address follows, hence the sentinel.
func throughRuntime(pc uint64) []runtimeFrame {
	sentinel := reflect.ValueOf(throughRuntime).Pointer() + 1
	var out []runtimeFrame
	frames := runtime.CallersFrames([]uintptr{uintptr(pc), sentinel})
	for {
		f, more := frames.Next()
		if !more {
			return out
		}
		startLine := reflect.ValueOf(f).FieldByName("startLine").Int()
		out = append(out, runtimeFrame{f.Function, f.File, int(startLine), f.Line})
	}
}

// printed writes a symbol name as the runtime prints it.
func printed(name string) string {
	i, j := strings.IndexByte(name, '['), strings.LastIndexByte(name, ']')
	if i < 0 || j <= i {
		return name
	}
	return name[:i] + "[...]" + name[j+1:]
}

// throughTable expands a return address, wrappers included.
func throughTable(table *Table, pc uint64) []runtimeFrame {
	m := table.module(pc)
	r, _ := m.find(pc)
	if pc > r.entry {
		pc--
	}
	var out []runtimeFrame
	for i, f := range m.expand(testBudget(), r, pc, nil) {
		if f.ID == FuncWrapper && i > 0 {
			continue // the runtime leaves out wrappers, but for the innermost
		}
		out = append(out, runtimeFrame{printed(f.Name), f.File, int(f.StartLine), int(f.Line)})
	}
	return out
}

// unify takes back the two differences that are meant: an unknown file is
// empty, and the name at offset 0 of the table is a name.
func unify(want, got []runtimeFrame, nameAtZero string) {
	for i := range min(len(want), len(got)) {
		if want[i].File == "?" && got[i].File == "" {
			want[i].File = ""
		}
		if want[i].Name == "" && got[i].Name == nameAtZero {
			want[i].Name = got[i].Name
		}
	}
}

// TestExpansionIsTheRuntimes compares the logical frames at every seventh
// address of every function of this binary with the runtime's.
func TestExpansionIsTheRuntimes(t *testing.T) {
	t.Parallel()
	table := openSelf(t)
	m := table.modules[0]
	compared, inlined := 0, 0
	for i := range m.nfunc {
		r, ok := m.record(i)
		if !ok {
			t.Fatalf("record %d", i)
		}
		for pc := r.entry; pc < r.end; pc += 7 {
			want, got := throughRuntime(pc), throughTable(table, pc)
			unify(want, got, m.name(0))
			if !slices.Equal(want, got) {
				t.Fatalf("frames at %#x of %s (-runtime +table):\n%s", pc, m.name(r.nameOff), cmp.Diff(want, got))
			}
			compared++
			if len(want) > 1 {
				inlined++
			}
		}
	}
	t.Logf("%d addresses in %d functions compared, %d inlined", compared, m.nfunc, inlined)
	if inlined == 0 {
		t.Fatal("nothing was inlined")
	}
}
