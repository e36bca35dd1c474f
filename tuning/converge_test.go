package tuning

import (
	"testing"
	"time"
)

func TestConverges(t *testing.T) {
	t.Parallel()
	busy := func(cores float64, p program) program { p.cores = cores; return p }
	known := func(part float64, p program) program { p.known = part; return p }
	tests := map[string]struct {
		program program
		config  Config
		changes int           // at most
		want    time.Duration // the clamp that is met; 0: between the thresholds
	}{
		"80 ms loop":    {steady(80 * time.Millisecond), Config{}, 3, 0},
		"5 ms calls":    {steady(5 * time.Millisecond), Config{}, 4, 0},
		"1 ms calls":    {steady(time.Millisecond), Config{}, 4, 0},
		"right already": {steady(10900 * time.Microsecond), Config{}, 0, 0},
		"endless loop":  {steady(time.Hour), Config{}, 1, 100 * time.Millisecond},
		"tiny calls":    {steady(time.Microsecond), Config{Min: time.Millisecond}, 2, time.Millisecond},
		"far":           {busy(64, steady(time.Second)), Config{Max: 10 * time.Second}, 4, 0},
		"third endless": {busy(64, mixed(activations{0.3, 10 * time.Second}, activations{0.7, time.Millisecond})),
			Config{Max: 10 * time.Second}, 8, 0},
		"half and half": {mixed(activations{0.5, time.Millisecond}, activations{0.5, 50 * time.Millisecond}), Config{}, 5, 0},
		"many lengths": {mixed(activations{0.25, time.Millisecond}, activations{0.25, 3 * time.Millisecond},
			activations{0.25, 10 * time.Millisecond}, activations{0.25, 30 * time.Millisecond}), Config{}, 4, 0},
		"few known": {busy(4, known(0.1, steady(80*time.Millisecond))), Config{}, 6, 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(20) {
				s := simulate(t, tt.config, seed)
				s.run(tt.program, time.Hour)
				right := s.between(tt.program)
				if tt.want > 0 {
					right = s.tuner.Interval() == tt.want
				}
				if !right || len(s.decisions) > tt.changes || !s.tuner.repetitions.resting {
					t.Errorf("seed %d: want %d changes at most; %v", seed, tt.changes, s)
				}
			}
		})
	}
}

func TestWakesForPhaseChange(t *testing.T) {
	t.Parallel()
	s := simulate(t, Config{}, 1)
	for _, length := range []time.Duration{5, 80, 1, 40, 3} {
		p := steady(length * time.Millisecond)
		before := len(s.decisions)
		s.run(p, 20*time.Minute)
		if !s.between(p) || !s.tuner.repetitions.resting || len(s.decisions)-before > 5 {
			t.Fatalf("calls of %v ms: true rate %.3f, %d changes; %v", int(length), p.repetition(s.tuner.Interval()), len(s.decisions)-before, s)
		}
	}
}

// A tuner that no interval can satisfy comes to rest, and stays there until there is
// something new.
func TestRestsAtClamp(t *testing.T) {
	t.Parallel()
	s := simulate(t, Config{}, 1)
	s.run(steady(time.Hour), 10*time.Minute)
	if s.tuner.Interval() != 100*time.Millisecond || !s.tuner.repetitions.resting {
		t.Fatalf("endless loop: %v", s)
	}
	if more := s.run(steady(time.Hour), time.Hour); len(more) != 0 || !s.tuner.repetitions.resting {
		t.Fatalf("nothing new: %v", s)
	}
	s.run(steady(10*time.Millisecond), 30*time.Minute)
	if !s.between(steady(10 * time.Millisecond)) {
		t.Fatalf("10 ms calls after it: %v", s)
	}
}

