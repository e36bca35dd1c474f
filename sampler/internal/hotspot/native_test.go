package hotspot

import (
	"bufio"
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ccmapd/ccmapd/internal/gosym"
	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/internal/testrun"
)

// libc is the C library of a process.
type libc struct {
	path string
	bias uint64
	file *elf.File
}

func libcOf(t *testing.T, pid int) libc {
	t.Helper()
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		t.Fatal(err)
	}
	var l libc
	for line := range strings.Lines(string(maps)) {
		fields := strings.Fields(line)
		if l.path == "" && len(fields) == 6 && strings.HasPrefix(filepath.Base(fields[5]), "libc.so") {
			l.path = fields[5]
			fmt.Sscanf(fields[0], "%x-", &l.bias) // the first mapping is of the file's beginning
		}
	}
	if l.path == "" {
		testrun.Lacks(t, "no glibc in process %d", pid)
	}
	if l.file, err = elf.Open(l.path); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.file.Close() })
	return l
}

// function returns where an exported function begins, and its code.
func (l libc) function(t *testing.T, name string) (addr uint64, code []byte) {
	t.Helper()
	symbols, err := l.file.DynamicSymbols()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range symbols {
		if s.Name != name || s.Size == 0 {
			continue
		}
		text := l.file.Section(".text")
		code = make([]byte, s.Size)
		if _, err := text.ReadAt(code, int64(s.Value-text.Addr)); err != nil {
			t.Fatal(err)
		}
		return l.bias + s.Value, code
	}
	t.Fatalf("no function %s in %s", name, l.path)
	return 0, nil
}

// TestNewThread makes moments right after the system call in glibc's clone, where the library's call frame information
// has a gap: the new thread has no caller, and the old one has the function that called clone.
func TestNewThread(t *testing.T) {
	pid := startC(t)
	native, err := openNative(t.Context(), pid, gosym.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { native.table.Close() })
	l := libcOf(t, pid)
	clone, code := l.function(t, "clone")
	call := bytes.Index(code, []byte{0x0f, 0x05}) // syscall
	if call < 0 {
		t.Fatal("clone makes no system call")
	}
	first, _ := l.function(t, "puts")
	const sp = 0x7f0000000000
	for _, c := range []struct {
		name string
		word uint64 // at SP
		pcs  int
		end  ending
	}{
		{"new thread of clone", first, 1, endAtRoot},
		{"new thread of clone3", sp + 64, 1, endAtRoot},
		{"old thread", first + 1, 2, endOfStack},
	} {
		native.limitSteps()
		f := (&process.Registers{IP: clone + uint64(call) + 2, SP: sp}).Frame()
		stack := view{sp, binary.LittleEndian.AppendUint64(nil, c.word)}
		pcs, _, end := native.climb(&f, stack, nil, true)
		if len(pcs) != c.pcs || end != c.end {
			t.Errorf("%s: %x, ending %d, want %d functions, %d", c.name, pcs, end, c.pcs, c.end)
		}
	}
}

// startC starts a program in C, which waits.
func startC(t *testing.T) (pid int) {
	t.Helper()
	cmd := exec.Command("cat")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		testrun.Lacks(t, "start cat: %v", err)
	}
	t.Cleanup(func() {
		in.Close()
		cmd.Wait()
	})
	fmt.Fprintln(in, "ready") // once this comes back, the libraries are mapped
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	return cmd.Process.Pid
}
