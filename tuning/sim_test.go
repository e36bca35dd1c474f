package tuning

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// program is a synthetic target.
type program struct {
	parts  []activations
	known  float64       // part of the samples with a known verdict
	cores  float64       // CPU time per wall time
	cost   time.Duration // of one sample, to the program
	daemon time.Duration // CPU time of the daemon for one sample
	rest   float64       // CPU time of the daemon per wall time, without samples

	fixed float64 // part of the CPU time that sampling costs at any interval
}

// activations of one length take part of a program's CPU time.
type activations struct {
	part   float64
	length time.Duration
}

// steady returns a program on one core whose activations all have one length.
func steady(length time.Duration) program { return mixed(activations{1, length}) }

// mixed returns a program on one core with activations of several lengths. Their parts
// add up to 1.
func mixed(parts ...activations) program {
	return program{parts: parts, known: 1, cores: 1, cost: time.Microsecond}
}

// repetition is the true rate of repetitions at an interval.
func (p program) repetition(interval time.Duration) float64 {
	rate := 0.0
	for _, a := range p.parts {
		rate += a.part * max(0, 1-float64(interval)/float64(a.length))
	}
	return rate
}

// simulation drives a tuner with programs. With a rng it draws repetitions and known
// verdicts. Without one they come as often as expected.
type simulation struct {
	tuner     *Tuner
	rng       *rand.Rand
	at        time.Duration
	cpu       time.Duration // of the program, not yet sampled
	samples   int
	decisions []Decision
	profile   *settling // nil: how settled it is remains unknown

	known, repeated float64 // fractions carried over, without a rng
}

func simulate(t testing.TB, c Config, seed uint64) *simulation {
	t.Helper()
	tuner, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return &simulation{tuner: tuner, rng: rand.New(rand.NewPCG(seed, 0))}
}

// run lets the program run for a time, observes it ten times a second, and returns the
// decisions.
func (s *simulation) run(p program, wall time.Duration) []Decision {
	before := len(s.decisions)
	for end := s.at + wall; s.at < end; {
		s.step(p)
	}
	return s.decisions[before:]
}

func (s *simulation) step(p program) {
	const wall = 100 * time.Millisecond
	o := Observation{SampleCost: p.cost, Fixed: p.fixed, TargetCPU: time.Duration(p.cores * float64(wall))}
	s.at += wall
	o.At = s.at
	s.cpu += o.TargetCPU
	interval := s.tuner.Interval()
	o.Samples = int(s.cpu / interval)
	s.cpu -= time.Duration(o.Samples) * interval
	o.Known = s.draw(o.Samples, p.known, &s.known)
	o.Repeated = min(s.draw(o.Known, p.repetition(interval), &s.repeated), o.Known)
	o.DaemonCPU = time.Duration(o.Samples)*p.daemon + time.Duration(p.rest*float64(wall))
	s.samples += o.Samples
	if s.profile != nil {
		o.Settled, o.Drift = s.profile.observe(o.Samples)
	}
	if d, ok := s.tuner.Observe(o); ok {
		s.decisions = append(s.decisions, d)
	}
}

// draw returns the number of n events with probability p that happen. Without a rng it
// carries fractions over to the next draw.
func (s *simulation) draw(n int, p float64, carry *float64) int {
	if s.rng == nil {
		*carry += float64(n) * p
		hits := int(*carry)
		*carry -= float64(hits)
		return hits
	}
	hits := 0
	for range n {
		if s.rng.Float64() < p {
			hits++
		}
	}
	return hits
}

func (s *simulation) String() string {
	text := fmt.Sprintf("at rest %v at %v after %d samples in %v", s.tuner.repetitions.resting, s.tuner.Interval(), s.samples, s.at)
	for _, d := range s.decisions {
		text += "\n\t" + d.Reason
	}
	return text
}

// between reports whether the program's true rate lies between the default thresholds,
// within the accuracy of a thousand samples.
func (s *simulation) between(p program) bool {
	rate := p.repetition(s.tuner.Interval())
	return 0.005 < rate && rate < 0.18
}
