package perf

import (
	"context"
	"errors"
	"fmt"
	"github.com/ccmapd/ccmapd/internal/enginetest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/hang"
	"github.com/ccmapd/ccmapd/queue"
	"github.com/ccmapd/ccmapd/sampler"
	"golang.org/x/sys/unix"
)

// hangs starts a target with memory that never comes. Only root's userfaultfd holds up
// the kernel's own reads.
func hangs(t *testing.T, mode string) *enginetest.Target {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root for userfaultfd(2)")
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
// session, with everything detached.
func TestSampledMemoryHangs(t *testing.T) {
	g := hangs(t, "registers")
	for name, interrupt := range map[string]bool{"alone": false, "interrupted": true} {
		s, _ := attach(t, g.PID(), Options{Interval: time.Millisecond})
		within(t, g, func() {
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			before := hangingReads() // of sessions before
			go func() {
				for interrupt && ctx.Err() == nil {
					if time.Sleep(time.Millisecond); hangingReads() > before {
						cancel()
					}
				}
			}()
			if _, err := s.Run(ctx); !errors.Is(err, hang.ErrHung) {
				t.Errorf("%s: %v, want %v", name, err, hang.ErrHung)
			}
		})
		if n := len(s.drainer.rings); n > 0 {
			t.Errorf("%s: %d rings are left", name, n)
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
