package queue

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
)

// contender is a way to bring samples to a consumer: a push for one producer
// and a drain for the consumer.
type contender struct {
	producer func() (push func(*ccmap.Sample) bool, finish func())
	drain    func(fold func(*ccmap.Sample))
}

const (
	benchFrames = 64      // of a sample, at most
	benchWords  = 1 << 16 // of a ring: enough for most pauses of the consumer
)

// flat is a sample with its frames in it.
type flat struct {
	ccmap.Sample
	frames [benchFrames]ccmap.Frame
}

func (f *flat) set(s *ccmap.Sample) {
	f.Sample = *s
	f.Frames = f.frames[:copy(f.frames[:], s.Frames)]
}

// null only writes the record, to a place that moves on like a ring's. Every queue of
// records must do that.
func null() contender {
	return contender{
		producer: func() (func(*ccmap.Sample) bool, func()) {
			w, tail := make([]word, 2*benchWords), 0
			return func(s *ccmap.Sample) bool {
				n := recordWords(s)
				encode(w[tail:tail+n], s)
				tail = (tail + n) % benchWords
				return true
			}, func() {}
		},
		drain: func(func(*ccmap.Sample)) {},
	}
}

func rings() contender {
	q := New(Options{RingWords: benchWords})
	return contender{
		producer: func() (func(*ccmap.Sample) bool, func()) {
			r := q.Ring()
			return r.Push, r.Close
		},
		drain: func(fold func(*ccmap.Sample)) { q.Drain(fold) },
	}
}

// channel carries values, so that the samples need no memory of their own.
func channel() contender {
	c := make(chan flat, 4096)
	push := func(s *ccmap.Sample) bool {
		var f flat
		f.set(s)
		select {
		case c <- f:
			return true
		default:
			return false
		}
	}
	return contender{
		producer: func() (func(*ccmap.Sample) bool, func()) { return push, func() {} },
		drain: func(fold func(*ccmap.Sample)) {
			for {
				select {
				case f := <-c:
					f.Frames = f.frames[:len(f.Frames)]
					fold(&f.Sample)
				default:
					return
				}
			}
		},
	}
}

// mutex guards a list, which the consumer swaps for an empty one.
func mutex() contender {
	var mu sync.Mutex
	list, spare := make([]flat, 0, 4096), make([]flat, 0, 4096)
	push := func(s *ccmap.Sample) bool {
		mu.Lock()
		defer mu.Unlock()
		n := len(list)
		if n == cap(list) {
			return false
		}
		list = list[:n+1]
		list[n].set(s)
		return true
	}
	return contender{
		producer: func() (func(*ccmap.Sample) bool, func()) { return push, func() {} },
		drain: func(fold func(*ccmap.Sample)) {
			mu.Lock()
			list, spare = spare, list
			mu.Unlock()
			for i := range spare {
				fold(&spare[i].Sample)
			}
			spare = spare[:0]
		},
	}
}

// BenchmarkPush times single pushes of samples with 16 to 64 frames, 2 µs or
// more between two of a producer, while the consumer drains ten times a
// millisecond. The figures of all queues include reading the clock. The cost of a queue
// is its difference to the queue "null".
func BenchmarkPush(b *testing.B) {
	kinds := []struct {
		name string
		make func() contender
	}{{"null", null}, {"channel", channel}, {"mutex", mutex}, {"ring", rings}}
	for _, producers := range []int{1, 64, 1000} {
		for _, kind := range kinds {
			b.Run(fmt.Sprintf("queue=%s/producers=%d", kind.name, producers), func(b *testing.B) {
				benchmarkPush(b, kind.make(), producers)
			})
		}
	}
}

func benchmarkPush(b *testing.B, c contender, producers int) {
	const pushes = 64_000 // in all, per iteration
	stop := drainEvery(c, 100*time.Microsecond)
	defer stop()
	var took []time.Duration
	var refused atomic.Int64
	for b.Loop() {
		each := make([][]time.Duration, producers)
		var running sync.WaitGroup
		for p := range producers {
			running.Go(func() {
				var n int64
				each[p], n = timePushes(c, pushes/producers, uint64(p))
				refused.Add(n)
			})
		}
		running.Wait()
		took = append(took, slices.Concat(each...)...)
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2]), "ns-median")
	b.ReportMetric(float64(took[len(took)*999/1000]), "ns-p99.9")
	lost := float64(refused.Load())
	b.ReportMetric(100*lost/(lost+float64(len(took))), "%-refused")
	b.ReportMetric(0, "ns/op") // of a round with its pauses: says nothing
}

// drainEvery starts a consumer and returns a function that stops it.
func drainEvery(c contender, pause time.Duration) (stop func()) {
	var consumer sync.WaitGroup
	done := make(chan struct{})
	consumer.Go(func() {
		for tick := time.Tick(pause); ; {
			select {
			case <-tick:
				c.drain(func(*ccmap.Sample) {})
			case <-done:
				return
			}
		}
	})
	return func() { close(done); consumer.Wait() }
}

// timePushes is one producer. It returns the time of each accepted push, and the number
// of refused ones.
func timePushes(c contender, pushes int, seed uint64) (took []time.Duration, refused int64) {
	push, finish := c.producer()
	defer finish()
	rng := rand.New(rand.NewPCG(seed, 0))
	s := &ccmap.Sample{Thread: seed}
	frames := make([]ccmap.Frame, benchFrames)
	took = make([]time.Duration, 0, pushes)
	for range pushes {
		s.Frames = frames[:16+rng.IntN(benchFrames-16+1)]
		start := time.Now()
		ok := push(s)
		if d := time.Since(start); ok {
			took = append(took, d)
		} else {
			refused++
		}
		for time.Since(start) < 2*time.Microsecond {
			runtime.Gosched()
		}
	}
	return took, refused
}

// BenchmarkDrain times the consumer alone, with a fold that reads every frame.
func BenchmarkDrain(b *testing.B) {
	const rings, each, frames = 64, 100, 40
	q := New(Options{})
	producers := make([]*Ring, rings)
	for i := range producers {
		producers[i] = q.Ring()
	}
	s := &ccmap.Sample{Frames: make([]ccmap.Frame, frames)}
	var sum uint64
	fold := func(s *ccmap.Sample) {
		for _, f := range s.Frames {
			sum += uint64(f.Method) ^ uint64(f.Offset)
		}
	}
	var took time.Duration
	n := 0
	b.ReportAllocs()
	for b.Loop() {
		for _, r := range producers {
			for range each {
				r.Push(s)
			}
			r.Publish()
		}
		start := time.Now()
		n += q.Drain(fold)
		took += time.Since(start)
	}
	b.ReportMetric(float64(n)/took.Seconds(), "samples/s")
	b.ReportMetric(float64(took.Nanoseconds())/float64(n), "ns/sample")
	b.ReportMetric(0, "ns/op") // includes the pushes
}
