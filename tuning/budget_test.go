package tuning

import (
	"math"
	"strings"
	"testing"
	"time"
)

// TestBudgets: a budget that is exceeded asks for one change, and gives its reason.
func TestBudgets(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		off     bool
		settled time.Duration
		change  func(*program)
		want    string
		resting bool
	}{
		"unknown": {false, 10 * time.Millisecond, func(p *program) { p.cost, p.known = 200*time.Microsecond, 0 },
			"overhead 2.0 % of the target's CPU > 1 %: interval 10ms → 25ms", false},
		"off": {true, 10 * time.Millisecond, func(p *program) { p.cost, p.known = 200*time.Microsecond, 0 },
			"overhead 2.0 % of the target's CPU > 1 %: interval 10ms → 25ms", false},
		// Repetitions ask for 4.6 ms, the budget allows 7.5 ms.
		"bounds shortening": {false, 5 * time.Millisecond, func(p *program) { p.cost = 60 * time.Microsecond },
			"repetitions 0.0 % of 1000 known < 1 %: interval 10ms → 7.5ms, the shortest within the budget", true},
		// 400 samples a second take 0.4 of a core.
		"daemon": {true, 10900 * time.Microsecond, func(p *program) { p.cores, p.daemon = 4, time.Millisecond },
			"daemon 40.0 % of a core > 10 %: interval 10ms → 50ms", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := steady(test.settled)
			test.change(&p)
			s := simulate(t, Config{Off: test.off}, 1)
			s.run(p, time.Hour)
			if len(s.decisions) != 1 || s.decisions[0].Reason != test.want || test.resting && !s.tuner.repetitions.resting {
				t.Errorf("want only %q; %v", test.want, s)
			}
		})
	}
}

// A tuner that the budget kept from the right interval goes there when the budget
// allows it.
func TestBudgetFreed(t *testing.T) {
	t.Parallel()
	p := steady(5 * time.Millisecond)
	p.cost = 60 * time.Microsecond
	s := simulate(t, Config{}, 1)
	s.run(p, 10*time.Minute)
	p.cost = 10 * time.Microsecond
	s.run(p, 10*time.Minute)
	if !s.between(p) || len(s.decisions) > 4 || !s.tuner.repetitions.resting {
		t.Errorf("want at most 4 changes; %v", s)
	}
}

// The cost of a sample is the mean over a reading: a turn may have few samples, and its
// cost the interrupts of many.
func TestMeterAveragesTheCost(t *testing.T) {
	t.Parallel()
	var m meter
	for range 10 {
		m.add(Observation{At: m.to + 100*time.Millisecond, Samples: 9, SampleCost: 10 * time.Microsecond, TargetCPU: 90 * time.Millisecond})
		m.add(Observation{At: m.to + 100*time.Millisecond, Samples: 1, SampleCost: 110 * time.Microsecond, TargetCPU: 10 * time.Millisecond})
	}
	l := m.read(10*time.Millisecond, load{})
	if l.cost != 20*time.Microsecond || l.samples != 0.002 {
		t.Errorf("a sample costs %v, all of them %v", l.cost, l.samples)
	}
	m.add(Observation{At: m.to + time.Second, Samples: 100})
	if l := m.read(10*time.Millisecond, load{}); l.cost != 110*time.Microsecond {
		t.Errorf("without a measured cost it is %v, not the last", l.cost)
	}
}

// The default cost of a sample holds until one is measured.
func TestOverheadFromDefaultCost(t *testing.T) {
	t.Parallel()
	p := steady(100 * time.Microsecond)
	p.cost = 0
	s := simulate(t, Config{}, 1)
	s.run(p, time.Hour)
	if s.tuner.Interval() != 2500*time.Microsecond {
		t.Errorf("20 µs a sample at 0.8 of 1 %%: want 2.5ms; %v", s)
	}
}

