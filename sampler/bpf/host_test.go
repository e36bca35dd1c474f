package bpf

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/enginetest"
	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/internal/taker"
	"github.com/ccmapd/ccmapd/queue"
	"github.com/ccmapd/ccmapd/sampler"
	"golang.org/x/sys/unix"
)

// openHost opens a host, which is closed when the test ends.
func openHost(t *testing.T) *Host {
	t.Helper()
	h, err := OpenHost(nil)
	if err != nil {
		enginetest.SkipUnlessPermitted(t, err)
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close() })
	return h
}

// TestSeveralTargets: several sources share a host, each with its interval, and each gets
// the samples of its own target, which stand for its CPU time.
func TestSeveralTargets(t *testing.T) {
	t.Parallel()
	h := openHost(t)
	path := enginetest.Build(t, "workload")
	for _, c := range []struct {
		function string
		interval time.Duration
		args     []string
	}{
		{"main.calls", 2 * time.Millisecond, []string{"calls", "20", "40"}},
		{"main.threads.func1", 5 * time.Millisecond, []string{"threads", "8"}},
		{"main.mixed", 20 * time.Millisecond, []string{"busy", "1000"}},
	} {
		t.Run(c.function, func(t *testing.T) {
			t.Parallel()
			g := enginetest.Start(t, path, c.args...)
			s, sink := enginetest.Attach(t, h.Open, g.PID(), Options{Interval: c.interval, Watchpoints: -1, HitBudget: -1})
			g.Proceed(t)
			samples, _ := enginetest.Collect(t, s, sink)
			g.Wait(t)
			own := 0
			var seen time.Duration
			for _, smp := range samples {
				seen += time.Duration(smp.Weight)
				if smp.Has(c.function) {
					own++
				}
			}
			if own == 0 || own < len(samples)/2 {
				t.Errorf("%d of %d samples are in %s", own, len(samples), c.function)
			}
			loss := s.Stats().Loss
			if loss.Clock <= 0 || seen+loss.Unaccounted != loss.Clock {
				t.Errorf("samples stand for %v, %v are unaccounted for, the clock says %v", seen, loss.Unaccounted, loss.Clock)
			}
			t.Logf("%d samples stand for %v, the clock says %v", len(samples), seen, loss.Clock)
		})
	}
}

// TestTwice: a host samples a process once at a time.
func TestTwice(t *testing.T) {
	t.Parallel()
	h := openHost(t)
	g := enginetest.Start(t, enginetest.Build(t, "workload"), "busy", "60000")
	s, _ := enginetest.Attach(t, h.Open, g.PID(), Options{})
	sink := sampler.Sink{Queue: queue.New(queue.Options{}), Names: ccmap.NewNames()}
	if _, err := h.Open(context.Background(), Options{PID: g.PID(), Sink: sink}); err == nil || !strings.Contains(err.Error(), "sampled already") {
		t.Errorf("second source: %v", err)
	}
	s.Close()
	again, _ := enginetest.Attach(t, h.Open, g.PID(), Options{})
	again.Close()
}

// TestGrowingStacks: a function whose stack is about to be moved has its callers. Samples
// from before the copies have become long enough have not: on a busy machine a third.
func TestGrowingStacks(t *testing.T) {
	t.Parallel()
	samples, _ := enginetest.Open(func(ctx context.Context, o Options) (enginetest.Source, error) { return Open(ctx, o) }).
		SampleWhole(t, Options{Interval: time.Millisecond}, enginetest.Build(t, "workload"), "grow", "1500")
	growing, whole := 0, 0
	for _, smp := range samples {
		if !smp.Has("runtime.newstack") || !smp.Has("runtime.copystack") {
			continue
		}
		growing++
		if smp.Has("main.deepen") && smp.Has("main.grow.func1") && !smp.Truncated {
			whole++
		}
	}
	if growing == 0 || whole < growing/2 {
		t.Errorf("of %d stacks that grow, in %d samples, %d are whole", growing, len(samples), whole)
	}
	t.Logf("of %d stacks that grow, in %d samples, %d are whole", growing, len(samples), whole)
}

// TestReusedNumber: a process that has the number of a target, but began at another time,
// leaves no record.
func TestReusedNumber(t *testing.T) {
	t.Parallel()
	h := openHost(t)
	g := enginetest.Start(t, enginetest.Build(t, "workload"), "busy", "60000")
	s := joined(t, h, g.PID(), func(e *programTarget) { e.Started++ })
	g.Proceed(t)
	for h.counted(reused) == 0 {
		time.Sleep(time.Millisecond)
	}
	h.drain()
	if s.inbox.waiting() {
		t.Error("another process than the target left a record")
	}
}

// TestInPIDNamespace: a target in a PID namespace has other numbers inside.
func TestInPIDNamespace(t *testing.T) {
	t.Parallel()
	h := openHost(t)
	cmd := exec.Command(enginetest.Build(t, "workload"), "busy", "300")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID}
	g := enginetest.StartCommand(t, cmd)
	s, sink := enginetest.Attach(t, h.Open, g.PID(), Options{Interval: time.Millisecond})
	g.Proceed(t)
	samples, ending := enginetest.Collect(t, s, sink)
	if len(samples) == 0 || !ending.Exited {
		t.Errorf("%d samples, ending %+v", len(samples), ending)
	}
}

