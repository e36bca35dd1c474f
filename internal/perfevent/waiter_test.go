package perfevent

import (
	"errors"
	"os"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ccmapd/ccmapd/internal/testrun"
)

// skip skips a test where perf events are not permitted, unless the run is a full one. Other programs
// may hold all debug registers in any run.
func skip(t testing.TB, err error) {
	t.Helper()
	if errors.Is(err, unix.ENOSPC) {
		t.Skip(err)
	}
	testrun.Lacks(t, "%v", err)
}

// sampleHere fills a prompt ring with samples of this thread, on one CPU.
func sampleHere(t *testing.T) *Ring {
	t.Helper()
	cpu, err := pin()
	if err != nil {
		t.Fatal(err)
	}
	r, err := OpenRing(cpu, RingBytes(1), 1)
	if err != nil {
		skip(t, err)
	}
	t.Cleanup(r.Close)
	timer, err := OpenTimer(Form{UserOnly: true, Dump: FirstDump}, time.Millisecond, unix.Gettid(), cpu)
	if err != nil {
		skip(t, err)
	}
	defer timer.Close()
	if err := timer.SendTo(r); err != nil {
		t.Fatal(err)
	}
	for !r.unread() { // each look is user code
	}
	timer.Stop()
	return r
}

// pin binds this thread to one of its CPUs.
func pin() (cpu int, err error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return 0, err
	}
	for !set.IsSet(cpu) {
		cpu++
	}
	set.Zero()
	set.Set(cpu)
	return cpu, unix.SchedSetaffinity(0, &set)
}

// TestNoRecordIsForgotten: epoll tells of a record once, perhaps to the runtime's
// poller while nobody waits. The record must end the next wait all the same.
func TestNoRecordIsForgotten(t *testing.T) {
	t.Parallel()
	runtime.LockOSThread() // and never unlocked: its thread is bound to a CPU
	self, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(self)
	w, err := NewWaiter(self)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	r := sampleHere(t)
	if err := w.Add(r, true); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Wait(time.Minute); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the first look is the poller's
		if ready, exited := w.look(); !ready || exited {
			t.Errorf("with records in a ring: ready %v, exited %v", ready, exited)
		}
	}
	if records := drain(t, r); records == 0 {
		t.Error("the ring has no record")
	}
	if ready, _ := w.look(); ready {
		t.Error("ready after all records were drained")
	}
}

// drain reads a ring to its end and decodes its samples.
func drain(t *testing.T, r *Ring) (records int) {
	t.Helper()
	r.Refresh()
	for {
		ok, err := r.Peek()
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			return records
		}
		s := Sample{CountsLost: true}
		if err := s.Decode(r.Next.Misc, r.Next.Body); r.Next.Kind == unix.PERF_RECORD_SAMPLE && (err != nil || int(s.PID) != os.Getpid()) {
			t.Errorf("sample of process %d, %v", s.PID, err)
		}
		r.Advance()
		r.Release()
		records++
	}
}
