package tuning

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// exactly returns a rate of very many known samples.
func exactly(p float64) rate {
	const known = 1_000_000_000
	return rate{repeated: int(p*known + 0.5), known: known}
}

// The search relies on this claim: for any lengths of activations, a first step never
// goes beyond the interval with the wanted rate.
func TestFirstStepNeverOvershoots(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		const middle, rounding = 0.08, 1e-4 // intervals are whole nanoseconds
		lengths := rapid.SliceOfN(rapid.Int64Range(1e5, 1e9), 1, 6).Draw(r, "lengths")
		var p program
		for _, l := range lengths {
			p.parts = append(p.parts, activations{1 / float64(len(lengths)), time.Duration(l)})
		}
		d := time.Duration(rapid.Int64Range(1e5, 1e9).Draw(r, "interval"))
		before := p.repetition(d)
		switch s := (search{}); {
		case before > 0.15:
			if after := p.repetition(s.next(d, exactly(before), over, middle)); after < middle-rounding {
				r.Fatalf("rate %v → %v", before, after)
			}
		case before > rounding && before < 0.01:
			if after := p.repetition(s.next(d, exactly(before), under, middle)); after > middle+rounding {
				r.Fatalf("rate %v → %v", before, after)
			}
		}
	})
}

func TestFirstStepIsExactForOneLength(t *testing.T) {
	t.Parallel()
	for _, interval := range []time.Duration{10 * time.Millisecond, 60 * time.Millisecond} {
		var s search
		p := steady(80 * time.Millisecond)
		got := s.next(interval, exactly(p.repetition(interval)), over, 0.08)
		if want := 73600 * time.Microsecond; (got - want).Abs() > time.Microsecond {
			t.Errorf("from %v: %v, want %v", interval, got, want)
		}
	}
}

func TestSearchStaysBetweenBounds(t *testing.T) {
	t.Parallel()
	s := search{}
	const d = time.Millisecond
	if got := s.next(20*d, exactly(0), under, 0.08); got != 5*d {
		t.Errorf("first step down: %v, want 5ms", got)
	}
	if got := s.next(5*d, exactly(0.9), over, 0.08); got != 10*d {
		t.Errorf("up again, to 46 ms if not for the bound: %v, want the mean of 5ms and 20ms", got)
	}
	// The program changes: now even 20 ms is too short.
	if got := s.next(20*d, exactly(0.9), over, 0.08); got < 180*d {
		t.Errorf("the bound of 20 ms is refuted: %v, want 184ms", got)
	}
	if got := s.next(4*d, exactly(0), under, 0.08); got != d {
		t.Errorf("the bound on the other side is refuted: %v, want 1ms", got)
	}
}

// The search drops a bound that no longer fits the program.
func TestSearchForgetsOldBounds(t *testing.T) {
	t.Parallel()
	const d = time.Millisecond
	s := search{last: over, streak: maxStreak, long: 12 * d}
	if got := s.next(10*d, exactly(0.9), over, 0.08); got <= 12*d {
		t.Errorf("up for the fourth time: %v, want more than 12ms", got)
	}
	s = search{last: under, streak: maxStreak, short: 8 * d, shortAt: exactly(0.5)}
	if got := s.next(10*d, exactly(0), under, 0.08); got >= 8*d {
		t.Errorf("down for the fourth time: %v, want less than 8ms", got)
	}
}

func TestRateBounds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		known := rapid.IntRange(1, 1e6).Draw(r, "known")
		x := rate{rapid.IntRange(0, known).Draw(r, "repeated"), known}
		lo, hi := x.bounds()
		const rounding = 1e-12
		if lo < 0 || lo > x.value()+rounding || hi < x.value()-rounding || hi > 1 || x.differs(x) {
			r.Fatalf("%v: %v to %v", x.value(), lo, hi)
		}
	})
	if lo, hi := (rate{}).bounds(); lo != 0 || hi != 1 {
		t.Errorf("nothing known: %v to %v", lo, hi)
	}
}
