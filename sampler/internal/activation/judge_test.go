package activation

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/process"
)

// stream is a recorded thread: the calls that it has made, all of one function from
// one place, and the samples taken of it.
type stream struct {
	calls   []int64 // when each began, ns
	samples []int64
}

// recordStream lets a thread make calls that take between least and most, and samples it
// at an interval with periods within a quarter of it.
func recordStream(r *rand.Rand, interval, least, most time.Duration) stream {
	const samples = 20_000
	var s stream
	at := int64(0)
	for range samples {
		at += int64(float64(interval) * (0.75 + r.Float64()/2))
		s.samples = append(s.samples, at)
	}
	for began := int64(0); began <= at+int64(time.Second); {
		s.calls = append(s.calls, began)
		began += int64(least) + r.Int64N(int64(most-least)+1)
	}
	return s
}

// call returns the number of the call that runs at a time.
func (s *stream) call(at int64) int {
	return sort.Search(len(s.calls), func(i int) bool { return s.calls[i] > at })
}

// repeated says whether a sample finds the call that the one before it has found.
func (s *stream) repeated(i int) bool {
	return i > 0 && s.call(s.samples[i]) == s.call(s.samples[i-1])
}

// truth returns how many of all samples find the call of the sample before.
func (s *stream) truth() float64 {
	n := 0
	for i := range s.samples {
		if s.repeated(i) {
			n++
		}
	}
	return float64(n) / float64(len(s.samples))
}

// player is an engine on a recorded stream: its clock stands at the time of the
// stream, and it is the watch of the word that every call writes.
type player struct {
	*stream
	onCPUs  bool // the watch is on CPUs, and one of ten samples is chosen
	now     int64
	setting int64                     // how long it takes to set a watch
	spoiled func(from, to int64) bool // whether another process writes between two times; nil: never
	armed   int64
}

func (p *player) Arm(uint64, []uint32) error {
	p.now += p.setting
	p.armed = p.now
	return nil
}

func (p *player) Dirty(until int64) (bool, error) {
	if !p.onCPUs || until > p.now {
		until = p.now
	}
	if p.spoiled != nil && p.spoiled(p.armed, until) {
		return false, errors.New("spoiled")
	}
	return p.call(until) != p.call(p.armed), nil
}

func (p *player) ArmAt(uint32) error { return nil }
func (p *player) Forget(uint32)      {}
func (p *player) OnCPUs() bool       { return p.onCPUs }
func (p *player) Hits() uint64       { return 0 }
func (p *player) Close()             {}

// clean is a watch of a word that nothing writes.
type clean struct{ armed bool }

func (c *clean) Arm(uint64, []uint32) error { c.armed = true; return nil }
func (c *clean) ArmAt(uint32) error         { return nil }
func (c *clean) Dirty(int64) (bool, error)  { return false, nil }
func (c *clean) Forget(uint32)              {}
func (c *clean) OnCPUs() bool               { return false }
func (c *clean) Hits() uint64               { return 0 }
func (c *clean) Close()                     { c.armed = false }

// TestRest: a sample after a pause has no verdict, whatever its stack, and no watch is left in
// the pause.
func TestRest(t *testing.T) {
	t.Parallel()
	w := new(clean)
	j := New(Options{
		Watches:  []Watch{w},
		Interval: func() time.Duration { return 10 * time.Millisecond },
		Places:   func(int, Moment) []uint32 { return []uint32{1} },
		Log:      slog.New(slog.DiscardHandler),
	})
	now := int64(time.Second)
	j.clock = func() int64 { return now }
	judge := func() ccmap.Repetition {
		now += int64(10 * time.Millisecond)
		st := process.Stack{PCs: []uint64{200, 110}, Thread: 1, Slot: 8, Rooted: true}
		return j.Judge(&st, Moment{TID: 1, At: now, Chosen: true}, func(pc uint64) uint64 { return pc / 100 })
	}
	for i, want := range []ccmap.Repetition{ccmap.TopNew, ccmap.TopRepeated, ccmap.TopRepeated} {
		if got := judge(); got != want {
			t.Errorf("sample %d: %v, want %v", i, got, want)
		}
	}
	j.Rest()
	if w.armed || j.Watching() != 0 {
		t.Error("a watch is set in the pause")
	}
	for i, want := range []ccmap.Repetition{ccmap.TopUnknown, ccmap.TopRepeated} {
		if got := judge(); got != want {
			t.Errorf("sample %d after the pause: %v, want %v", i, got, want)
		}
	}
}

// batch is how often samples are drained that are not chosen.
const batch = int64(50 * time.Millisecond)

