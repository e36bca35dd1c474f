package process

import (
	"os"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

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
	n, err := switchesOf(pid, tid)
	if err != nil {
		t.Fatal(err)
	}
	most, err := statusSwitches(pid, tid)
	if err != nil {
		t.Fatal(err)
	}
	if n < least || n > most+1 {
		t.Errorf("%d switches, want %d to %d", n, least, most+1)
	}
	if _, err := switchesOf(pid, 1<<30); err == nil {
		t.Error("a thread that does not exist has switches")
	}
}