// A target in step with its sampling can have a rate that jumps over the band
// between the thresholds. The search gives up after a bounded number of changes.
func TestSearchGivesUp(t *testing.T) {
	t.Parallel()
	tuner, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	changes := 0
	for i := range 1000 {
		o := Observation{At: time.Duration(i+1) * 10 * time.Second, Samples: 1000, Known: 1000}
		if tuner.Interval() < 7*time.Millisecond {
			o.Repeated = 500
		}
		if _, ok := tuner.Observe(o); ok {
			changes++
		}
	}
	if changes > maxChanges || !tuner.repetitions.resting {
		t.Errorf("%d changes, at rest %v at %v", changes, tuner.repetitions.resting, tuner.Interval())
	}
}

func TestRestingLooksLessOften(t *testing.T) {
	t.Parallel()
	tuner, err := New(Config{Initial: 100 * time.Millisecond, MaxOverhead: -1, MaxDaemonCPU: -1})
	if err != nil {
		t.Fatal(err)
	}
	at := time.Duration(0)
	feed := func(repeated int) bool {
		at += 5 * time.Second
		_, ok := tuner.Observe(Observation{At: at, Samples: 100, Known: 100, Repeated: repeated})
		return ok
	}
	for range 400 {
		if feed(8) {
			t.Fatal("changed at a rate of 8 %")
		}
	}
	looks := 0
	for range 400 {
		open := tuner.repetitions.window.samples
		feed(8)
		if tuner.repetitions.window.samples < open {
			looks++
		}
	}
	if want := 400 * 5 * time.Second / (maxStretch * patience); looks != int(want) {
		t.Errorf("%d looks in %v, want %d", looks, 400*5*time.Second, want)
	}
}

func TestLoadJumpWakes(t *testing.T) {
	t.Parallel()
	quiet, busy := steady(10900*time.Microsecond), steady(10900*time.Microsecond)
	quiet.cores, busy.cores = 0.5, 8
	s := simulate(t, Config{}, 1)
	s.run(quiet, 20*time.Minute)
	if !s.tuner.repetitions.resting {
		t.Fatalf("after 20 minutes: %v", s)
	}
	woke := false
	for range 20 { // 2 s, and 1,600 of the 8,000 samples of a resting window
		s.step(busy)
		woke = woke || !s.tuner.repetitions.resting
	}
	if !woke {
		t.Errorf("16 times the load did not wake the tuner: %v", s)
	}
	s.run(busy, 5*time.Minute)
	if !s.tuner.repetitions.resting || len(s.decisions) != 0 {
		t.Errorf("nothing but the load changed: %v", s)
	}
}

func TestIdleChangesNothing(t *testing.T) {
	t.Parallel()
	s := simulate(t, Config{}, 1)
	s.run(steady(5*time.Millisecond), 10*time.Minute)
	idle := steady(time.Hour)
	idle.cores, idle.rest = 0.0002, 0.5 // the daemon serves a reader, the target sleeps
	if more := s.run(idle, 12*time.Hour); len(more) != 0 {
		t.Errorf("idle: %v", s)
	}
	if more := s.run(program{rest: 0.5}, 12*time.Hour); len(more) != 0 {
		t.Errorf("asleep: %v", s)
	}
}

func TestUnknownIsNoRepetition(t *testing.T) {
	t.Parallel()
	p := steady(time.Hour)
	p.known = 0
	s := simulate(t, Config{}, 1)
	if s.run(p, time.Hour); len(s.decisions) != 0 || s.tuner.repetitions.resting {
		t.Errorf("all unknown: %v", s)
	}
	tuner, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	_, ok := tuner.Observe(Observation{At: time.Second, Samples: 1000, Known: certainlyOver - 1, Repeated: certainlyOver - 1})
	if ok {
		t.Errorf("changed for %d known samples", certainlyOver-1)
	}
}

