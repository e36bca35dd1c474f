package supervise

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ccmapd/ccmapd/internal/hang"
	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/internal/refusal"
)

// fakeHost has processes whose executable has their number.
type fakeHost struct{ pinned, closed int }

type fakePin struct{ *fakeHost }

func (h *fakeHost) Pin(pid int) (Pin, error) {
	if pid == 0 {
		return nil, refusal.ErrNoProcess
	}
	h.pinned++
	return fakePin{h}, nil
}

func (fakePin) Gone() bool { return false }
func (p fakePin) Close()   { p.closed++ }

func (*fakeHost) File(pid int) (process.FileID, error) {
	if pid < 0 {
		return process.FileID{}, refusal.ErrPermission
	}
	return process.FileID{Inode: uint64(pid)}, nil
}

// opens returns an opener that counts, and answers an error.
func opens(n *int, err error) Opener {
	return Opener{Open: func(Pin, process.FileID) error { *n++; return err }}
}

// TestAttempt: a process is pinned while it is opened; what is refused before is not opened.
func TestAttempt(t *testing.T) {
	t.Parallel()
	h, n := new(fakeHost), 0
	g := NewGate(h, 1, Estranged)
	for _, c := range []struct {
		pid  int
		o    Opener
		want error
		n    int
	}{
		{pid: 1, o: opens(&n, nil), n: 1},
		{pid: 0, o: opens(&n, nil), want: refusal.ErrNoProcess, n: 1},
		{pid: -1, o: opens(&n, nil), want: refusal.ErrPermission, n: 1},
		{pid: 1, o: Opener{Check: func(Pin) error { return refusal.ErrNoProcess }}, want: refusal.ErrNoProcess, n: 1},
		{pid: 1, o: opens(&n, refusal.ErrUnsupported), want: refusal.ErrUnsupported, n: 2},
	} {
		if err := g.Attempt(t.Context(), Process{PID: c.pid}, c.o); !errors.Is(err, c.want) || n != c.n {
			t.Errorf("process %d: %v, %d were opened", c.pid, err, n)
		}
	}
	if h.pinned != 4 || h.closed != h.pinned {
		t.Errorf("%d were pinned, %d let go", h.pinned, h.closed)
	}
}

// TestStrangerIsNotOpened: of an executable that was neither Go nor a JVM no process is opened for a while, and all
// are once one was sampled.
func TestStrangerIsNotOpened(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n, g := 0, NewGate(new(fakeHost), 1, Estranged)
		for _, err := range []error{refusal.ErrNotManaged, nil} {
			g.Attempt(t.Context(), Process{PID: 1}, opens(&n, err))
		}
		if n != 1 || !g.IsStranger(process.FileID{Inode: 1}) {
			t.Errorf("%d were opened", n)
		}
		time.Sleep(Estranged.First)
		if err := g.Attempt(t.Context(), Process{PID: 1}, opens(&n, nil)); err != nil || n != 2 {
			t.Errorf("%v, %d were opened", err, n)
		}
		g.Attempt(t.Context(), Process{PID: 1}, opens(&n, refusal.ErrNotManaged))
		if time.Sleep(Estranged.First); g.IsStranger(process.FileID{Inode: 1}) {
			t.Error("an executable that was sampled is a stranger for long")
		}
	})
}

// TestHungIsReadOnce: a process that has cost a thread is not opened again, but its number is when it is another's.
// An owner has so many of them.
func TestHungIsReadOnce(t *testing.T) {
	t.Parallel()
	n, g := 0, NewGate(new(fakeHost), 1, Estranged)
	hung := opens(&n, fmt.Errorf("read: %w", hang.ErrHung))
	for pid := 1; pid <= 2*mostHung; pid++ {
		for range 2 {
			if err := g.Attempt(t.Context(), Process{PID: pid, Owner: 1}, hung); !errors.Is(err, hang.ErrHung) && !errors.Is(err, ErrHungOwner) {
				t.Errorf("process %d: %v", pid, err)
			}
		}
	}
	if n != mostHung || !g.IsFull(1) || g.IsFull(2) {
		t.Errorf("%d were opened, want %d", n, mostHung)
	}
	if err := g.Attempt(t.Context(), Process{PID: 1, Owner: 2, Started: 7}, opens(&n, nil)); err != nil {
		t.Errorf("another process of a number that hung: %v", err)
	}
	g.Freed(1)
	g.Forget(func(pid int) bool { return pid > 2 })
	if err := g.mayRead(Process{PID: 3, Owner: 1}); !errors.Is(err, hang.ErrHung) || g.IsFull(1) {
		t.Errorf("after the end of one: %v", err)
	}
}

// TestTurns: so many processes are opened at a time, and one that waits gives up with its context.
func TestTurns(t *testing.T) {
	t.Parallel()
	g := NewGate(new(fakeHost), 1, Estranged)
	done, err := g.Turn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errNo)
	if err := g.Attempt(ctx, Process{PID: 1}, Opener{}); !errors.Is(err, errNo) {
		t.Errorf("%v", err)
	}
	done()
	if _, err := g.Turn(t.Context()); err != nil {
		t.Error(err)
	}
}
