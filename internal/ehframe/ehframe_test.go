package ehframe

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/ccmapd/ccmapd/internal/testrun"
)

func TestMain(m *testing.M) { os.Exit(testrun.Guard(m).Run()) }

// madeStack holds words by address.
type madeStack map[uint64]uint64

func (m madeStack) word(addr uint64) (uint64, bool) {
	v, ok := m[addr]
	return v, ok
}

// made builds sections: a CIE with the usual start of a function on amd64, and
// FDEs after it.
type made struct{ bytes.Buffer }

const madeAddr = 0x400000

func (m *made) entry(id uint32, body []byte) int {
	at := m.Len()
	for len(body)%4 != 0 {
		body = append(body, 0) // DW_CFA_nop
	}
	binary.Write(m, binary.LittleEndian, uint32(len(body)+4))
	binary.Write(m, binary.LittleEndian, id)
	m.Write(body)
	return at
}

func (m *made) common(augmentation string) {
	body := append([]byte{1}, augmentation...)
	body = append(body, 0, 1, 0x78, 16, 1, 0x1b, 0x0c, 7, 8, 0x90, 1) // code 1, data -8, RA 16; CFA = rsp+8, RA at CFA-8
	m.entry(0, body)
}

func (m *made) function(start uint64, size uint32, program ...byte) {
	at := m.Len()
	body := binary.LittleEndian.AppendUint32(nil, uint32(start-(madeAddr+uint64(at)+8)))
	body = binary.LittleEndian.AppendUint32(body, size)
	m.entry(uint32(at+4), append(append(body, 0), program...))
}

func (m *made) end() *Table {
	m.Write([]byte{0, 0, 0, 0})
	return New(m.Bytes(), madeAddr)
}

// unlimited is more steps than any row takes.
func unlimited() *int {
	steps := 1 << 30
	return &steps
}

// pushRBX is the frame of a function that begins with "push rbx" (1 byte) and "sub rsp,
// 16" (4 bytes), and undoes them from its 16th byte on.
var pushRBX = []byte{0x41, 0x0e, 16, 0x83, 2, 0x44, 0x0e, 32, 0x4b, 0x0e, 16, 0x41, 0x0e, 8}

func TestUp(t *testing.T) {
	t.Parallel()
	var m made
	m.common("zR")
	m.function(0x1000, 0x20, pushRBX...)
	m.function(0x1020, 0x20, 0x07, 16) // the return address is undefined: a root
	m.function(0x1040, 0x20, 0x0f, 4, 0x76, 0x78, 0x06, 0x96)
	tab := m.end()
	stack := madeStack{0x7f00 - 8: 0x1234, 0x7f00 - 16: 0xb, 0x8000: 0x9000, 0x9000 - 8: 0x4321}
	for _, c := range []struct {
		name       string
		pc, sp     uint64
		ending     Ending
		wantPC, rb uint64
	}{
		{"before the push", 0x1000, 0x7ef8, Stepped, 0x1234, 1},
		{"after the push", 0x1001, 0x7ef0, Stepped, 0x1234, 0xb},
		{"in the body", 0x1005, 0x7ee0, Stepped, 0x1234, 0xb},
		{"in the epilogue", 0x1011, 0x7ef8, Stepped, 0x1234, 1},
		{"off the stack", 0x1005, 0x100, Unreadable, 0, 1},
		{"root", 0x1020, 0x7ef8, AtRoot, 0, 1},
		{"expression", 0x1040, 0x7000, Stepped, 0x4321, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			row, ok := tab.Row(c.pc, unlimited())
			if !ok {
				t.Fatal("no row")
			}
			var f Frame
			f.Set(PC, c.pc)
			f.Set(SP, c.sp)
			f.Set(BX, 1)
			f.Set(BP, 0x8008)
			f.Set(R10, 3)
			before := f
			if got := row.Up(&f, stack.word); got != c.ending {
				t.Fatalf("ending %d, want %d", got, c.ending)
			}
			if c.ending != Stepped {
				if f != before {
					t.Error("the frame was changed")
				}
				return
			}
			if rbx, _ := f.Get(BX); f.PC() != c.wantPC || rbx != c.rb {
				t.Errorf("at %#x with rbx %#x", f.PC(), rbx)
			}
			if _, ok := f.Get(R10); ok {
				t.Error("a register that calls do not keep is still known")
			}
		})
	}
	if _, ok := tab.Row(0x1060, unlimited()); ok {
		t.Error("there is a row behind the last function")
	}
}

