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

// collector collects garbage in place of Go's runtime, which would stop the world while a
// guest is in native code and may stay there for long. The runtime's pace is a setting of
// the process, and a collection waits for the guests of every profiler. So all profilers
// share one collector.
//
//	staying        functions that need guests at their safe points, now
//	profilers      *Profiler, for which it collects
//	joined         number of profilers, under mu
//	percent        the runtime's own pace: written before the goroutine starts
//	stopped, done  tell the goroutine to end, and that it has ended: under mu
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

// collectEvery is the time between two looks at the size of the heap. In that time the
// heap grows by the allocations of host functions and the profile.
const collectEvery = 20 * time.Millisecond

// smallestHeap is the size in bytes below which the heap is not collected, as in the
// runtime's own pacer (heapMinimum in runtime/mgcpacer.go, Go 1.26: 4 MiB).
const smallestHeap = 4 << 20

// Stopping calls f, while every guest leaves its native code at each safe point. So f can
// stop the world, as runtime.GC and others do, without a long wait. Stopping covers the
// guests of this profiler, and of all open profilers with [Options].CollectAtSamples.
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

// ask makes every guest call the host at its next safe point. It asks twice: a guest that
// enters a function sets Limit and then reads Mark, but its processor may perform the
// write after the read, and so undo the first request. Marks need no such certainty, for
// another one follows.
func (p *Profiler) ask() {
	p.askOnce()
	time.Sleep(settle)
	p.askOnce()
}

// settle is longer than a processor takes to perform a pending write.
const settle = 10 * time.Microsecond

func (p *Profiler) askOnce() {
	p.instances.each((*instance).ask)
	if p.exact != nil {
		p.exact.ask()
	}
}

// calling reports whether guests must call the host at each safe point, to stop there or
// to end.
func (p *Profiler) calling() bool {
	return collecting.staying.Load() != 0 || p.exit.Load() != 0
}

// join starts garbage collection for a profiler before any of its guests runs.
func (c *collector) join(p *Profiler) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.profilers.Store(p, nil)
	if c.joined++; c.joined > 1 {
		return
	}
	c.percent = debug.SetGCPercent(-1)
	runtime.GC() // a collection that had begun could still stop the world at any moment
	c.stopped, c.done = make(chan struct{}), make(chan struct{})
	go c.run(c.stopped, c.done)
}

// leave ends garbage collection for a profiler that has joined. After the last one it
// gives the runtime its own pace back.
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

// run collects until stopped is closed.
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

// heapGoal returns the heap size in bytes that starts a collection. live is the size
// after the last collection.
func heapGoal(live uint64, percent int) uint64 {
	if percent < 0 {
		return math.MaxUint64
	}
	return max(live+uint64(float64(live)*float64(percent)/100), smallestHeap)
}
