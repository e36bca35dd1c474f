package hotspot

import (
	"context"
	"encoding/binary"
	"errors"
	"log/slog"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/hang"
	"github.com/ccmapd/ccmapd/internal/jvm/jvmtest"
	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/sampler"
)

func openJVM(t testing.TB, pid int) *Process {
	t.Helper()
	p, err := Open(context.Background(), sampler.ProcessOptions{PID: pid, Logger: slog.New(slog.DiscardHandler)}, new(hang.Watch))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// momentOf stops a thread, and returns its registers with the next pages of its stack.
func momentOf(pid int, tid uint32) (*process.Moment, error) {
	m := &process.Moment{TID: tid, HasRegs: true}
	memory := process.MemoryOf(pid, nil)
	err := jvmtest.Stop(tid, func(r *unix.PtraceRegs) {
		m.Regs = process.Registers{BX: r.Rbx, BP: r.Rbp, SP: r.Rsp, IP: r.Rip, R10: r.R10, R12: r.R12, R13: r.R13, R14: r.R14, R15: r.R15}
		for page := make([]byte, 4096-r.Rsp%4096); len(m.Stack) < 64<<10; page = make([]byte, 4096) {
			if memory.Read(r.Rsp+uint64(len(m.Stack)), page) != nil {
				return
			}
			m.Stack = append(m.Stack, page...)
		}
		m.Cut = true
	})
	return m, err
}

// shown returns the names of the frames of a moment, innermost first.
func (p *Process) shown(m *process.Moment) (all []string, rooted bool) {
	var st process.Stack
	names := ccmap.NewNames()
	p.Unwind(m, &st)
	for _, f := range p.Frames(&st, names, nil) {
		all = append(all, names.At(f.Method).Name)
	}
	return all, st.Rooted
}

// underStub returns a moment in which C has called a stub of the JVM's. It returns behind where C stands: where C
// stands at the first byte of a function, what returns there is a call of the function before.
func underStub(t *testing.T, p *Process, m *process.Moment) *process.Moment {
	t.Helper()
	at, _ := p.vm.Static("StubRoutines._call_stub_return_address")
	stub, err := p.vm.Word(at)
	if err != nil || stub == 0 {
		t.Fatalf("no stub at %#x: %v", at, err)
	}
	under := *m
	under.Stack = append(binary.LittleEndian.AppendUint64(nil, m.Regs.IP+1), m.Stack...)
	under.Regs.IP, under.Regs.SP = stub, m.Regs.SP-8
	return &under
}

// TestOwnThreads looks at the threads that the JVM has for itself: from their first function
// that has a name, also where C has called a stub.
func TestOwnThreads(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine reads the stacks")
	}
	for _, jdk := range jvmtest.JDKs(t) {
		t.Run(jdk.Name, func(t *testing.T) {
			j := jdk.Start(t, []string{"-XX:+UseG1GC"}, "Loop") // on one CPU the JVM takes a collector without threads
			p := openJVM(t, j.PID)
			tids, err := process.Threads(j.PID)
			if err != nil {
				t.Fatal(err)
			}
			seen := map[string]bool{}
			for _, tid := range tids {
				purpose := purposeOf(p.threadName(tid))
				if purpose == "" {
					continue
				}
				m, err := momentOf(j.PID, tid)
				if errors.Is(err, unix.ESRCH) {
					continue // compilers come and go
				}
				if err != nil {
					t.Fatal(err)
				}
				frames, rooted := p.shown(m)
				n := len(frames)
				if !rooted || n < 3 || frames[n-1] != purpose || frames[n-2] == ccmap.UnknownName {
					t.Errorf("%s: rooted %v, %q", p.threadName(tid), rooted, frames)
					continue
				}
				seen[purpose] = true
				if got, rooted := p.shown(underStub(t, p, m)); !rooted || !slices.Equal(got, frames) {
					t.Errorf("%s under a stub: rooted %v, %q, want %q", p.threadName(tid), rooted, got, frames)
				}
			}
			for _, purpose := range []string{gcName, jitName, vmName} {
				if !seen[purpose] {
					t.Errorf("no thread %s", purpose)
				}
			}
		})
	}
}
