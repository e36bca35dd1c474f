package hang

import (
	"context"
	"errors"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

// TestRun: work whose calls return ends as without Run.
func TestRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var w Watch
		calls := 0
		err := w.Run(t.Context(), func() {
			for range 10 {
				if err := w.Call(func() error { time.Sleep(patience - 1); calls++; return nil }); err != nil {
					t.Error(err)
				}
			}
			time.Sleep(time.Hour) // work without calls may take any time
		})
		if err != nil || calls != 10 || w.hung() {
			t.Errorf("%d calls, %v", calls, err)
		}
	})
}

// TestHung: a call that does not return is given up, soon after the context is done, and
// the work does not run on when the call returns.
func TestHung(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		cancel bool
		within time.Duration
	}{"alone": {false, 2*patience + 1}, "with its context": {true, 2*hurry + 1}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				w := Watch{look: func(int) glance { return glance{waits: "7", where: "handle_userfault"} }}
				release, ranOn := make(chan struct{}), false
				begin := time.Now()
				if c.cancel {
					time.AfterFunc(time.Nanosecond, cancel)
				}
				err := w.Run(ctx, func() {
					_ = w.Call(func() error { <-release; return nil })
					ranOn = true
				})
				if took := time.Since(begin); !errors.Is(err, ErrHung) || !strings.HasSuffix(err.Error(), "in handle_userfault") || took > c.within {
					t.Errorf("%v after %v, want %v within %v", err, took, ErrHung, c.within)
				}
				if err := w.Call(func() error { t.Error("called again"); return nil }); !errors.Is(err, ErrHung) {
					t.Errorf("the next call: %v", err)
				}
				if err := w.Run(ctx, func() { t.Error("run again") }); !errors.Is(err, ErrHung) {
					t.Errorf("the next run: %v", err)
				}
				close(release)
				synctest.Wait()
				if ranOn {
					t.Error("the work ran on")
				}
			})
		})
	}
}

// TestBusyMachine: a call whose thread gets no processor, or needs it for long, or reads page after page, is
// waited for, unless it never ends.
func TestBusyMachine(t *testing.T) {
	t.Parallel()
	var looks atomic.Int32
	lacks := func(int) glance { return glance{lacks: true} }
	readsOn := func(int) glance {
		return glance{waits: strconv.Itoa(int(looks.Add(1))), where: "folio_wait_bit_common"}
	}
	for name, c := range map[string]struct {
		look  func(int) glance
		over  bool // the context is done
		takes time.Duration
		want  error
	}{
		"slow": {lacks, false, busy - patience, nil}, "endless": {lacks, false, 2 * busy, ErrHung},
		"slow at the end": {lacks, true, busyOver - hurry, nil}, "endless at the end": {lacks, true, 2 * busyOver, ErrHung},
		"many pages": {readsOn, false, busy - patience, nil}, "endless pages": {readsOn, false, 2 * busy, ErrHung},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if c.over {
					cancel()
				}
				w := Watch{look: c.look}
				if err := w.Run(ctx, func() {
					_ = w.Call(func() error { time.Sleep(c.takes); return nil })
				}); !errors.Is(err, c.want) {
					t.Errorf("%v, want %v", err, c.want)
				}
				time.Sleep(c.takes) // the call ends
			})
		})
	}
}

// TestLookAt asks about a running thread, and about a waiting one.
func TestLookAt(t *testing.T) {
	t.Parallel()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if !lookAt(unix.Gettid()).lacks {
		t.Error("the thread that asks does not run")
	}
	waits := make(chan int)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		waits <- unix.Gettid()
		_, _ = unix.Read(int(r.Fd()), make([]byte, 1)) // r is blocking: Fd makes it so
		close(waits)
	}()
	thread := <-waits
	g := lookAt(thread)
	for ; g.lacks || g.where == "" || g.where == "0" || strings.HasPrefix(g.where, "futex"); g = lookAt(thread) { // until it reads
		time.Sleep(time.Millisecond)
	}
	if g.waits == "" || g.goesOn(g) {
		t.Errorf("%+v: it waits", g)
	}
	w.Close()
	<-waits
	r.Close()
	if lookAt(1<<30) != (glance{}) {
		t.Error("a thread that is not there runs")
	}
}

// TestWaitsForLock: where Linux 6.18 says that threads waited which read the memory and the maps of a process that
// changed the protection of a GiB over and over.
func TestWaitsForLock(t *testing.T) {
	t.Parallel()
	for where, want := range map[string]bool{
		"process_vm_rw_core.constprop.0": true, "__access_remote_vm": true, "lock_next_vma": true, "m_start": true,
		"handle_userfault": false, "fuse_get_req": false, "folio_wait_bit_common": false, "0": false, "": false,
	} {
		if got := waitsForLock([]byte(where)); got != want {
			t.Errorf("%q: %v, want %v", where, got, want)
		}
	}
}

// TestNoWatch: a nil watch makes calls.
func TestNoWatch(t *testing.T) {
	t.Parallel()
	var w *Watch
	called := false
	if err := w.Call(func() error { called = true; return nil }); err != nil || !called {
		t.Errorf("called %v, %v", called, err)
	}
}

func BenchmarkCall(b *testing.B) {
	var w Watch
	for b.Loop() {
		if w.Enter() == nil {
			w.Leave()
		}
	}
}