// TestFork: the code after the system call that makes a thread has a row, by which the old thread returns, and the
// new one has no caller.
func TestFork(t *testing.T) {
	t.Parallel()
	var m made
	m.common("zR")
	m.function(0x1000, 0x17)           // clone3, up to its system call
	m.function(0x1021, 0x10, 0x07, 16) // the new thread
	m.function(0x1040, 0x20)           // another function
	m.function(0x1067, 0x10)           // its neighbour
	m.function(0x10a0, 0x10, 0x07, 16) // a root, far from it
	tab := m.end()
	stack := madeStack{0x7000: 0x1045, 0x7100: 0x1040, 0x7200: 0x5000}
	for _, c := range []struct {
		name   string
		sp     uint64
		caller uint64 // 0: none
	}{
		{"old thread", 0x7000, 0x1045}, {"new thread, of clone", 0x7100, 0}, {"new thread, of clone3", 0x7200, 0}, {"new thread, without a stack", 0x7300, 0},
	} {
		row, ok := tab.Row(0x1019, unlimited())
		if !ok || !row.Fork || row.Entry != 0x1000 {
			t.Fatalf("row %+v, %v", row, ok)
		}
		var f Frame
		f.Set(PC, 0x1019)
		f.Set(SP, c.sp)
		how := row.Up(&f, stack.word)
		born := row.Born(&f, how, func(pc uint64) (*Row, bool) { return tab.Row(pc, unlimited()) })
		if born != (c.caller == 0) || !born && f.PC() != c.caller {
			t.Errorf("%s: born %v, at %#x, want caller %#x", c.name, born, f.PC(), c.caller)
		}
	}
	for _, pc := range []uint64{0xfff, 0x1060, 0x1080, 0x10b0} {
		if _, ok := tab.Row(pc, unlimited()); ok {
			t.Errorf("there is a row at %#x, between functions", pc)
		}
	}
}

// TestUnknownRefused: unknown input has no row, rather than a wrong one.
func TestUnknownRefused(t *testing.T) {
	t.Parallel()
	for name, build := range map[string]func(*made){
		"augmentation":         func(m *made) { m.common("zRQ"); m.function(0x1000, 16) },
		"instruction":          func(m *made) { m.common("zR"); m.function(0x1000, 16, 0x3f) },
		"recall of nothing":    func(m *made) { m.common("zR"); m.function(0x1000, 16, 0x0b) },
		"expression's length":  func(m *made) { m.common("zR"); m.function(0x1000, 16, 0x0f, 0xff, 0x7f) },
		"program cut off":      func(m *made) { m.common("zR"); m.function(0x1000, 16, 0x0c, 0x80, 0x80) },
		"FDE without a CIE":    func(m *made) { m.function(0x1000, 16) },
		"remembered too often": func(m *made) { m.common("zR"); m.function(0x1000, 16, bytes.Repeat([]byte{0x0a}, 9)...) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var m made
			build(&m)
			if row, ok := m.end().Row(0x1000, unlimited()); ok {
				t.Errorf("row %+v", row)
			}
		})
	}
}

// compiled returns the section of a freshly compiled C program, and the addresses of its
// functions.
func compiled(t testing.TB) (*elf.File, *Table) {
	t.Helper()
	if _, err := exec.LookPath("gcc"); err != nil {
		testrun.Lacks(t, "no C compiler: install gcc and libc6-dev")
	}
	dir := t.TempDir()
	source, program := filepath.Join(dir, "main.c"), filepath.Join(dir, "main")
	const text = `#include <stdlib.h>
#include <string.h>
#include <alloca.h>
static int compare(const void *a, const void *b) { return strcmp(a, b); }
__attribute__((noinline)) int aligned(int n) { char c[n] __attribute__((aligned(64))); memset(c, n, n); qsort(c, n, 1, compare); return c[0]; }
int main(int argc, char **argv) { char *p = alloca(argc * 100); memset(p, 1, argc); return aligned(argc) + p[argc]; }
`
	if err := os.WriteFile(source, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("gcc", "-O2", "-o", program, source).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	f, err := elf.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	s := f.Section(".eh_frame")
	b, err := s.Data()
	if err != nil {
		t.Fatal(err)
	}
	return f, New(b, s.Addr)
}

// TestCompiler: every instruction of gcc's functions and of the C library's start code
// has a row.
func TestCompiler(t *testing.T) {
	t.Parallel()
	f, tab := compiled(t)
	symbols, err := f.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"main", "aligned", "compare", "_start"} {
		found := false
		for _, s := range symbols {
			if s.Name != name {
				continue
			}
			found = true
			for pc := s.Value; pc < s.Value+s.Size; pc++ {
				if _, ok := tab.Row(pc, unlimited()); !ok {
					t.Errorf("no row for %s+%d", name, pc-s.Value)
				}
			}
		}
		if !found {
			t.Errorf("no symbol %s", name)
		}
	}
	if plt := f.Section(".plt"); plt != nil {
		if row, ok := tab.Row(plt.Addr+16+6, unlimited()); !ok || row.cfa.form != isExpr {
			t.Errorf("the row of the procedure linkage table is %+v", row)
		}
	}
}

