package unitcost

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// load is how a simulated pair of programs is used.
type load struct {
	name    string
	periods int
	noise   float64 // of the CPU time for a unit, in a period
	own     float64 // correlation of this noise with the period before
	shared  float64 // noise that both have, as a busy machine gives it
	bursts  float64 // how the number of units changes
}

var loads = []load{
	{"steady", 60, 0.02, 0, 0, 0.05},
	{"bursts", 60, 0.02, 0, 0, 0.6},
	{"waves", 60, 0.02, 0.6, 0, 0.2},
	{"busy machine", 60, 0.01, 0.2, 0.1, 0.2},
	{"short", 20, 0.02, 0.3, 0, 0.2},
	{"long waves", 300, 0.02, 0.8, 0.05, 0.3},
}

// pair simulates programs that differ by a change in percent.
func (l load) pair(random *rand.Rand, change float64) (before, after []Period) {
	step := math.Sqrt(1 - l.own*l.own)
	b, a, both := random.NormFloat64(), random.NormFloat64(), random.NormFloat64()
	for range l.periods {
		units := [2]float64{}
		for i := range units {
			units[i] = math.Round(1000 * math.Exp(l.bursts*random.NormFloat64()))
		}
		before = append(before, period(units[0], 1+l.noise*b+l.shared*both))
		after = append(after, period(units[1], (1+change/100)*(1+l.noise*a+l.shared*both)))
		b, a = l.own*b+step*random.NormFloat64(), l.own*a+step*random.NormFloat64()
		both = l.own*both + step*random.NormFloat64()
	}
	return before, after
}

func period(units, cost float64) Period {
	return Period{time.Duration(units * cost * float64(100*time.Microsecond)), uint64(units)}
}

// TestCoverage simulates pairs with a known difference. The interval must hold it in 95 of 100. Of pairs without a
// difference, it must hold 0.
func TestCoverage(t *testing.T) {
	t.Parallel()
	const pairs = 1000
	for i, l := range loads {
		for _, change := range []float64{0, 1} {
			random := rand.New(rand.NewPCG(31, uint64(i)))
			held, width := 0, 0.0
			for range pairs {
				r, err := Compare(l.pair(random, change))
				if err != nil {
					t.Fatal(err)
				}
				if r.Low <= change && change <= r.High {
					held++
				}
				width += (r.High - r.Low) / 2 / pairs
			}
			t.Logf("%-12s change %v %%: held %.1f %%, ± %.2f", l.name, change, 100*float64(held)/pairs, width)
			// Of 1,000 pairs at 95 %, fewer than 934 hold it once in a hundred times.
			if held < 934 || held > 995 {
				t.Errorf("%s: %d of %d intervals hold the change of %v %%, want 950", l.name, held, pairs, change)
			}
		}
	}
}

// TestMore goes on for as long as the first result says, and finds the change.
func TestMore(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(3, 1))
	const pairs, change = 300, 1.0
	found := 0
	for range pairs {
		l := loads[0]
		first, err := Compare(l.pair(random, change))
		if err != nil {
			t.Fatal(err)
		}
		l.periods += first.More(change)
		then, err := Compare(l.pair(random, change))
		if err != nil {
			t.Fatal(err)
		}
		if then.Shown() {
			found++
		}
	}
	if found < pairs*83/100 {
		t.Errorf("a change of 1 %% was shown in %d of %d pairs, want nine in ten", found, pairs)
	}
}

func TestResult(t *testing.T) {
	var before, after []Period
	for range 20 {
		before = append(before, Period{time.Second, 1000})
		after = append(after, Period{990 * time.Millisecond, 1000})
	}
	r, err := Compare(before, after)
	if err != nil {
		t.Fatal(err)
	}
	if math.Abs(r.Change+1) > 1e-9 || !r.Shown() || r.Before != 1e6 || r.After != 0.99e6 || r.More(1) != 0 {
		t.Errorf("programs without noise that differ by 1 %%: %+v", r)
	}
	if r.Within(1) || !r.Within(1.1) {
		t.Errorf("a change of 1 %% is within 1 %%, or not within 1.1 %%: %+v", r)
	}
}

func TestNothingToCompare(t *testing.T) {
	some := make([]Period, 20)
	for i := range some {
		some[i] = Period{time.Second, 1}
	}
	for _, c := range []struct {
		before, after []Period
		want          error
	}{
		{some[:7], some, ErrFewPeriods},
		{some, nil, ErrFewPeriods},
		{some, make([]Period, 20), ErrNoWork},
		{some, []Period{{0, 1}, {0, 1}, {0, 1}, {0, 1}, {0, 1}, {0, 1}, {0, 1}, {0, 1}}, ErrIdle},
	} {
		if _, err := Compare(c.before, c.after); !errors.Is(err, c.want) {
			t.Errorf("error %v, want %v", err, c.want)
		}
	}
}

// One period of twenty has all the work: nothing can be said.
func TestRareWork(t *testing.T) {
	rare, some := make([]Period, 20), make([]Period, 20)
	for i := range some {
		rare[i], some[i] = Period{time.Second, 0}, Period{time.Second, 5}
	}
	rare[3].Units = 5
	r, err := Compare(some, rare)
	if err != nil {
		t.Fatal(err)
	}
	if r.Shown() && r.High < 100 || math.IsNaN(r.Low) || math.IsNaN(r.High) {
		t.Errorf("one unit of work has an interval of %v to %v", r.Low, r.High)
	}
}

func TestStudent(t *testing.T) {
	for freedom, want := range map[float64]float64{5: 2.571, 9: 2.262, 29: 2.045, 1e9: 1.960} {
		if got := student(freedom); math.Abs(got-want) > 0.005 {
			t.Errorf("student(%v) = %v, want %v", freedom, got, want)
		}
	}
}