// TestFewVerdictsOfLongCalls: where a busy machine leaves six samples a second, and a verdict on a tenth of them, the
// interval becomes longer within a minute; and not where some verdicts are of new activations.
func TestFewVerdictsOfLongCalls(t *testing.T) {
	t.Parallel()
	for repeatedOf10, want := range map[int]bool{10: true, 1: false} {
		tuner, err := New(Config{})
		if err != nil {
			t.Fatal(err)
		}
		moved := false
		for second := 1; second <= 60; second++ {
			o := Observation{At: time.Duration(second) * time.Second, Samples: 6, TargetCPU: 60 * time.Millisecond}
			if second%5 < 3 {
				o.Known = 1
				if second%10 < repeatedOf10 {
					o.Repeated = 1
				}
			}
			d, ok := tuner.Observe(o)
			moved = moved || ok && d.Interval > 10*time.Millisecond
		}
		if moved != want {
			t.Errorf("%d of 10 repeat: longer: %t", repeatedOf10, moved)
		}
	}
}

// TestBeginsWithoutVerdicts: an engine that judges few samples makes its first step after a
// window, within the budget, if the profile is known not to be settled. The next step waits
// for verdicts.
func TestBeginsWithoutVerdicts(t *testing.T) {
	t.Parallel()
	base := Observation{Samples: 100, Known: 5, TargetCPU: time.Second, Settled: 60}
	for name, test := range map[string]struct {
		change func(*Observation)
		config Config
		want   time.Duration
	}{
		"unsettled":           {func(*Observation) {}, Config{}, 2500 * time.Microsecond},
		"no verdicts at all":  {func(o *Observation) { o.Known = 0 }, Config{}, 2500 * time.Microsecond},
		"half of that budget": {func(*Observation) {}, Config{MaxOverhead: 0.005}, 5 * time.Millisecond},
		"no budget for it":    {func(*Observation) {}, Config{MaxOverhead: 0.0025}, 10 * time.Millisecond},
		"not known":           {func(o *Observation) { o.Settled = 0 }, Config{}, 10 * time.Millisecond},
		"settled":             {func(o *Observation) { o.Settled = 99 }, Config{}, 20 * time.Millisecond},
		"drifts":              {func(o *Observation) { o.Drift = true }, Config{}, 10 * time.Millisecond},
		"repeats":             {func(o *Observation) { o.Repeated = 1 }, Config{}, 10 * time.Millisecond},
		"settles never":       {func(*Observation) {}, Config{Settle: -1}, 10 * time.Millisecond},
		"off":                 {func(*Observation) {}, Config{Off: true}, 10 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tuner, err := New(test.config)
			if err != nil {
				t.Fatal(err)
			}
			o := base
			test.change(&o)
			for range 15 {
				o.At += time.Second
				if d, ok := tuner.Observe(o); ok {
					t.Log(d.Reason)
				}
			}
			if got := tuner.Interval(); got != test.want {
				t.Errorf("interval %v after 15 s, want %v", got, test.want)
			}
		})
	}
	tuner, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	o, seen := base, 0
	for ; tuner.Interval() >= 2500*time.Microsecond; seen += o.Known {
		if o.At += time.Second; o.At > time.Hour {
			t.Fatal("verdicts do not decide")
		}
		tuner.Observe(o)
	}
	if seen < 657 {
		t.Errorf("the second step was made with %d verdicts", seen)
	}
}

// TestFewVerdictsAddUp: evidence of many looks with few verdicts each is not thrown away
// before it decides.
func TestFewVerdictsAddUp(t *testing.T) {
	t.Parallel()
	tuner, err := New(Config{Window: 100, Settle: -1})
	if err != nil {
		t.Fatal(err)
	}
	o := Observation{Samples: 100, Known: 4, TargetCPU: time.Second}
	for tuner.Interval() == defaultInitial {
		if o.At += time.Second; o.At > 250*time.Second {
			known, needed := tuner.Verdicts()
			t.Fatalf("no decision after %v: %d of %d verdicts", o.At, known, needed)
		}
		tuner.Observe(o)
	}
}