// One second of much work, like reading symbols, is not the interval's fault.
func TestDaemonBurst(t *testing.T) {
	t.Parallel()
	p := steady(10900 * time.Microsecond)
	s := simulate(t, Config{}, 1)
	for range 100 {
		p.rest = 1
		s.run(p, time.Second)
		p.rest = 0
		s.run(p, 3*time.Second)
	}
	if len(s.decisions) != 0 {
		t.Errorf("bursts of the daemon: %v", s)
	}
}

func TestNoBudget(t *testing.T) {
	t.Parallel()
	p := steady(10 * time.Millisecond)
	p.cost, p.rest = time.Second, 10
	s := simulate(t, Config{Off: true, MaxOverhead: -1, MaxDaemonCPU: -1}, 1)
	if s.run(p, time.Hour); len(s.decisions) != 0 {
		t.Errorf("without budgets: %v", s)
	}
}

func TestBudgetStopsAtMax(t *testing.T) {
	t.Parallel()
	p := steady(10 * time.Millisecond)
	p.cost = time.Second
	s := simulate(t, Config{}, 1)
	s.run(p, time.Hour)
	if len(s.decisions) != 1 || s.tuner.Interval() != 100*time.Millisecond {
		t.Errorf("want one change to 100ms; %v", s)
	}
	if r := s.decisions[0].Reason; !strings.HasPrefix(r, "overhead 10000.0 %") {
		t.Errorf("reason %q", r)
	}
}

// A budget that no interval meets overflows nothing.
func TestBudgetNextToNothing(t *testing.T) {
	t.Parallel()
	s := simulate(t, Config{MaxOverhead: math.SmallestNonzeroFloat64}, 1)
	s.run(steady(10*time.Millisecond), time.Minute)
	if s.tuner.Interval() != 100*time.Millisecond {
		t.Errorf("want the longest interval, 100ms; %v", s)
	}
}

func TestBudgetGivesBack(t *testing.T) {
	t.Parallel()
	p := steady(10 * time.Millisecond)
	p.cores, p.known = 4, 0
	s := simulate(t, Config{}, 1)
	p.daemon = time.Millisecond
	s.run(p, time.Minute)
	if s.tuner.Interval() != 50*time.Millisecond {
		t.Fatalf("too much for the daemon: want 50ms; %v", s)
	}
	p.daemon = 100 * time.Microsecond
	s.run(p, time.Minute)
	want := "overhead 0.0 % of the target's CPU and daemon 4.0 % of a core affordable again: interval 50ms → 10ms"
	if len(s.decisions) != 2 || s.decisions[1].Reason != want {
		t.Fatalf("affordable again: want %q; %v", want, s)
	}
	for range 12 * 60 {
		p.daemon = time.Millisecond
		s.run(p, 30*time.Second)
		p.daemon = 100 * time.Microsecond
		s.run(p, 30*time.Second)
	}
	if len(s.decisions) > 6 {
		t.Errorf("the interval follows a load that comes and goes for twelve hours: %v", s)
	}
}

// A load that comes and goes for twelve hours does not move the interval back and
// forth, even if repetitions ask for a shorter interval.
func TestBudgetDoesNotFollowTheLoad(t *testing.T) {
	t.Parallel()
	p := steady(10900 * time.Microsecond)
	p.cores = 4
	s := simulate(t, Config{}, 1)
	for range 12 * 60 {
		p.daemon = time.Millisecond
		s.run(p, 30*time.Second)
		p.daemon = 100 * time.Microsecond
		s.run(p, 30*time.Second)
	}
	if len(s.decisions) > 6 || s.tuner.Interval() != 50*time.Millisecond {
		t.Errorf("want 50ms after at most 6 changes; %v", s)
	}
}

