package bpf

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/internal/perfevent"
	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/sampler/internal/enginetest"
)

// TestPrice: a record costs what its interrupt costs, or more. The records that were made
// for it are gone, and this process is no target any more.
func TestPrice(t *testing.T) {
	t.Parallel()
	enginetest.NeedsBreakpoints(t)
	h := openHost(t)
	again, err := h.price()
	if err != nil || again != h.costs {
		t.Errorf("measured %+v, and then %+v, %v", h.costs, again, err)
	}
	c := h.costs
	if c.Interrupt <= 0 || c.Sample < c.Interrupt || c.Sample > 10*time.Millisecond || c.Watch < 0 || c.Arm < 0 || c.Trap <= 0 || c.Call <= 0 || c.Switch != 0 {
		t.Errorf("costs %+v", c)
	}
	if h.ring.AvailableBytes() != 0 || h.program.Targets.Lookup(uint32(os.Getpid()), new(programTarget)) == nil {
		t.Errorf("%d bytes are left in the ring", h.ring.AvailableBytes())
	}
	t.Logf("%+v", c)
}

// TestAimAtSelf: while a host measures, the program takes samples of this process.
func TestAimAtSelf(t *testing.T) {
	t.Parallel()
	h := openHost(t)
	end, err := h.aimAtSelf()
	if err != nil {
		t.Fatal(err)
	}
	before := h.counted(taken)
	h.mu.Lock()
	h.period = time.Millisecond
	err = h.setPeriods()
	h.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	for h.counted(taken) == before { // this loop is what is sampled
	}
	end()
	if err := h.program.Targets.Lookup(uint32(os.Getpid()), new(programTarget)); err == nil {
		t.Error("this process is still a target")
	}
}

// TestHostPays: the host's share has all interrupts, over the time of all CPUs. Other programs lose those
// of busy CPUs that took no sample. Counters that the end has closed change nothing.
func TestHostPays(t *testing.T) {
	t.Parallel()
	began := time.Unix(1000, 0)
	h := &Host{
		clocks: map[int]*clock{0: nil, 1: nil}, began: began, before: uses{interrupts: 1000, idle: 100, samples: 50},
		costs: perfevent.Costs{Sample: 30 * time.Microsecond, Interrupt: 20 * time.Microsecond},
	}
	now := uses{interrupts: 1000 + 2000, idle: 100 + 400, samples: 50 + 200} // of 10 s at 100 Hz, on two CPUs
	for range 2 {
		h.account(began.Add(10*time.Second), now)
		if want := (200*30e-6 + 1800*20e-6) / 20; math.Abs(h.share-want) > 1e-9 || h.others != 1400*20*time.Microsecond {
			t.Errorf("%v of each CPU, %v of others; want %v, 28ms", h.share, h.others, want)
		}
		now = uses{}
	}
}

// TestOverhead: the report knows the cost of the samples, and that no switch costs anything.
func TestOverhead(t *testing.T) {
	t.Parallel()
	h := openHost(t)
	g := enginetest.Start(t, enginetest.Build(t, "workload"), "busy", "300")
	s, sink := enginetest.Attach(t, h.Open, g.PID(), Options{Interval: time.Millisecond, Watchpoints: -1, HitBudget: -1})
	g.Proceed(t)
	samples, _ := enginetest.Collect(t, s, sink)
	o := s.Stats().Overhead
	if o.Samples != time.Duration(len(samples))*h.costs.Sample || o.Fixed() != 0 || o.Of <= 0 || o.String() == "" {
		t.Errorf("%+v after %d samples", o, len(samples))
	}
	if o.Total() != o.Samples || o.Interrupts < 0 || o.Least != h.floor {
		t.Errorf("%+v, and the host has %v", o, h.floor)
	}
	t.Log(o)
}