// TestHostileTarget: descriptors that lie make records that are bounded, and hold nothing
// but the target's own memory, though records of another process come between.
func TestHostileTarget(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip("needs a C compiler")
	}
	h := openHost(t)
	program := filepath.Join(t.TempDir(), "liar")
	if out, err := exec.Command("gcc", "-O1", "-o", program, "testdata/liar.c").CombinedOutput(); err != nil {
		t.Fatalf("compile: %v\n%s", err, out)
	}
	g := enginetest.Start(t, program)
	goodOne := enginetest.Start(t, enginetest.Build(t, "workload"), "busy", "60000")
	s := joined(t, h, g.PID(), func(e *programTarget) {
		e.HasLayout, e.G_m, e.G_schedSp, e.M_g0, e.M_curg = 1, 48, 56, 0, 184
	})
	good, _ := enginetest.Attach(t, h.Open, goodOne.PID(), Options{})
	defer good.Close()
	g.Proceed(t)
	goodOne.Proceed(t)
	memory := process.MemoryOf(g.PID(), nil)
	var r record
	for seen := 0; seen < 300; {
		h.drain()
		for rest := s.inbox.swap(nil); len(rest) > 0; seen++ {
			var raw []byte
			raw, rest = next(rest)
			if most := headBytes + objectsBytes + 2*mostStack; len(raw) > most {
				t.Fatalf("a record has %d bytes, more than %d", len(raw), most)
			}
			if err := r.decode(raw); err != nil {
				t.Fatal(err)
			}
			checkOwn(t, memory, &r, raw)
		}
		time.Sleep(time.Millisecond)
	}
}

// checkOwn wants a record to have only bytes that can be the target's: those of its stack,
// and zeros where an object is missing.
func checkOwn(t *testing.T, memory process.Memory, r *record, raw []byte) {
	t.Helper()
	for i := range r.objects {
		object := raw[headBytes+i*objectBytes:][:objectBytes]
		if r.Pieces[firstObject+i].Bytes == 0 && len(bytes.Trim(object, "\x00")) > 0 {
			t.Fatalf("object %d was not taken, but the record has bytes of it", i)
		}
	}
	now := make([]byte, len(r.moment.Stack))
	if len(now) == 0 || r.moment.Kernel {
		return
	}
	if err := memory.Read(r.moment.Regs.SP, now); err != nil {
		t.Fatalf("the record has memory that cannot be read: %v", err)
	}
	if !bytes.Equal(now, r.moment.Stack) {
		t.Error("the record's stack is not the target's")
	}
}

// joined makes a host sample a process without taking the records.
func joined(t *testing.T, h *Host, pid int, change func(*programTarget)) *Source {
	t.Helper()
	stat, err := process.ReadStat(pid)
	if err != nil {
		t.Fatal(err)
	}
	s := &Source{host: h, t: &taker.Taker{PID: pid, Pidfd: -1}, interval: time.Millisecond}
	s.entry = programTarget{Started: stat.Started, MaxStack: mostStack}
	change(&s.entry)
	if err := h.join(s); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.forget(s) })
	return s
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		arch, release, namespace string
		types                    error
		want                     string
	}{
		{"amd64", "6.18.4-vm", initialPIDs, nil, ""},
		{"amd64", "5.15.0", initialPIDs, nil, ""},
		{"amd64", "5.14.21", initialPIDs, nil, "needs Linux 5.15, this is 5.14.21"},
		{"amd64", "4.19.0", initialPIDs, nil, "needs Linux 5.15"},
		{"arm64", "6.18.4", initialPIDs, nil, "not of arm64"},
		{"amd64", "6.18.4", initialPIDs, os.ErrNotExist, "CONFIG_DEBUG_INFO_BTF"},
		{"amd64", "6.18.4", "pid:[4026532211]", nil, "--pid=host"},
	} {
		err := refusal(c.arch, c.release, c.namespace, c.types)
		if c.want == "" && err != nil || c.want != "" && (!errors.Is(err, sampler.ErrUnsupported) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// TestAsNobody: a user without rights is told how to get them.
func TestAsNobody(t *testing.T) {
	if os.Getenv("CCMAPD_BPF_NOBODY") != "" {
		_, err := OpenHost(nil)
		if !errors.Is(err, sampler.ErrPermission) || !strings.Contains(err.Error(), "cap_bpf,cap_perfmon") {
			t.Errorf("open host: %v", err)
		}
		return
	}
	if os.Getuid() != 0 {
		t.Skip("only root can become another user")
	}
	self := filepath.Join(filepath.Dir(enginetest.Build(t, "workload")), "bpf.test")
	binary, err := os.ReadFile(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(self, binary, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "-test.v", "-test.run=^TestAsNobody$")
	cmd.Env, cmd.Dir = append(os.Environ(), "CCMAPD_BPF_NOBODY=1", "HOME=/nonexistent"), "/"
	const nobody = 65534
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	if out, err := cmd.CombinedOutput(); err != nil || !bytes.Contains(out, []byte("--- PASS")) {
		t.Errorf("as nobody: %v\n%s", err, out)
	}
}

func FuzzRecord(f *testing.F) {
	f.Add(make([]byte, headBytes+objectsBytes))
	f.Add(bytes.Repeat([]byte{0xff}, headBytes+objectsBytes+100))
	f.Fuzz(func(t *testing.T, raw []byte) {
		var r record
		if r.decode(raw) == nil && len(r.moment.Stack)+len(r.moment.Other) > len(raw) {
			t.Errorf("%d and %d bytes of stacks in %d", len(r.moment.Stack), len(r.moment.Other), len(raw))
		}
		r.weight()
	})
}