// Switches leave less of the budget to the samples: 200 µs a sample, 0.8 − 0.3 % of the
// target's CPU time.
func TestSwitchesLeaveLess(t *testing.T) {
	t.Parallel()
	p := steady(10 * time.Millisecond)
	p.cost, p.known, p.fixed = 200*time.Microsecond, 0, 0.003
	s := simulate(t, Config{}, 1)
	s.run(p, time.Hour)
	want := "overhead 2.3 % of the target's CPU > 1 %: interval 10ms → 40ms"
	if len(s.decisions) != 1 || s.decisions[0].Reason != want {
		t.Errorf("want only %q; %v", want, s)
	}
}

// Where the switches exceed the budget, the interval does not grow for ever: samples keep
// a quarter of the budget, and the rule says once why.
func TestSwitchesExceedTheBudget(t *testing.T) {
	t.Parallel()
	for interval, want := range map[time.Duration]string{
		10 * time.Millisecond: "overhead 4.2 % of the target's CPU > 1 %, and 4.0 % for context switches and caught calls: a longer interval does not help",
		time.Millisecond:      "overhead 6.0 % of the target's CPU > 1 %: interval 1ms → 8ms",
	} {
		p := steady(10 * time.Millisecond)
		p.cost, p.known, p.fixed = 20*time.Microsecond, 0, 0.04
		s := simulate(t, Config{Initial: interval}, 1)
		s.run(p, time.Hour)
		if len(s.decisions) == 0 || len(s.decisions) > 2 || s.decisions[0].Reason != want {
			t.Errorf("from %v: want %q first; %v", interval, want, s)
		}
		if last := s.decisions[len(s.decisions)-1]; last.Interval != s.tuner.Interval() || last.Interval > 10*time.Millisecond {
			t.Errorf("from %v to %v; %v", interval, last.Interval, s)
		}
	}
}

// TestHeld: the tuner says which budget keeps the interval from where the other rules want it, for as
// long as it does.
func TestHeld(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		config Config
		change func(*program)
		by     Budget
		wanted time.Duration
	}{
		"target":  {Config{Off: true}, func(p *program) { p.cost, p.known = 200*time.Microsecond, 0 }, TargetOverhead, 10 * time.Millisecond},
		"daemon":  {Config{Off: true}, func(p *program) { p.cores, p.daemon = 4, time.Millisecond }, DaemonCPU, 10 * time.Millisecond},
		"shorter": {Config{}, func(p *program) { p.cost = 60 * time.Microsecond }, TargetOverhead, 2500 * time.Microsecond},
		"neither": {Config{}, func(*program) {}, NoBudget, 4600 * time.Microsecond},
		"longest": {Config{Off: true, Max: 10 * time.Millisecond}, func(p *program) { p.cost, p.known = time.Second, 0 }, NoBudget, 10 * time.Millisecond},
		"nothing": {Config{Off: true, MaxOverhead: -1, MaxDaemonCPU: -1}, func(p *program) { p.cost, p.daemon = time.Second, 1 }, NoBudget, 10 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := steady(5 * time.Millisecond)
			test.change(&p)
			s := simulate(t, test.config, 1)
			s.run(p, time.Hour)
			by, wanted := s.tuner.Held()
			if by != test.by || math.Abs(float64(wanted-test.wanted)) > 0.05*float64(test.wanted) {
				t.Errorf("held by %v from %v, want by %v from %v; %v", by, wanted, test.by, test.wanted, s)
			}
			p.cost, p.daemon = 10*time.Microsecond, 0
			s.run(p, time.Hour)
			if by, _ := s.tuner.Held(); by != NoBudget {
				t.Errorf("held by %v when all is affordable; %v", by, s)
			}
		})
	}
}

// A switch that is dear is no reason to sample, or not to, without a budget.
func TestSwitchesWithoutBudget(t *testing.T) {
	t.Parallel()
	p := steady(10 * time.Millisecond)
	p.fixed = 0.5
	s := simulate(t, Config{Off: true, MaxOverhead: -1, MaxDaemonCPU: -1}, 1)
	if s.run(p, time.Hour); len(s.decisions) != 0 {
		t.Errorf("without budgets: %v", s)
	}
}
