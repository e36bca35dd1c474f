package perfevent

import (
	"github.com/ccmapd/ccmapd/internal/testrun"
	"runtime"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// TestWatchpoint watches words of this process, on one thread.
func TestWatchpoint(t *testing.T) {
	t.Parallel()
	testrun.Breakpoints(t, Silent())
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	tid := uint32(unix.Gettid())
	w, err := OpenWatchpoint(tid)
	if err != nil {
		skip(t, err)
	}
	defer w.Close()
	cells := make([]uint64, 2)
	expect := func(want bool, what string) {
		t.Helper()
		if dirty, err := w.Dirty(0); err != nil || dirty != want {
			t.Errorf("%s: dirty is %v, %v", what, dirty, err)
		}
	}
	arm := func(cell *uint64) {
		t.Helper()
		if err := w.Arm(uint64(uintptr(unsafe.Pointer(cell))), []uint32{tid}); err != nil {
			t.Fatal(err)
		}
	}
	for round := range 3 { // a watchpoint that was hit must work again
		arm(&cells[0])
		expect(false, "armed")
		cells[1]++
		expect(false, "another word was written")
		arm(&cells[1]) // moved without a hit
		cells[0]++
		expect(false, "the word watched before was written")
		for range 1000 {
			cells[1]++
		}
		expect(true, "written")
		if hits, _, err := readCount(w.events[tid]); err != nil || hits != 1 {
			t.Errorf("round %d: %d hits, %v; a watchpoint is good for one", round, hits, err)
		}
	}
	w.Forget(tid)
	expect(true, "the thread that wrote has ended")
	if err := w.Arm(8, nil); err == nil {
		t.Error("armed on no thread")
	}
}
