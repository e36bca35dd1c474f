package manager

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/queue"
	"github.com/ccmapd/ccmapd/tuning"
)

// BenchmarkFold measures the manager's cost of a sample. Either all samples are of one
// thread, whose innermost frames change, or each sample is of another thread, with
// another stack.
func BenchmarkFold(b *testing.B) {
	for _, depth := range []int{10, 40} {
		for _, threads := range []int{1, 1000} {
			b.Run(fmt.Sprintf("depth=%d/threads=%d", depth, threads), func(b *testing.B) {
				m, err := New(newSession(nil).config)
				if err != nil {
					b.Fatal(err)
				}
				samples := walks(m.config.Map.Names(), 1000, depth, threads)
				fold := func() {
					for i := range samples {
						m.fold(&samples[i])
					}
				}
				fold()
				b.ReportAllocs()
				for b.Loop() {
					fold()
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(samples)), "ns/sample")
			})
		}
	}
}

// BenchmarkSample measures what a sample of depth 40 costs from its push into a ring to its counts, in
// a session that tunes, settles and publishes, and that catches a call for every ten samples. Stacks
// are known or new. The fold alone, of the same samples into another map, is measured in turn.
func BenchmarkSample(b *testing.B) {
	const n = 10_000 // samples
	for _, c := range []struct {
		name    string
		threads int
		isNew   bool
	}{{"known/threads=1", 1, false}, {"known/threads=1000", 1000, false}, {"new", n, true}} {
		for _, fresh := range []int32{0, ccmap.FreshUnknown} {
			b.Run(fmt.Sprintf("stacks=%s/marks=%t", c.name, fresh == 0), func(b *testing.B) {
				names := ccmap.NewNames()
				samples := walks(names, n, 40, c.threads)
				for i := range samples {
					samples[i].Fresh, samples[i].Top = fresh, ccmap.TopNew
				}
				var l *line
				var other *ccmap.Map
				renew := func() {
					if l != nil {
						close(l.convergence.questions)
					}
					l, other = newLine(b, names), ccmap.New(ccmap.Options{Names: names, Seed: 1})
				}
				renew()
				defer func() { close(l.convergence.questions) }()
				if !c.isNew {
					for range 3 { // known, and all chunks of counters made
						l.take(samples)
						other.FoldBatch(samples)
					}
				}
				var whole, fold time.Duration
				for b.Loop() {
					whole += onCPU(func() { l.take(samples) })
					fold += onCPU(func() { other.FoldBatch(samples) })
					if c.isNew {
						renew()
					}
				}
				each := func(d time.Duration) float64 { return float64(d) / float64(b.N) / n }
				b.ReportMetric(each(whole), "cpu-ns/sample")
				b.ReportMetric(each(fold), "fold-ns/sample")
				b.ReportMetric(each(whole-fold), "outside-ns/sample")
			})
		}
	}
}

// line is a manager without its goroutine, and a ring that leads to it. The user closes the questions.
type line struct {
	*Manager
	ring *queue.Ring
}

func newLine(b *testing.B, names *ccmap.Names) *line {
	b.Helper()
	s := newSessionOf(ccmap.Options{Names: names, Seed: 1}, nil)
	tuner, err := tuning.New(tuning.Config{Initial: s.source.stats.Interval})
	if err != nil {
		b.Fatal(err)
	}
	s.config.Tuner = tuner
	m, err := New(s.config)
	if err != nil {
		b.Fatal(err)
	}
	m.beginSession()
	go m.convergence.work()
	return &line{m, m.info.Sink.Queue.Ring()}
}

// take takes samples as a session does whose target gives 10,000 in a second: ten in a turn, with
// a reader's publication in a thousand.
func (l *line) take(samples []ccmap.Sample) {
	for i := range samples {
		s := &samples[i]
		l.ring.Push(s)
		if i%10 != 9 {
			continue
		}
		l.ring.Push(&ccmap.Sample{Frames: s.Frames, Hit: true, Thread: s.Thread})
		l.ring.Publish()
		l.takeTurn()
		select {
		case a := <-l.convergence.answers:
			l.learn(a)
		default:
		}
		if i%1000 == 999 {
			l.publish()
		}
	}
}

// onCPU returns the CPU time that the process uses while f runs.
func onCPU(f func()) time.Duration {
	start := processCPU()
	f()
	return processCPU() - start
}

// BenchmarkPoints measures an update of all profile points of the map.
func BenchmarkPoints(b *testing.B) {
	for _, sites := range []int{1000, 10_000} {
		b.Run(fmt.Sprintf("points=%d", sites), func(b *testing.B) {
			names := ccmap.NewNames()
			m := ccmap.New(ccmap.Options{Names: names, Seed: 1})
			v := newValues(ValueOptions{}, names, slog.New(slog.DiscardHandler))
			leaf, root := names.Intern(ccmap.Method{Name: "leaf"}), names.Intern(ccmap.Method{Name: "root"})
			for i := range sites {
				v.count(&ccmap.Sample{Frames: []ccmap.Frame{{Method: leaf}, {Method: root, Offset: uint32(i)}}})
			}
			for b.Loop() {
				m.SetPoints(ccmap.OriginBurst, v.points())
				m.Snapshot()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*sites), "ns/point")
		})
	}
}

// walks returns samples of a program of 2,000 methods that call up to six others
// each, mostly the first of them. A thread changes its eight innermost frames at
// most from one sample to the next.
func walks(names *ccmap.Names, n, depth, threads int) []ccmap.Sample {
	rng := rand.New(rand.NewPCG(1, 1))
	calls := make([][]ccmap.Frame, 2000)
	for i := range calls {
		names.Intern(ccmap.Method{Name: fmt.Sprint("f", i)})
		for range 1 + rng.IntN(6) {
			calls[i] = append(calls[i], ccmap.Frame{Method: ccmap.FirstID + ccmap.MethodID(rng.IntN(len(calls))), Offset: rng.Uint32N(100)})
		}
	}
	samples := make([]ccmap.Sample, n)
	for i := range samples {
		s := &samples[i]
		*s = ccmap.Sample{Thread: uint64(i%threads + 1), Weight: 1e7, Fresh: ccmap.FreshUnknown, Frames: make([]ccmap.Frame, depth)}
		kept, callee := 0, ccmap.FirstID+ccmap.MethodID(rng.IntN(8))
		if i >= threads {
			last := samples[i-threads].Frames
			kept = max(depth-1-rng.IntN(8), 0)
			copy(s.Frames[depth-kept:], last[depth-kept:])
			callee = last[depth-kept-1].Method
		}
		for at := depth - kept - 1; at >= 0; at-- {
			likely := calls[callee-ccmap.FirstID]
			call := likely[max(rng.IntN(12)-6, 0)%len(likely)]
			s.Frames[at] = ccmap.Frame{Method: callee, Offset: call.Offset}
			callee = call.Method
		}
	}
	return samples
}