// FuzzTable reads sections of any content, and applies each row to a stack that
// holds its own addresses.
func FuzzTable(f *testing.F) {
	var m made
	m.common("zR")
	m.function(0x1000, 0x20, pushRBX...)
	m.function(0x1040, 0x20, 0x0f, 4, 0x76, 0x78, 0x06, 0x96)
	m.function(0x1060, 0x20, 0x16, 6, 3, 0x77, 8, 0x06, 0x0a, 0x41, 0x0b, 0x2e, 3)
	m.function(0x108a, 0x10, 0x07, 16)
	m.end()
	f.Add(m.Bytes(), uint64(0x1004))
	f.Add([]byte{8, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 0x78}, uint64(0))
	f.Add([]byte{255, 255, 255, 255, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3, 'z', 'P', 0}, uint64(1))
	f.Fuzz(func(t *testing.T, section []byte, pc uint64) {
		tab := New(section, madeAddr)
		if len(tab.funcs) > len(section)/8 {
			t.Fatalf("%d functions in %d bytes", len(tab.funcs), len(section))
		}
		for _, at := range append([]uint64{pc}, starts(tab)...) {
			row, ok := tab.Row(at, unlimited())
			if !ok {
				continue
			}
			var frame Frame
			for r := range Registers {
				frame.Set(r, 0x7000+uint64(r)*8)
			}
			for range 8 {
				how := row.Up(&frame, func(addr uint64) (uint64, bool) { return addr + 16, addr%3 != 0 })
				born := row.Born(&frame, how, func(pc uint64) (*Row, bool) { return tab.Row(pc, unlimited()) })
				if born && !row.Fork {
					t.Fatalf("a thread begins at %#x", at)
				}
				if how != Stepped {
					break
				}
			}
		}
	})
}

// starts returns the addresses of the first functions.
func starts(t *Table) []uint64 {
	var pcs []uint64
	for _, f := range t.funcs[:min(len(t.funcs), 16)] {
		pcs = append(pcs, f.start, f.start+(f.end-f.start)/2, f.end+2) // the last is behind it
	}
	return pcs
}

func TestUpDoesNotAllocate(t *testing.T) {
	var m made
	m.common("zR")
	m.function(0x1000, 0x20, pushRBX...)
	row, ok := m.end().Row(0x1005, unlimited())
	if !ok {
		t.Fatal("no row")
	}
	word := func(uint64) (uint64, bool) { return 0x1005, true }
	if n := testing.AllocsPerRun(100, func() {
		var f Frame
		f.Set(SP, 0x7000)
		row.Up(&f, word)
	}); n > 0 {
		t.Errorf("a step allocates %v times", n)
	}
}

// TestStepsRunOut: a row takes some of the caller's steps, and there is no row without
// steps.
func TestStepsRunOut(t *testing.T) {
	t.Parallel()
	var m made
	m.common("zR")
	m.function(0x1000, 0x20, bytes.Repeat([]byte{0x0a, 0x0b}, 100)...) // remembers and recalls
	tab := m.end()
	steps := 100 * (2 + 2*stateSteps)
	enough := steps + 100
	if _, ok := tab.Row(0x1000, &enough); !ok || enough > 100 {
		t.Errorf("row: %t, %d steps left of %d", ok, enough, steps+100)
	}
	if _, ok := tab.Row(0x1000, &steps); ok || steps > 0 {
		t.Errorf("row: %t, %d steps left", ok, steps)
	}
	if _, ok := tab.Row(0x1000, &steps); ok {
		t.Error("a row without steps")
	}
}