// play drains the samples, the next of them after a delay that lag draws, together
// with all that were taken meanwhile, and returns the verdicts.
func (p *player) play(interval time.Duration, lag func() int64) []ccmap.Repetition {
	j := New(Options{
		Watches:  []Watch{p},
		Interval: func() time.Duration { return interval },
		Places:   func(int, Moment) []uint32 { return []uint32{1} },
		Sparse:   p.onCPUs,
		Log:      slog.New(slog.DiscardHandler),
	})
	j.clock = func() int64 { return p.now }
	st := process.Stack{PCs: []uint64{200, 110}, Thread: 1, Slot: 8, Rooted: true}
	entry := func(pc uint64) uint64 { return pc }
	verdicts := make([]ccmap.Repetition, 0, len(p.samples))
	r := rand.New(rand.NewPCG(3, 5))
	chosen := make([]bool, len(p.samples))
	for i := range chosen {
		chosen[i] = !p.onCPUs || r.IntN(10) == 0
	}
	for len(verdicts) < len(p.samples) {
		p.now = max(p.now, p.wake(chosen, len(verdicts))+lag())
		for i := len(verdicts); i < len(p.samples) && p.samples[i] <= p.now; i++ {
			verdicts = append(verdicts, j.Judge(&st, Moment{TID: 1, At: p.samples[i], Chosen: chosen[i]}, entry))
		}
	}
	return verdicts
}

// wake returns when the samples from the first one on are drained: at the next one that is
// chosen, and in batches.
func (p *player) wake(chosen []bool, first int) int64 {
	end := max(p.now, p.samples[first]) + batch
	for i := first; i < len(chosen) && p.samples[i] < end; i++ {
		if chosen[i] {
			return p.samples[i]
		}
	}
	return end
}

// TestSparseWatchIsClosed: a watch that nothing waits for is not set any more where verdicts
// are sparse, and costs no switch.
func TestSparseWatchIsClosed(t *testing.T) {
	t.Parallel()
	for _, sparse := range []bool{false, true} {
		p := &player{stream: &stream{calls: []int64{0}}, now: 1}
		j := New(Options{
			Watches: []Watch{p}, Sparse: sparse, Log: slog.New(slog.DiscardHandler),
			Interval: func() time.Duration { return time.Second },
			Places:   func(int, Moment) []uint32 { return []uint32{1} },
		})
		j.clock = func() int64 { return p.now }
		st := process.Stack{PCs: []uint64{200, 110}, Thread: 1, Slot: 8, Rooted: true}
		entry := func(pc uint64) uint64 { return pc }
		j.Judge(&st, Moment{TID: 1, At: 1, Chosen: true}, entry)
		if n := j.Watching(); n != 1 {
			t.Fatalf("%d watches are set for a sample to come", n)
		}
		p.now++
		j.Judge(&st, Moment{TID: 1, At: 2}, entry)
		if n := j.Watching(); (n == 0) != sparse {
			t.Errorf("sparse %v: %d watches are set after the verdict", sparse, n)
		}
	}
}

// known counts the verdicts and those that say that a call is repeated, without the
// first sample, which has none before it.
func known(verdicts []ccmap.Repetition) (known, repeated int) {
	for _, v := range verdicts[1:] {
		if v != ccmap.TopUnknown {
			known++
		}
		if v == ccmap.TopRepeated {
			repeated++
		}
	}
	return known, repeated
}

// The delays of a drain: of one that is woken at once, of one that waits for a
// processor now and then, and of one that takes most samples in pairs or more.
func lags(r *rand.Rand, interval time.Duration) map[string]func() int64 {
	exponential := func(mean float64) int64 { return int64(mean * r.ExpFloat64()) }
	return map[string]func() int64{
		"idle":  func() int64 { return 20_000 + exponential(10_000) },
		"busy":  func() int64 { return 20_000 + exponential(10_000) + r.Int64N(2)*exponential(2e6) },
		"pairs": func() int64 { return 20_000 + r.Int64N(2)*r.Int64N(int64(2*interval)) },
	}
}

// TestVerdictsAreTrue: whatever the delay, the repetitions among the verdicts are
// those among all samples, within chance and the time that a watch is not set. Of
// calls shorter than an interval none is found twice.
func TestVerdictsAreTrue(t *testing.T) {
	t.Parallel()
	for _, onCPUs := range []bool{false, true} {
		testVerdictsAreTrue(t, onCPUs)
	}
}

func testVerdictsAreTrue(t *testing.T, onCPUs bool) {
	for _, interval := range []time.Duration{time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond, 10 * time.Millisecond} {
		for _, calls := range []struct {
			name        string
			least, most float64 // intervals
		}{{"short", 0.2, 0.6}, {"even", 0.5, 2}, {"long", 3, 8}} {
			for _, delay := range []string{"idle", "busy", "pairs"} {
				name := fmt.Sprintf("cpus=%v,interval=%v,calls=%s,drain=%s", onCPUs, interval, calls.name, delay)
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					r := rand.New(rand.NewPCG(uint64(interval), 11))
					span := func(part float64) time.Duration { return time.Duration(part * float64(interval)) }
					s := recordStream(r, interval, span(calls.least), span(calls.most))
					p := &player{stream: &s, setting: 20_000, onCPUs: onCPUs}
					n, repeated := known(p.play(interval, lags(r, interval)[delay]))
					rate, truth := float64(repeated)/float64(n), s.truth()
					unset := float64(p.setting) / float64(span(calls.least))
					chance := 4*math.Sqrt(truth*(1-truth)/float64(n)) + unset*truth
					t.Logf("%.2f %% of %d verdicts, truth %.2f %% ± %.2f", 100*rate, n, 100*truth, 100*chance)
					if n < 200 || math.Abs(rate-truth) > chance {
						t.Errorf("repetitions %.2f %% of %d verdicts; %.2f %% ± %.2f is true", 100*rate, n, 100*truth, 100*chance)
					}
				})
			}
		}
	}
}

