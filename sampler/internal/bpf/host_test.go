package bpf

import (
	"bytes"
	"context"
	"encoding/binary"
	"maps"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/sampler/internal/enginetest"
)

// openHost opens a host, which is closed when the test ends. Its overhead has no limit: where
// other tests make the price of a sample high, a limit makes samples so rare that tests wait
// for minutes, while their programs compute.
func openHost(t *testing.T) *Host {
	t.Helper()
	h, err := OpenHost(HostOptions{MaxOverhead: -1})
	if err != nil {
		enginetest.SkipUnlessPermitted(t, err)
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close() })
	return h
}

// TestGrowingStacks: a function whose stack is about to be moved has its callers. Samples
// from before the copies have become long enough have not, and a busy machine lengthens them
// late: then the program runs again, for twice as long.
func TestGrowingStacks(t *testing.T) {
	t.Parallel()
	open := enginetest.Open(func(ctx context.Context, o Options) (enginetest.Source, error) { return Open(ctx, o) })
	workload := enginetest.Build(t, "workload")
	const first, last = 1500, 24_000
	for work := first; ; work *= 2 {
		samples, _ := open.SampleWhole(t, Options{Interval: time.Millisecond}, workload, "grow", strconv.Itoa(work))
		growing, whole := growingStacks(samples)
		t.Logf("of %d stacks that grow, in %d samples, %d are whole", growing, len(samples), whole)
		if growing > 0 && whole >= growing/3 {
			return
		}
		if work == last {
			t.Fatal("too few")
		}
	}
}

// growingStacks counts the samples whose stack is being moved, and of them those with all callers.
func growingStacks(samples []enginetest.Sample) (growing, whole int) {
	for _, smp := range samples {
		if !smp.Has("runtime.newstack") || !smp.Has("runtime.copystack") {
			continue
		}
		growing++
		if smp.Has("main.deepen") && smp.Has("main.grow.func1") && !smp.Truncated {
			whole++
		}
	}
	return growing, whole
}

// TestCPUsComeAndGo: the timers follow the CPUs. A CPU that appears is sampled, and one
// that vanishes, or was away for a moment, stops nothing.
func TestCPUsComeAndGo(t *testing.T) {
	t.Parallel()
	all, err := process.OnlineCPUs()
	if err != nil {
		t.Fatal(err)
	}
	all = all[:min(2, len(all))]
	h := openHost(t)
	var online atomic.Pointer[[]int]
	h.online = func() ([]int, error) { return *online.Load(), nil }
	turn := func(cpus ...int) {
		t.Helper()
		online.Store(&cpus)
		h.keepTime(time.Now().Add(time.Minute))
		h.mu.Lock()
		defer h.mu.Unlock()
		if got := slices.Sorted(maps.Keys(h.clocks)); !slices.Equal(got, cpus) {
			t.Errorf("there are timers of CPUs %d, want %d", got, cpus)
		}
	}
	online.Store(&all)
	g := enginetest.Start(t, enginetest.Build(t, "workload"), "busy", "3600000")
	g.PinTo(t, all)
	s := joined(t, h, g.PID(), func(*programTarget) {})
	g.Proceed(t)
	awaitRecords := func(cpus []int) {
		t.Helper()
		h.drain()
		for each(s, func([]byte) {}); len(cpus) > 0; time.Sleep(time.Millisecond) {
			h.drain()
			each(s, func(raw []byte) {
				var r record
				if err := r.decode(raw); err != nil {
					t.Fatal(err)
				}
				cpus = slices.DeleteFunc(slices.Clone(cpus), func(cpu int) bool { return cpu == int(r.Cpu) })
			})
		}
	}
	awaitRecords(all)
	turn()
	h.drain()
	each(s, func([]byte) {})
	before := h.counted(interrupts)
	h.keepTime(time.Now().Add(time.Minute))
	if now := h.counted(interrupts); now != before {
		t.Errorf("%d interrupts without a CPU", now-before)
	}
	turn(all[0])
	awaitRecords(all[:1])
	turn(all...)
	awaitRecords(all)
	h.mu.Lock()
	h.clocks[all[0]].Close()
	h.clocks[all[0]].timer = endedClock{}
	h.mu.Unlock()
	turn(all...)
	awaitRecords(all)
}

// TestCPUsAreFoundSoon: a CPU that comes is sampled long before other periods are drawn.
func TestCPUsAreFoundSoon(t *testing.T) {
	t.Parallel()
	all, err := process.OnlineCPUs()
	if err != nil {
		t.Fatal(err)
	}
	h := unread(t)
	var online []int
	h.online = func() ([]int, error) { return online, nil }
	g := enginetest.Start(t, enginetest.Build(t, "workload"), "busy", "3600000")
	joined(t, h, g.PID(), func(*programTarget) {})
	if len(h.clocks) != 0 {
		t.Fatalf("there are timers of %d CPUs, and none is online", len(h.clocks))
	}
	online, h.redraw = all, time.Now().Add(time.Hour)
	h.keepTime(time.Now().Add(followEvery))
	if got := slices.Sorted(maps.Keys(h.clocks)); !slices.Equal(got, all) {
		t.Errorf("there are timers of CPUs %d, want %d", got, all)
	}
}

// endedClock is the timer of a CPU that was offline for a moment.
type endedClock struct{}

func (endedClock) SetPeriod(time.Duration) error { return nil }
func (endedClock) Runs() bool                    { return false }
func (endedClock) Close()                        {}

func FuzzRecord(f *testing.F) {
	f.Add(make([]byte, headBytes+objectsBytes))
	f.Add(bytes.Repeat([]byte{0xff}, headBytes+objectsBytes+100))
	f.Fuzz(func(t *testing.T, raw []byte) {
		var r record
		if r.decode(raw) != nil {
			return
		}
		if len(r.moment.Stack)+len(r.moment.Other)+len(r.moment.Outer.Bytes) > len(raw) {
			t.Errorf("%d, %d and %d bytes of stacks in %d", len(r.moment.Stack), len(r.moment.Other), len(r.moment.Outer.Bytes), len(raw))
		}
		r.weight()
		r.endKnown()
	})
}

// TestEndKnown: a goroutine's stack has an end that is known, if the thread is on it. Copies need not grow for it.
func TestEndKnown(t *testing.T) {
	t.Parallel()
	raw := make([]byte, headBytes+16)
	head := (*programHead)(unsafe.Pointer(&raw[0]))
	head.Regs[regSP] = 1<<20 - 20000
	for _, c := range []struct {
		bytes  uint32
		lo, hi uint64
		want   bool
	}{
		{16, 1 << 19, 1 << 20, true},
		{16, 1 << 19, 1<<20 - 20000, true},
		{16, 1 << 20, 1 << 21, false}, // the thread is not on this stack
		{16, 1<<64 - 1, 0, false},
		{8, 1 << 19, 1 << 20, false},
	} {
		head.Pieces[0].Bytes = c.bytes
		binary.NativeEndian.PutUint64(raw[headBytes:], c.lo)
		binary.NativeEndian.PutUint64(raw[headBytes+8:], c.hi)
		var r record
		if err := r.decode(raw[:headBytes+int(c.bytes)]); err != nil {
			t.Fatal(err)
		}
		if got := r.endKnown(); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}
