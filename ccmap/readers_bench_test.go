package ccmap_test

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
)

// reading are goroutines that read a map's latest snapshot in a loop.
type reading struct {
	latest  atomic.Pointer[ccmap.Snapshot]
	stopped atomic.Bool
	done    sync.WaitGroup
}

func startReading(s *ccmap.Snapshot, readers int) *reading {
	r := new(reading)
	r.latest.Store(s)
	for range readers {
		r.done.Go(func() {
			for !r.stopped.Load() {
				readAll(r.latest.Load())
			}
		})
	}
	return r
}

func (r *reading) stop() {
	r.stopped.Store(true)
	r.done.Wait()
}

// readAll looks at all methods and all nodes.
func readAll(s *ccmap.Snapshot) {
	var total ccmap.Counters
	for p := range s.Methods() {
		total = total.Add(p.Self())
	}
	for n := range s.Nodes() {
		total = total.Add(n.Self)
	}
	runtime.KeepAlive(total)
}

// BenchmarkFoldReaders folds known stacks in three ways in turn: alone, beside
// goroutines that read another map in a loop, and beside as many that read the
// latest snapshot of this one. There are more goroutines than cores, so the figures
// are CPU times of the thread that folds. The extra cost of the second way is the
// machine's: caches and perhaps the core are shared. The extra cost of the third
// way is the map's: chunks are copied after each snapshot. A snapshot is published
// as often as readers make the manager do it, or ten times as often, on the clock
// of the thread: as if it had a core of its own.
func BenchmarkFoldReaders(b *testing.B) {
	g := newCallGraph(2000)
	samples := g.stacks(large(20_000), 60, 60)
	m := ccmap.New(ccmap.Options{Names: g.names, Seed: 1})
	m.FoldBatch(samples)
	other := ccmap.New(ccmap.Options{Names: g.names, Seed: 1})
	other.FoldBatch(samples)
	for _, every := range []time.Duration{100 * time.Millisecond, 10 * time.Millisecond} {
		for _, readers := range []int{1, 8} {
			b.Run(fmt.Sprintf("readers=%d/publish=%v", readers, every), func(b *testing.B) {
				lockThread(b)
				var alone, beside, shared spent
				for b.Loop() {
					alone.add(foldFor(m, samples, func() {}))
					elsewhere := startReading(other.Snapshot(), readers)
					beside.add(foldFor(m, samples, func() {}))
					elsewhere.stop()
					here := startReading(m.Snapshot(), readers)
					shared.add(foldFor(m, samples, here.publisher(m, every)))
					here.stop()
				}
				b.ReportMetric(alone.cpuPerFrame(), "alone-cpu-ns/frame")
				b.ReportMetric(beside.cpuPerFrame(), "beside-cpu-ns/frame")
				b.ReportMetric(shared.cpuPerFrame(), "shared-cpu-ns/frame")
				b.ReportMetric(100*(shared.cpuPerFrame()/beside.cpuPerFrame()-1), "shared-%more")
				b.ReportMetric(shared.wallPerFrame()/alone.wallPerFrame(), "wall-shared/alone")
			})
		}
	}
}

// publisher returns a function that publishes a snapshot of the map if the last one is
// old.
func (r *reading) publisher(m *ccmap.Map, every time.Duration) func() {
	published := threadTime()
	return func() {
		if now := threadTime(); now-published >= every {
			r.latest.Store(m.Snapshot())
			published = now
		}
	}
}

// spent is the cost of folding.
type spent struct {
	cpu, wall time.Duration
	frames    int
}

func (s *spent) add(o spent) {
	s.cpu += o.cpu
	s.wall += o.wall
	s.frames += o.frames
}

func (s *spent) cpuPerFrame() float64  { return float64(s.cpu) / float64(s.frames) }
func (s *spent) wallPerFrame() float64 { return float64(s.wall) / float64(s.frames) }

// foldFor folds for a fifth of a second of CPU time, and calls turn after each thousand
// samples.
func foldFor(m *ccmap.Map, samples []ccmap.Sample, turn func()) spent {
	batch := min(1000, len(samples))
	var s spent
	span := time.Duration(large(int(time.Second / 5)))
	start, cpu := time.Now(), threadTime()
	for at := 0; threadTime()-cpu < span; at += batch {
		if at+batch > len(samples) {
			at = 0
		}
		m.FoldBatch(samples[at : at+batch])
		s.frames += frames(samples[at : at+batch])
		turn()
	}
	s.cpu, s.wall = threadTime()-cpu, time.Since(start)
	return s
}

// BenchmarkHeldSnapshot holds a snapshot of a map of a million nodes while the
// writer counts in some of its chunks. It reports the memory that this costs,
// beside the bytes of counters in the changed chunks.
func BenchmarkHeldSnapshot(b *testing.B) {
	g := newCallGraph(2000)
	samples := g.stacks(large(30_000), 60, 60)
	m := ccmap.New(ccmap.Options{Names: g.names, Seed: 1})
	m.FoldBatch(samples)
	chunks := (m.Len() + 1023) / 1024
	for _, changed := range []int{1, chunks / 10, chunks} {
		b.Run(fmt.Sprintf("chunks=%d/changed=%d", chunks, changed), func(b *testing.B) {
			var size int64
			for b.Loop() {
				before := heap()
				s := m.Snapshot()
				for c := range changed {
					m.Add(ccmap.NodeID(c*1024+1), ccmap.Counters{Samples: 1, Time: 1})
				}
				size = heap() - before
				runtime.KeepAlive(s)
			}
			b.ReportMetric(float64(size), "held-B")
			b.ReportMetric(float64(size)/float64(changed), "held-B/chunk")
		})
	}
}