// TestOverheadOfVerdicts: the report has the cost of verdicts and caught calls, too.
func TestOverheadOfVerdicts(t *testing.T) {
	t.Parallel()
	enginetest.NeedsBreakpoints(t)
	h := openHost(t)
	g := enginetest.Start(t, enginetest.Build(t, "receivers"), "bimorphic", "2")
	s, _ := enginetest.Attach(t, h.Open, g.PID(), Options{Interval: time.Millisecond, HitBudget: 1e6, WatchBudget: 1})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error)
	go func() {
		_, err := s.Run(ctx)
		done <- err
	}()
	g.Proceed(t)
	for st := s.Stats(); st.Counts[sampler.Caught] == 0 || st.Counts[sampler.Armed] == 0; st = s.Stats() {
		if st.NoCalls != "" {
			enginetest.SkipUnlessPermitted(t, fmt.Errorf("%w: %s", sampler.ErrUnsupported, st.NoCalls))
		}
		time.Sleep(time.Millisecond)
	}
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	st := s.Stats()
	o, n := st.Overhead, st.Counts
	if calls := time.Duration(n[sampler.Caught] + n[sampler.Bursts]); calls == 0 || o.Calls < calls*h.costs.Call {
		t.Errorf("%+v after %d calls", o, calls)
	}
	if armed := time.Duration(n[sampler.Armed]); o.Verdicts < armed*h.costs.Arm {
		t.Errorf("%+v after %d watches", o, armed)
	}
	t.Log(o, h.costs)
}

// TestStatsAfterClose: figures can be asked for while a host is closed, and later.
func TestStatsAfterClose(t *testing.T) {
	t.Parallel()
	g := enginetest.Start(t, enginetest.Build(t, "workload"), "busy", "60000")
	open := func(ctx context.Context, o Options) (*Source, error) { return Open(ctx, o) }
	s, _ := enginetest.Attach(t, open, g.PID(), Options{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 1000 {
			s.Stats()
		}
	}()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	<-done
}

// TestHostOverhead: whatever a source asks for, at its start or later, the timers keep to the
// host's budget, and the host says so once.
func TestHostOverhead(t *testing.T) {
	t.Parallel()
	var said bytes.Buffer
	h, err := OpenHost(HostOptions{MaxOverhead: 0.001, Logger: slog.New(slog.NewTextHandler(&said, nil))})
	if err != nil {
		enginetest.SkipUnlessPermitted(t, err)
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close() })
	g := enginetest.Start(t, enginetest.Build(t, "workload"), "busy", "60000")
	s, _ := enginetest.Attach(t, h.Open, g.PID(), Options{Interval: time.Millisecond, Watchpoints: -1})
	if least := 1000 * h.costs.Sample; s.Stats().Interval != least {
		t.Errorf("the interval is %v, and %v would be within the budget", s.Stats().Interval, least)
	}
	if err := s.SetInterval(2 * time.Millisecond); err != nil {
		t.Error(err)
	}
	g.Proceed(t)
	for began := time.Now(); time.Since(began) < 20*h.floor; {
		s.Stats() // until there were interrupts of each CPU
	}
	st := s.Stats()
	// Periods are drawn, each may be the shortest, and each CPU has one interrupt that ends no whole period.
	const most = 1/(1-perfevent.MostSpread) + 2./20
	if o := st.Overhead; st.Interval != h.floor || o.Raised != 2 || o.Host <= 0 || o.Host > 0.001*most {
		t.Errorf("interval %v, %d times raised, %v of each CPU", st.Interval, o.Raised, o.Host)
	}
	if err := s.SetInterval(longestInterval); err != nil || s.Stats().Interval != longestInterval {
		t.Errorf("the interval is %v, not the one asked for: %v", s.Stats().Interval, err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if n := strings.Count(said.String(), "--max-host-overhead"); n != 1 {
		t.Errorf("said %d times:\n%s", n, &said)
	}
	t.Log(st.Overhead)
}

// TestShortestWithin: interrupts at the shortest interval take just the permitted part of a CPU.
func TestShortestWithin(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		part float64
		cost time.Duration
		want time.Duration
	}{
		{0.01, 30 * time.Microsecond, 3 * time.Millisecond},
		{1, 30 * time.Microsecond, 30 * time.Microsecond},
		{1e-300, time.Microsecond, longestInterval},
		{0.01, 0, 0},
		{-1, time.Second, 0},
		{math.NaN(), time.Second, 0},
	} {
		if got := shortestWithin(c.part, c.cost); got != c.want {
			t.Errorf("%v of a core at %v: %v, want %v", c.part, c.cost, got, c.want)
		}
	}
}
