package tuning

import (
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestRepetitionReason(t *testing.T) {
	t.Parallel()
	tests := []struct {
		repeated int
		want     string
	}{
		{874, "repetitions 87.4 % of 1000 known > 15 %: interval 10ms → 73ms"},
		{990, "repetitions 99.0 % of 1000 known > 15 %: interval 10ms → 100ms"},
		{999, "repetitions 99.9 % of 1000 known > 15 %: interval 10ms → 100ms"},
		{1, "repetitions 0.1 % of 1000 known < 1 %: interval 10ms → 9.21ms"},
		{0, "repetitions 0.0 % of 1000 known < 1 %: interval 10ms → 2.5ms"},
		{2, ""},
		{9, ""},
		{100, ""},
		{170, ""},
	}
	for _, tt := range tests {
		tuner, err := New(Config{})
		if err != nil {
			t.Fatal(err)
		}
		d, _ := tuner.Observe(Observation{At: 10 * time.Second, Samples: 1000, Known: 1000, Repeated: tt.repeated})
		if d.Reason != tt.want {
			t.Errorf("%d repeated: %q, want %q", tt.repeated, d.Reason, tt.want)
		}
	}
}

// A rate that cannot be told from a threshold counts as inside after two windows.
func TestDoubtRests(t *testing.T) {
	t.Parallel()
	tuner, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []bool{false, true} {
		o := Observation{At: time.Duration(i) * time.Second, Samples: 1000, Known: 1000, Repeated: 160}
		if d, changed := tuner.Observe(o); changed || tuner.repetitions.resting != want {
			t.Errorf("16 %% of %d samples: at rest %v, want %v; %q", 1000*(i+1), tuner.repetitions.resting, want, d.Reason)
		}
	}
}

// observations draws all kinds of observations, even senseless ones.
func observations(r *rapid.T) []Observation {
	at := time.Duration(0)
	return rapid.SliceOfN(rapid.Custom(func(r *rapid.T) Observation {
		at += time.Duration(rapid.Int64Range(-1e9, 2e10).Draw(r, "step"))
		return Observation{
			At:         at,
			Samples:    rapid.IntRange(-10, 5000).Draw(r, "samples"),
			Known:      rapid.IntRange(-10, 6000).Draw(r, "known"),
			Repeated:   rapid.IntRange(-10, 6000).Draw(r, "repeated"),
			TargetCPU:  time.Duration(rapid.Int64Range(-1e9, 1e11).Draw(r, "target")),
			DaemonCPU:  time.Duration(rapid.Int64Range(-1e9, 1e10).Draw(r, "daemon")),
			SampleCost: time.Duration(rapid.Int64Range(-1e3, 1e8).Draw(r, "cost")),
			Settled:    rapid.Float64Range(-10, 110).Draw(r, "settled"),
			Drift:      rapid.IntRange(0, 9).Draw(r, "drift") == 0,
		}
	}), 1, 200).Draw(r, "observations")
}

func configs(r *rapid.T) Config {
	shortest := rapid.Int64Range(1, 1e7).Draw(r, "min")
	longest := rapid.Int64Range(shortest, 1e10).Draw(r, "max")
	low := rapid.Float64Range(0.001, 0.5).Draw(r, "low")
	return Config{
		Min:          time.Duration(shortest),
		Max:          time.Duration(longest),
		Initial:      time.Duration(rapid.Int64Range(shortest, longest).Draw(r, "initial")),
		Low:          low,
		High:         rapid.Float64Range(low+0.001, 0.999).Draw(r, "high"),
		Window:       rapid.IntRange(1, 10000).Draw(r, "window"),
		MaxOverhead:  rapid.Float64Range(-1, 1).Draw(r, "overhead"),
		MaxDaemonCPU: rapid.Float64Range(-1, 1).Draw(r, "daemon"),
		Settle:       rapid.Float64Range(-100, 100).Draw(r, "settle"),
		Off:          rapid.Bool().Draw(r, "off"),
	}
}

func TestAnyObservation(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		c := configs(r)
		a, err := New(c)
		if err != nil {
			r.Fatal(err)
		}
		b, _ := New(c)
		for _, o := range observations(r) {
			before := a.Interval()
			d, changed := a.Observe(o)
			if again, _ := b.Observe(o); again != d {
				r.Fatalf("the same observations: %+v, then %+v", d, again)
			}
			checkDecision(r, c, before, d, changed, a.Interval())
		}
	})
}

func checkDecision(r *rapid.T, c Config, before time.Duration, d Decision, changed bool, now time.Duration) {
	switch {
	case now < c.Min || now > c.Max:
		r.Fatalf("interval %v outside %v to %v", now, c.Min, c.Max)
	case !changed && (d != Decision{} || now != before):
		r.Fatalf("no decision, but %+v and %v → %v", d, before, now)
	case changed && (d.Interval != now || now == before):
		r.Fatalf("decision %+v, but %v → %v", d, before, now)
	case changed && !strings.Contains(d.Reason, ": interval "+before.String()+" → "+now.String()):
		r.Fatalf("reason %q does not tell of %v → %v", d.Reason, before, now)
	case changed && c.Off && now < c.Initial:
		r.Fatalf("off, but shorter than at first: %q", d.Reason)
	}
}

