package main

import (
	"fmt"
	"time"

	threads "github.com/ccmapd/ccmapd/sampler/managed"
)

// shape is a way to sample guests.
type shape struct {
	interval time.Duration
	burst    threads.Burst // zero: one sample at each interval
	part     int           // of the time that the headline asks for: 1/part
}

func (s shape) String() string {
	if s.burst == (threads.Burst{}) {
		return s.interval.String()
	}
	return fmt.Sprintf("%v, %d × %d", s.interval, s.burst.Samples, s.burst.Stride)
}

// Shapes of which the report has more than a row.
var (
	plainShape = shape{interval: 10 * time.Millisecond, part: 1}
	denseShape = shape{interval: time.Millisecond, part: 3}
	burstShape = shape{interval: 10 * time.Millisecond, burst: threads.Burst{Samples: 64, Stride: 1}, part: 1}
)

// shapes returns all ways to sample guests: those of the headline, and bursts that
// are shorter, longer, and spread over more safe points.
func shapes(c config) []shape {
	all := []shape{plainShape, denseShape, burstShape}
	if c.quick {
		return all
	}
	for _, b := range []threads.Burst{{Samples: 16, Stride: 1}, {Samples: 16, Stride: 7}, {Samples: 512, Stride: 1}} {
		all = append(all, shape{interval: 10 * time.Millisecond, burst: b, part: 8})
	}
	return all
}

// curved reports whether the report tells how the overlap grows.
func (s shape) curved() bool { return s == plainShape || s == denseShape || s == burstShape }

// prefixes returns the times up to a whole run, each half of the next.
func prefixes(whole time.Duration) []time.Duration {
	var all []time.Duration
	for part := whole / 64; part < whole; part *= 2 {
		all = append(all, part)
	}
	return all
}
