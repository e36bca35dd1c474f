package wasm

import (
	"math"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"sync/atomic"
	"time"
)

// collector collects garbage in place of Go's runtime, which would stop the world at
// moments when a guest is in native code and may stay there for long. The runtime's
// pace is the process's own, and a world that is to stop waits for the guests of every
// profiler: so all that collect share one.
//
//	staying        how many want guests to stay at their safe points
//	profilers      *Profiler, for which it collects
//	joined         how many these are, under mu
//	percent        the runtime's own pace: written before the goroutine starts
//	stopped, done  tell the goroutine to end, and that it has: under mu
type collector struct {
	staying   atomic.Int32
	profilers sync.Map

	mu            sync.Mutex
	joined        int
	percent       int
	stopped, done chan struct{}
}

// collecting is the process's collector.
var collecting collector

// collectEvery is how often the size of the heap is looked at: it grows by what the
// host functions and the profile allocate in that time.
const collectEvery = 20 * time.Millisecond

// smallestHeap is the size in bytes below which garbage is left alone, as the
// runtime's own pacer does (heapMinimum in runtime/mgcpacer.go, Go 1.26: 4 MiB).
const smallestHeap = 4 << 20

// Stopping calls f, while every guest leaves its native code at each safe point: so
// that f can stop the world, as runtime.GC and others do, without waiting for long.
// It is about the guests of this profiler, and of all with [Options].CollectAtSamples
// that are not closed.
func (p *Profiler) Stopping(f func()) {
	collecting.stopping(func() {
		p.ask()
		f()
	})
}

// stopping is [Profiler.Stopping] for the guests of all profilers that have joined.
func (c *collector) stopping(f func()) {
	c.staying.Add(1)
	defer c.staying.Add(-1)
	c.profilers.Range(func(p, _ any) bool {
		p.(*Profiler).ask()
		return true
	})
	f()
}

// ask has every guest call the host at its next safe point. It asks again: a guest that
// enters a function sets Limit and then reads Mark, but its processor may write the one
// after it has read the other, and undo the first time. Marks need not be so certain,
// for another one follows.
func (p *Profiler) ask() {
	p.askOnce()
	time.Sleep(settle)
	p.askOnce()
}

// settle is longer than processors take to write what they have yet to.
const settle = 10 * time.Microsecond

func (p *Profiler) askOnce() {
	p.instances.each((*instance).ask)
	if p.exact != nil {
		p.exact.ask()
	}
}

// calling reports whether guests are to call the host at each safe point, for all to
// stop there or to end.
func (p *Profiler) calling() bool {
	return collecting.staying.Load() != 0 || p.exit.Load() != 0
}

// join begins to collect garbage for a profiler, none of whose guests runs yet.
func (c *collector) join(p *Profiler) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.profilers.Store(p, nil)
	if c.joined++; c.joined > 1 {
		return
	}
	c.percent = debug.SetGCPercent(-1)
	runtime.GC() // one that had begun would stop the world once more, at any moment
	c.stopped, c.done = make(chan struct{}), make(chan struct{})
	go c.run(c.stopped, c.done)
}

// leave ends that for a profiler that has joined. Behind the last one it gives the
// runtime its own pace back.
func (c *collector) leave(p *Profiler) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, joined := c.profilers.Load(p); !joined {
		return
	}
	defer c.profilers.Delete(p)
	if c.joined--; c.joined > 0 {
		return
	}
	close(c.stopped)
	<-c.done
	c.stopping(func() { debug.SetGCPercent(c.percent) })
}

// run collects until it is told to stop.
func (c *collector) run(stopped <-chan struct{}, done chan<- struct{}) {
	defer close(done)
	heap := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/heap/objects:bytes"}}
	tick := time.NewTicker(collectEvery)
	defer tick.Stop()
	for {
		select {
		case <-stopped:
			return
		case <-tick.C:
		}
		metrics.Read(heap)
		if heap[1].Value.Uint64() >= heapGoal(heap[0].Value.Uint64(), c.percent) {
			c.stopping(runtime.GC)
		}
	}
}

// heapGoal returns the size in bytes at which a heap is collected, by what the last
// collection has left of it.
func heapGoal(live uint64, percent int) uint64 {
	if percent < 0 {
		return math.MaxUint64
	}
	return max(live+uint64(float64(live)*float64(percent)/100), smallestHeap)
}