// For any lengths of activations, tuning ends after a few changes.
func TestAnyProgramRests(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		var p program
		lengths := rapid.SliceOfN(rapid.Float64Range(4, 10), 1, 5).Draw(r, "log10 of lengths in ns")
		for _, l := range lengths {
			p.parts = append(p.parts, activations{1 / float64(len(lengths)), time.Duration(math.Pow(10, l))})
		}
		p.known = rapid.Float64Range(0.3, 1).Draw(r, "known")
		p.cores = rapid.Float64Range(0.5, 8).Draw(r, "cores")
		p.cost = 20 * time.Microsecond
		tuner, _ := New(Config{})
		s := &simulation{tuner: tuner}
		s.run(p, time.Hour)
		changes := len(s.decisions)
		s.run(p, time.Hour)
		if changes > maxChanges || len(s.decisions) != changes || !tuner.repetitions.resting {
			r.Fatalf("%d changes in the first hour; %v", changes, s)
		}
	})
}

func TestConfigErrors(t *testing.T) {
	t.Parallel()
	nan := math.NaN()
	tests := map[string]Config{
		"shortest interval": {Min: time.Second, Max: time.Millisecond},
		"initial interval":  {Min: time.Second, Max: time.Minute, Initial: time.Millisecond},
		"longest interval":  {Max: 2 * time.Hour},
		"thresholds":        {Low: 0.2},
		"window":            {Window: -1},
		"cost":              {SampleCost: -1},
		"budget":            {MaxOverhead: nan},
		"settled":           {Settle: 101},
	}
	for what, c := range tests {
		if _, err := New(c); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%+v: error %v, want one about the %s", c, err, what)
		}
	}
	if _, err := New(Config{Low: nan}); err == nil {
		t.Error("a threshold that is not a number: no error")
	}
}

func TestConfigDefaults(t *testing.T) {
	t.Parallel()
	tests := []struct {
		config                     Config
		shortest, initial, longest time.Duration
	}{
		{Config{}, 100 * time.Microsecond, 10 * time.Millisecond, 100 * time.Millisecond},
		{Config{Initial: time.Second}, 100 * time.Microsecond, time.Second, time.Second},
		{Config{Initial: time.Microsecond}, time.Microsecond, time.Microsecond, 100 * time.Millisecond},
		{Config{Min: 20 * time.Millisecond}, 20 * time.Millisecond, 20 * time.Millisecond, 100 * time.Millisecond},
		{Config{Max: time.Millisecond}, 100 * time.Microsecond, time.Millisecond, time.Millisecond},
		{Config{Min: time.Minute}, time.Minute, time.Minute, time.Minute},
	}
	for _, tt := range tests {
		c, err := tt.config.complete()
		if err != nil || c.Min != tt.shortest || c.Initial != tt.initial || c.Max != tt.longest {
			t.Errorf("%+v: %v to %v from %v, %v", tt.config, c.Min, c.Max, c.Initial, err)
		}
	}
}

func TestObserveAllocatesNothing(t *testing.T) {
	tuner, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	o := Observation{Samples: 100, Known: 100, Repeated: 8, TargetCPU: time.Second}
	if n := testing.AllocsPerRun(1000, func() { o.At += time.Second; tuner.Observe(o) }); n != 0 {
		t.Errorf("%v allocations for an observation without a decision", n)
	}
}

// Verdicts says how many verdicts bring the tuner to a decision, or to rest, if
// their rate stays the same.
func TestMissingVerdictsDecide(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		repeated, known int // so far
		want            int
	}{
		{0, 0, 657},
		{0, 57, 600},
		{1, 1, 19},  // surely over
		{20, 40, 0}, // surely over
		{5, 100, 0}, // inside
		{2, 100, 0},
		{16, 100, 1900}, // as near to the threshold as can be told
	} {
		tuner, err := New(Config{})
		if err != nil {
			t.Fatal(err)
		}
		tuner.Observe(Observation{Samples: test.known, Known: test.known, Repeated: test.repeated})
		if known, needed := tuner.Verdicts(); known != test.known || needed-known != test.want {
			t.Errorf("%d of %d: %d of %d verdicts, want %d more", test.repeated, test.known, known, needed, test.want)
			continue
		}
		more := tuner.repetitions.window.rate.grown(test.known + test.want)
		_, changed := tuner.Observe(Observation{
			At:       time.Minute,
			Samples:  test.want,
			Known:    test.want,
			Repeated: more.repeated - test.repeated,
		})
		if !changed && !tuner.repetitions.resting {
			t.Errorf("%d of %d and %d more: no decision", test.repeated, test.known, test.want)
		}
		if _, needed := tuner.Verdicts(); (needed == 0) != tuner.repetitions.resting {
			t.Errorf("at rest %v, and %d verdicts are needed", tuner.repetitions.resting, needed)
		}
	}
	off, err := New(Config{Off: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, needed := off.Verdicts(); needed != 0 {
		t.Errorf("%d verdicts are needed where nothing is tuned", needed)
	}
}
