package tuning

import (
	"math"
	"strings"
	"testing"
	"time"
)

// settling is a profile as its manager sees it. The halves of n samples differ by some
// points divided by √n. The manager finds a new phase of the program as drift after a
// chunk of samples. Then the profile settles again.
type settling struct {
	points  float64 // difference of the halves of two samples
	samples int     // in this phase
	found   int     // samples of this phase when it was found; 0: not yet
	settled float64 // percent
}

// driftChunk is the number of samples that the manager compares with earlier ones.
const driftChunk = 1000

func (p *settling) observe(samples int) (settled float64, drift bool) {
	p.samples += samples
	if p.found == 0 && p.samples >= driftChunk {
		p.found = p.samples
	}
	if p.found > 0 {
		p.settled = 100 - p.points/math.Sqrt(float64(p.samples))
	}
	return p.settled, p.found > 0 && p.samples-p.found < driftChunk
}

// phase begins a new phase.
func (p *settling) phase() { p.samples, p.found = 0, 0 }

// tenMS has activations for which 10 ms is the right interval.
func tenMS() program { return steady(10900 * time.Microsecond) }

func TestSettledProfileIsSampledSlower(t *testing.T) {
	t.Parallel()
	s := simulate(t, Config{}, 1)
	s.profile = &settling{points: 200} // 98 % at 10,000 samples
	s.run(tenMS(), time.Hour)
	if got := s.tuner.Interval(); got != maxSlow*10*time.Millisecond || len(s.decisions) != 2 {
		t.Errorf("after an hour, want two steps to %v: %v", maxSlow*10*time.Millisecond, s)
	}
	if !strings.Contains(s.decisions[0].Reason, "settled to 98.") {
		t.Errorf("reason %q", s.decisions[0].Reason)
	}
	if more := s.run(tenMS(), time.Hour); len(more) != 0 {
		t.Errorf("changed without a reason: %v", s)
	}
}

// Few repetitions do not make the tuner sample a settled profile faster. Many
// repetitions still make it sample slower.
func TestRepetitionsOfASlowedProfile(t *testing.T) {
	t.Parallel()
	s := simulate(t, Config{}, 1)
	s.profile = &settling{points: 200}
	s.run(steady(11*time.Millisecond), time.Hour) // never on top twice at 20 ms
	if s.tuner.Interval() != 40*time.Millisecond {
		t.Fatalf("slowed: %v", s)
	}
	long := steady(80 * time.Millisecond) // on top at every other sample at 40 ms
	s.run(long, time.Hour)
	if rate := long.repetition(s.tuner.Interval()); rate > 0.18 || !strings.Contains(s.String(), "repetitions 5") {
		t.Errorf("longer activations repeat at a rate of %.2f: %v", rate, s)
	}
}

func TestSlowdownKeepsItsBounds(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		config Config
		want   time.Duration
	}{
		"longest":  {Config{Max: 25 * time.Millisecond}, 25 * time.Millisecond},
		"switched": {Config{Settle: -1}, 10 * time.Millisecond},
		"off":      {Config{Off: true}, 10 * time.Millisecond},
		"wanted":   {Config{Settle: 99.99}, 10 * time.Millisecond},
	} {
		s := simulate(t, c.config, 1)
		s.profile = &settling{points: 200}
		s.run(tenMS(), time.Hour)
		if s.tuner.Interval() != c.want {
			t.Errorf("%s: want %v; %v", name, c.want, s)
		}
	}
}

// As soon as a new phase is found, it is sampled at the old rate, within a bounded
// number of samples. Then the new phase settles itself.
func TestDriftReturnsAtOnce(t *testing.T) {
	t.Parallel()
	for seed := range uint64(5) {
		s := simulate(t, Config{}, seed)
		s.profile = &settling{points: 200}
		s.run(tenMS(), time.Hour)
		s.profile.phase()
		before := s.samples
		for s.tuner.Interval() != 10*time.Millisecond && s.samples < before+10*driftChunk {
			s.step(tenMS())
		}
		if n := s.samples - before; n > driftChunk+100 {
			t.Fatalf("seed %d: %d samples until the old interval was back; %v", seed, n, s)
		}
		s.run(tenMS(), time.Hour)
		if s.tuner.Interval() != 40*time.Millisecond {
			t.Fatalf("seed %d: the new phase settles, too; %v", seed, s)
		}
	}
}

// A program that drifts again and again is slowed down less and less often. The profile
// keeps the history of the interval, which must not grow with the time of running.
func TestDriftingProgramIsLeftAlone(t *testing.T) {
	t.Parallel()
	s := simulate(t, Config{}, 1)
	s.profile = &settling{points: 50} // at 98 % before it is found
	for range 500 {
		s.run(tenMS(), 2*time.Minute)
		s.profile.phase()
	}
	if n := len(s.decisions); n < 4 || n > 32 {
		t.Errorf("%d changes in 500 phases", n)
	}
}

// A burst of work ends the slowdown before its samples show anything new, even if the
// target was so idle that its load was hardly metered.
func TestBurstEndsSlowdown(t *testing.T) {
	t.Parallel()
	for _, idle := range []float64{0.5, 0.05} {
		quiet, burst := tenMS(), tenMS()
		quiet.cores, burst.cores = idle, 4
		s := simulate(t, Config{}, 1)
		s.profile = &settling{points: 200}
		s.run(quiet, time.Duration(2/idle)*time.Hour)
		if s.tuner.Interval() != 40*time.Millisecond {
			t.Fatalf("slowed: %v", s)
		}
		before := s.samples
		s.run(burst, 3*time.Second)
		if s.tuner.Interval() != 10*time.Millisecond || s.samples-before < 500 {
			t.Errorf("%v cores: %d samples of 3 s of a burst: %v", idle, s.samples-before, s)
		}
	}
}

// The budget bounds the return from a slowdown, too.
func TestReturnKeepsWithinBudget(t *testing.T) {
	t.Parallel()
	s := simulate(t, Config{}, 1)
	s.profile = &settling{points: 200}
	s.run(tenMS(), time.Hour)
	costly := tenMS()
	costly.cost = 200 * time.Microsecond // 2 % at 10 ms
	s.run(costly, time.Minute)
	s.profile.phase()
	s.run(costly, 5*time.Minute)
	if got := s.tuner.Interval(); got != 25*time.Millisecond {
		t.Errorf("want the 25 ms that the budget allows: %v", s)
	}
}