// TestSpoiledWatches: where another process spoils watches now and then, there are fewer
// verdicts, of calls that are repeated and of others alike.
func TestSpoiledWatches(t *testing.T) {
	t.Parallel()
	const interval = 10 * time.Millisecond
	s := recordStream(rand.New(rand.NewPCG(4, 2)), interval, interval, 8*interval)
	lag := func() int64 { return 50_000 }
	all, _ := known((&player{stream: &s, setting: 50_000, onCPUs: true}).play(interval, lag))
	const slice = 3e6 // ns; in one of five, another process writes
	p := &player{stream: &s, setting: 50_000, onCPUs: true, spoiled: func(from, to int64) bool {
		for n := from / slice; n <= to/slice; n++ {
			if n%5 == 0 {
				return true
			}
		}
		return false
	}}
	n, repeated := known(p.play(interval, lag))
	rate, truth := float64(repeated)/float64(n), s.truth()
	chance := 4 * math.Sqrt(truth*(1-truth)/float64(n))
	t.Logf("%d verdicts of %d, %.2f %% of them say repeated, truth %.2f %% ± %.2f", n, all, 100*rate, 100*truth, 100*chance)
	if n < 100 || n > all*2/3 || math.Abs(rate-truth) > chance {
		t.Errorf("repetitions %.2f %% of %d verdicts, %d without the other process; %.2f %% ± %.2f is true", 100*rate, n, all, 100*truth, 100*chance)
	}
}

// TestNoVerdictFromBeforeTheWatch: two samples closer than the delay of a drain, as
// the events of two CPUs can take them, are drained one after the other; the second
// one was in the ring when the watch was set.
func TestNoVerdictFromBeforeTheWatch(t *testing.T) {
	t.Parallel()
	s := stream{calls: []int64{0, 10_015_000}, samples: []int64{10_000_000, 10_030_000, 20_000_000}}
	p := &player{stream: &s, setting: 20_000}
	got := p.play(10*time.Millisecond, func() int64 { return 40_000 })
	want := []ccmap.Repetition{ccmap.TopNew, ccmap.TopUnknown, ccmap.TopRepeated}
	if !slices.Equal(got, want) {
		t.Errorf("verdicts %v, want %v", got, want)
	}
}

// TestWrittenAfterTheSample: a watch on CPUs goes by the time of the write. A call that
// begins long after the second sample, but before it is drained, leaves it repeated; a call
// between the samples does not. The watch begins 100 µs after the first sample, so a call
// within 100 µs after the second one counts.
func TestWrittenAfterTheSample(t *testing.T) {
	t.Parallel()
	const ms = int64(time.Millisecond)
	for call, want := range map[int64]ccmap.Repetition{
		15 * ms: ccmap.TopNew, 20*ms + 90_000: ccmap.TopNew, 20*ms + 110_000: ccmap.TopRepeated, 30 * ms: ccmap.TopRepeated,
	} {
		s := stream{calls: []int64{0, call}}
		p := &player{stream: &s, onCPUs: true, setting: 50_000}
		j := New(Options{
			Watches: []Watch{p}, Interval: func() time.Duration { return 10 * time.Millisecond },
			Places: func(int, Moment) []uint32 { return []uint32{1} }, Sparse: true, Log: slog.New(slog.DiscardHandler),
		})
		j.clock = func() int64 { return p.now }
		st := process.Stack{PCs: []uint64{200, 110}, Thread: 1, Slot: 8, Rooted: true}
		entry := func(pc uint64) uint64 { return pc }
		p.now = 10*ms + 50_000
		j.Judge(&st, Moment{At: 10 * ms, Chosen: true}, entry)
		p.now = 60 * ms
		if got := j.Judge(&st, Moment{At: 20 * ms}, entry); got != want {
			t.Errorf("a call at %v: verdict %v, want %v", time.Duration(call), got, want)
		}
	}
}

// TestSlowWatchesEndVerdicts: where watches take longer to set than a sample may be old,
// a call that began meanwhile would pass for a repetition.
func TestSlowWatchesEndVerdicts(t *testing.T) {
	t.Parallel()
	const interval = time.Millisecond
	s := recordStream(rand.New(rand.NewPCG(1, 2)), interval, interval/2, interval)
	for _, onCPUs := range []bool{false, true} {
		p := &player{stream: &s, setting: int64(interval) / 3, onCPUs: onCPUs}
		n, _ := known(p.play(interval, func() int64 { return 20_000 }))
		if most := 10; n > most {
			t.Errorf("on CPUs %v: %d verdicts of %d samples, at most %d before the delay is known", onCPUs, n, len(s.samples), most)
		}
	}
}
