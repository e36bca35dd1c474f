package jfr

import "github.com/ccmapd/ccmapd/internal/jvm/tlab"

// mostAtOnce is how many allocations are weighed together.
const mostAtOnce = 1 << 16

// weightsOf returns the weights of samples, in the order of their events, where no event has its own: of
// allocations that the JDK tells as the buffers of threads are full. Nil: each event has its own. They are found
// once, as they depend on the events before.
func (c *Chunk) weightsOf(m Measure, s *Settings) []int64 {
	if m != Alloc || s.Async || !c.exact[Alloc] {
		return nil
	}
	if c.weights != nil {
		return c.weights
	}
	pauses := c.pauses()
	var some []tlab.Allocation
	weigh := func() {
		c.weights = append(c.weights, s.buffers.Weigh(some, pauses)...)
		some, pauses = some[:0], nil
	}
	for e := range c.Events() {
		switch e.kind.Name {
		case "jdk.ObjectAllocationInNewTLAB", "jdk.ObjectAllocationOutsideTLAB":
			some = append(some, tlab.Allocation{
				Thread: e.Get("eventThread").Int("osThreadId"), Time: e.Time(), Size: e.Int("allocationSize"), Buffer: e.Int("tlabSize"),
			})
			if len(some) == mostAtOnce {
				weigh()
			}
		}
	}
	weigh()
	return c.weights
}

// pauses returns when the collector has stopped the program, ns since 1970.
func (c *Chunk) pauses() (times []int64) {
	for e := range c.Events() {
		if e.kind.Name == "jdk.GCPhasePause" {
			times = append(times, e.Time())
		}
	}
	return times
}
