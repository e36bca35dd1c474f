package process

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

func TestParseCPUList(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		list string
		want []int
	}{
		{"0", []int{0}},
		{"0-3", []int{0, 1, 2, 3}},
		{"0-1,4,6-7", []int{0, 1, 4, 6, 7}},
	} {
		got, err := parseCPUList(c.list)
		if err != nil || !cmp.Equal(got, c.want) {
			t.Errorf("parse %q: %v, %v; want %v", c.list, got, err, c.want)
		}
	}
	for _, bad := range []string{"", "x", "3-1", "-1", "0-99999999", "0,,1"} {
		if got, err := parseCPUList(bad); err == nil {
			t.Errorf("parse %q: got %v, want an error", bad, got)
		}
	}
}

func TestParseStat(t *testing.T) {
	t.Parallel()
	fields := strings.Fields(strings.Repeat("0 ", 50))
	fields[0], fields[1], fields[6], fields[11], fields[12], fields[49] = "Z", "7", "2097152", "17", "4", "256"
	copy(fields[23:], []string{"1", "22", "333"})
	got, err := parseStat("12 (a) (b ) c) " + strings.Join(fields, " "))
	if err != nil || !got.Zombie() || !got.KernelThread() || got.exitCode != 256 || got.user != 17 || got.kernel != 4 || got.Addresses != "1 22 333" || got.Name != "a) (b ) c" || got.Parent != 7 {
		t.Errorf("got %+v, %v", got, err)
	}
	for _, bad := range []string{"", "1 (x) R", "1 (x"} {
		if _, err := parseStat(bad); err == nil {
			t.Errorf("%q was taken for a process state", bad)
		}
	}
}

func TestDescribeExit(t *testing.T) {
	t.Parallel()
	for status, want := range map[unix.WaitStatus]string{
		0:   "target exited with code 0",
		768: "target exited with code 3",
		9:   "target was killed by SIGKILL",
	} {
		if got := describeExit(status); got != want {
			t.Errorf("status %d: %q, want %q", status, got, want)
		}
	}
}

// TestSwitches counts the switches of this process, of which a thread makes some hundred.
func TestSwitches(t *testing.T) {
	t.Parallel()
	s := NewSwitches(os.Getpid())
	if !s.Due(time.Now()) {
		t.Error("the first reading is not due")
	}
	if s.Read(); s.Total != 0 {
		t.Fatalf("%d switches at the first reading", s.Total)
	}
	const naps = 200
	done := make(chan struct{})
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		nap := unix.NsecToTimespec(1000)
		for range naps {
			unix.Nanosleep(&nap, nil)
		}
		close(done)
	}()
	<-done
	if s.Due(time.Time{}) || !s.Due(time.Now().Add(time.Hour)) {
		t.Error("the second reading is not due later")
	}
	if s.Read(); s.Total < naps {
		t.Errorf("%d switches, want %d at least", s.Total, naps)
	}
}

// Both files of a thread tell the same number, but for a switch or two between the reads.
func TestSwitchesOfThread(t *testing.T) {
	t.Parallel()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	pid, tid := os.Getpid(), uint32(unix.Gettid())
	least, err := statusSwitches(pid, tid)
	if err != nil {
		t.Fatal(err)
	}
	n, err := SwitchesOf(pid, tid)
	if err != nil {
		t.Fatal(err)
	}
	most, err := statusSwitches(pid, tid)
	if err != nil {
		t.Fatal(err)
	}
	few := 1 + least/50 // the kernel counts the two apart: at load 50 one of 469 was missing
	if n < least-few || n > most+1 {
		t.Errorf("%d switches, want %d to %d", n, least-few, most+1)
	}
	if _, err := SwitchesOf(pid, 1<<30); err == nil {
		t.Error("a thread that does not exist has switches")
	}
}

func TestReadMany(t *testing.T) {
	t.Parallel()
	const ranges = MostRanges + 100
	memory := make([]byte, ranges)
	addrs, bufs := make([]uint64, ranges), make([][]byte, ranges)
	for i := range memory {
		memory[i] = byte(i)
		addrs[i], bufs[i] = uint64(uintptr(unsafe.Pointer(&memory[i]))), make([]byte, 1)
	}
	m := MemoryOf(os.Getpid(), nil)
	if n, err := m.ReadMany(addrs, bufs); n != ranges || err != nil {
		t.Fatalf("filled %d of %d: %v", n, ranges, err)
	}
	for i, b := range bufs {
		if b[0] != byte(i) {
			t.Fatalf("range %d has %d, want %d", i, b[0], byte(i))
		}
	}
	for _, bad := range []int{0, 7, MostRanges, ranges - 1} {
		good := addrs[bad]
		addrs[bad] = 8 // the first page is never mapped
		if n, err := m.ReadMany(addrs, bufs); n != bad || err == nil {
			t.Errorf("filled %d before the bad range %d: %v", n, bad, err)
		}
		addrs[bad] = good
	}
	runtime.KeepAlive(memory)
}

// TestReadFile: a file is read whole up to the bound, and one that there is not is an error as of package os.
func TestReadFile(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for _, size := range []int{0, 1, firstRead - 1, firstRead, firstRead + 1, maxProcFile, maxProcFile + 1} {
		want := strings.Repeat("abcdefg\x00", size/8+1)[:size]
		path := fmt.Sprintf("%s/%d", folder, size)
		if err := os.WriteFile(path, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := readFile(path); err != nil || string(got) != want[:min(size, maxProcFile)] {
			t.Errorf("%d bytes: read %d, %v", size, len(got), err)
		}
	}
	if _, err := readFile(folder + "/none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
	if _, err := readFile(folder); !errors.Is(err, unix.EISDIR) {
		t.Errorf("a folder: %v", err)
	}
}
