package perfevent

import (
	"errors"
	"github.com/ccmapd/ccmapd/internal/testrun"
	"math"
	"os"
	"runtime"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// TestCPUWatch watches words of this process on all CPUs, while its thread writes.
func TestCPUWatch(t *testing.T) {
	w, cpus := openCPUWatch(t, os.Getpid())
	cells := newCells(t)
	expect := func(want bool, until int64, what string) {
		t.Helper()
		if dirty, err := w.Dirty(until); err != nil || dirty != want {
			t.Errorf("%s: dirty is %v, %v", what, dirty, err)
		}
	}
	arm := func(cell *uint64) {
		t.Helper()
		switch err := w.Arm(uint64(uintptr(unsafe.Pointer(cell))), cpus); {
		case errors.Is(err, unix.ENOSPC):
			skip(t, err) // opened again: others had all of them meanwhile
		case err != nil:
			t.Fatal(err)
		}
	}
	for range 3 { // a watchpoint that was hit must work again
		arm(&cells[0])
		expect(false, math.MaxInt64, "armed")
		cells[1]++
		expect(false, math.MaxInt64, "another word was written")
		arm(&cells[1]) // moved without a hit
		cells[0]++
		expect(false, math.MaxInt64, "the word watched before was written")
		before := Monotonic()
		for range 1000 {
			cells[1]++
		}
		expect(false, before, "not written until then")
		expect(true, Monotonic(), "written")
	}
	w.Close()
	if _, err := w.Dirty(0); !errors.Is(err, errNotArmed) {
		t.Errorf("closed: %v", err)
	}
	arm(&cells[0])
	cells[0]++
	expect(true, math.MaxInt64, "opened again")
}

// TestCPUWatchOfAnother: a write by another process leaves no verdict, and says so. Each
// round needs the event that the last one has used up.
func TestCPUWatchOfAnother(t *testing.T) {
	w, cpus := openCPUWatch(t, os.Getppid())
	cells := newCells(t)
	for range 3 {
		if err := w.Arm(uint64(uintptr(unsafe.Pointer(&cells[0]))), cpus); err != nil {
			t.Fatal(err)
		}
		before := Monotonic()
		cells[0]++
		if dirty, err := w.Dirty(before); dirty || err != nil {
			t.Errorf("before the write: dirty is %v, %v", dirty, err)
		}
		if _, err := w.Dirty(Monotonic()); !errors.Is(err, errDisturbed) {
			t.Errorf("after it: %v", err)
		}
	}
}

func TestCPUWatchRefuses(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, MostCPUs + 1} {
		if _, err := OpenCPUWatch(os.Getpid(), make([]int, n)); err == nil {
			t.Errorf("a watchpoint on %d CPUs", n)
		}
	}
}

// newCells returns words at an address that no other Go program has.
func newCells(t testing.TB) []uint64 {
	t.Helper()
	page, err := unix.Mmap(-1, 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Munmap(page) })
	return unsafe.Slice((*uint64)(unsafe.Pointer(&page[0])), len(page)/8)
}

func openCPUWatch(t testing.TB, pid int) (*CPUWatch, []uint32) {
	t.Helper()
	testrun.Breakpoints(t, Silent())
	cpus := []int{0}
	if n := runtime.NumCPU(); n > 1 {
		cpus = append(cpus, n-1)
	}
	runtime.LockOSThread()
	t.Cleanup(runtime.UnlockOSThread)
	var all, some unix.CPUSet
	list := make([]uint32, len(cpus))
	for i, cpu := range cpus {
		some.Set(cpu)
		list[i] = uint32(cpu)
	}
	if err := errors.Join(unix.SchedGetaffinity(0, &all), unix.SchedSetaffinity(0, &some)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.SchedSetaffinity(0, &all) })
	w, err := OpenCPUWatch(pid, cpus)
	if err != nil {
		skip(t, err)
	}
	t.Cleanup(w.Close)
	return w, list
}

// BenchmarkSwitch measures what a watchpoint adds to a context switch of two threads that
// hand a turn over: the median of paired differences.
func BenchmarkSwitch(b *testing.B) {
	for name, open := range map[string]func(*pair) (func(), error){
		"none":    func(*pair) (func(), error) { return func() {}, nil },
		"threads": (*pair).openWatchpoints,
		"CPUs": func(p *pair) (func(), error) {
			w, err := OpenCPUWatch(os.Getpid(), []int{p.cpu})
			if err != nil {
				return nil, err
			}
			return w.Close, nil
		},
	} {
		b.Run("watch="+name, func(b *testing.B) {
			p, err := newPair()
			if err != nil {
				b.Fatal(err)
			}
			defer p.close()
			var added []time.Duration
			for b.Loop() {
				without, with, err := compare(time.Now().Add(costTime), p.switchTime, func() (func(), error) { return open(p) })
				if err != nil {
					b.Skip(err)
				}
				added = append(added, with-without)
			}
			b.ReportMetric(float64(median(added)), "added-ns/switch")
		})
	}
}

// BenchmarkArm measures how long it takes to move a watchpoint.
func BenchmarkArm(b *testing.B) {
	cells := newCells(b)
	at := func(i int) uint64 { return uint64(uintptr(unsafe.Pointer(&cells[i%len(cells)]))) }
	b.Run("watch=CPUs", func(b *testing.B) {
		w, cpus := openCPUWatch(b, os.Getpid())
		for i := 0; b.Loop(); i++ {
			if err := w.Arm(at(i), cpus); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("watch=CPUs,hit", func(b *testing.B) {
		w, cpus := openCPUWatch(b, os.Getpid())
		for i := 0; b.Loop(); i++ {
			if err := w.Arm(at(i), cpus); err != nil {
				b.Fatal(err)
			}
			cells[i%len(cells)]++
		}
	})
	b.Run("watch=thread", func(b *testing.B) {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		tid := uint32(unix.Gettid())
		w, err := OpenWatchpoint(tid)
		if err != nil {
			b.Skip(err)
		}
		defer w.Close()
		for i := 0; b.Loop(); i++ {
			if err := w.Arm(at(i), []uint32{tid}); err != nil {
				b.Fatal(err)
			}
		}
	})
}
