package activation

import (
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
	now     int64
	setting int64 // how long it takes to set a watch
	armed   int64
}

func (p *player) Arm(uint64, []uint32) error {
	p.now += p.setting
	p.armed = p.now
	return nil
}

func (p *player) Dirty() (bool, error)   { return p.call(p.now) != p.call(p.armed), nil }
func (p *player) ArmThread(uint32) error { return nil }
func (p *player) Forget(uint32)          {}
func (p *player) Close()                 {}

// play drains the samples, the next of them after a delay that lag draws, together
// with all that were taken meanwhile, and returns the verdicts.
func (p *player) play(interval time.Duration, lag func() int64) []ccmap.Repetition {
	j := New(Options{
		Watches:  []Watch{p},
		Interval: func() time.Duration { return interval },
		Threads:  func(int, uint32) []uint32 { return []uint32{1} },
		Log:      slog.New(slog.DiscardHandler),
	})
	j.clock = func() int64 { return p.now }
	st := process.Stack{PCs: []uint64{200, 110}, Thread: 1, Slot: 8, Rooted: true}
	entry := func(pc uint64) uint64 { return pc }
	verdicts := make([]ccmap.Repetition, 0, len(p.samples))
	for len(verdicts) < len(p.samples) {
		p.now = max(p.now, p.samples[len(verdicts)]+lag())
		for i := len(verdicts); i < len(p.samples) && p.samples[i] <= p.now; i++ {
			verdicts = append(verdicts, j.Judge(&st, Moment{TID: 1, At: p.samples[i], Chosen: true}, entry))
		}
	}
	return verdicts
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
			Threads:  func(int, uint32) []uint32 { return []uint32{1} },
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
	for _, interval := range []time.Duration{time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond, 10 * time.Millisecond} {
		for _, calls := range []struct {
			name        string
			least, most float64 // intervals
		}{{"short", 0.2, 0.6}, {"even", 0.5, 2}, {"long", 3, 8}} {
			for _, delay := range []string{"idle", "busy", "pairs"} {
				name := fmt.Sprintf("interval=%v,calls=%s,drain=%s", interval, calls.name, delay)
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					r := rand.New(rand.NewPCG(uint64(interval), 11))
					span := func(part float64) time.Duration { return time.Duration(part * float64(interval)) }
					s := recordStream(r, interval, span(calls.least), span(calls.most))
					p := &player{stream: &s, setting: 20_000}
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

// TestSlowWatchesEndVerdicts: where watches take longer to set than a sample may be old,
// a call that began meanwhile would pass for a repetition.
func TestSlowWatchesEndVerdicts(t *testing.T) {
	t.Parallel()
	const interval = time.Millisecond
	s := recordStream(rand.New(rand.NewPCG(1, 2)), interval, interval/2, interval)
	p := &player{stream: &s, setting: int64(interval) / 3}
	n, _ := known(p.play(interval, func() int64 { return 20_000 }))
	if most := 10; n > most {
		t.Errorf("%d verdicts of %d samples, at most %d before the delay is known", n, len(s.samples), most)
	}
}
