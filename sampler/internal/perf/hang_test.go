package perf

import (
	"context"
	"errors"
	"fmt"
	"github.com/ccmapd/ccmapd/sampler/internal/enginetest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/hang"
	"github.com/ccmapd/ccmapd/internal/testrun"
	"github.com/ccmapd/ccmapd/queue"
	"github.com/ccmapd/ccmapd/sampler"
	"golang.org/x/sys/unix"
)

// hangs starts a target with memory that never comes. Only root's userfaultfd holds up
// the kernel's own reads.
func hangs(t *testing.T, mode string) *enginetest.Target {
	t.Helper()
	if os.Getuid() != 0 {
		testrun.Lacks(t, "only root may hold page faults of the kernel by userfaultfd(2)")
	}
	return enginetest.Start(t, enginetest.Build(t, "hangs"), mode)
}

// within fails the test if f does not return, and ends the target, which lets go of it.
func within(t *testing.T, g *enginetest.Target, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		f()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(3 * time.Minute):
		g.Cmd.Process.Kill()
		t.Error("it waits for the target's memory")
		<-done
	}
}

// TestSampledMemoryHangs: a target whose goroutine never comes out of memory ends the
// session, with everything detached. Another target of the same rings loses no sample by that.
func TestSampledMemoryHangs(t *testing.T) {
	testrun.Full(t, testrun.Minutes)
	g, path := hangs(t, "registers"), enginetest.Build(t, "workload")
	r := sharedRings(t)
	for name, hung := range map[string]func(stop func()){
		"another target": func(func()) {
			const runs = 20 // on a busy machine the reader of the rings may come too late for some
			for range runs {
				if _, s := enginetest.Whole(t, r.Open, enginetest.Start(t, path, "busy", "100"), Options{}); s.Stats().Loss.Samples() == 0 {
					return
				}
			}
			t.Errorf("the other target lost samples in each of %d runs", runs)
		},
		"interrupted": func(stop func()) { stop() },
	} {
		s, _ := enginetest.Attach(t, r.Open, g.PID(), Options{Interval: time.Millisecond})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		before := hangingReads() // of sessions before
		ended := make(chan error, 1)
		go func() {
			_, err := s.Run(ctx)
			ended <- err
		}()
		within(t, g, func() {
			for hangingReads() <= before {
				time.Sleep(time.Millisecond)
			}
		})
		hung(cancel)
		within(t, g, func() {
			if err := <-ended; !errors.Is(err, hang.ErrHung) {
				t.Errorf("%s: %v, want %v", name, err, hang.ErrHung)
			}
		})
		if n := r.files.open.Load() - int64(2*len(r.ofCPUs())); n != 0 || r.has(&s.drainer.seat) {
			t.Errorf("%s: %d events are left", name, n)
		}
	}
}

// hangingReads returns how many threads of this process wait in process_vm_readv, see
// proc_pid_syscall(5).
func hangingReads() (n int) {
	files, _ := filepath.Glob("/proc/self/task/*/syscall")
	for _, file := range files {
		if call, _ := os.ReadFile(file); strings.HasPrefix(string(call), fmt.Sprint(unix.SYS_PROCESS_VM_READV, " ")) {
			n++
		}
	}
	return n
}

// TestSymbolsHang: attaching to a target whose symbols never come fails.
func TestSymbolsHang(t *testing.T) {
	g := hangs(t, "modules")
	within(t, g, func() {
		s, err := Open(t.Context(), Options{PID: g.PID(), Sink: sampler.Sink{Queue: queue.New(queue.Options{}), Names: ccmap.NewNames()}})
		if err == nil {
			s.Close()
		}
		if !errors.Is(err, hang.ErrHung) {
			t.Errorf("open: %v, want %v", err, hang.ErrHung)
		}
	})
}
