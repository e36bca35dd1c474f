package ccmap

import (
	"math"
	"time"
)

// clock turns times into weights. Its scale lies in [1, 2).
type clock struct {
	window  time.Duration
	first   int64 // ns; time at which a sample weighs 1
	now     int64 // ns; never before first
	started bool
	octave  int64
	scale   float64
}

// minWindow is the shortest time constant: octaves of a shorter one could not be
// counted.
const minWindow = time.Millisecond

// newClock returns the clock of a window, stopped.
func newClock(window time.Duration) clock {
	if window > 0 {
		window = max(window, minWindow)
	}
	return clock{window: max(window, 0), scale: 1}
}

// advance sets the clock to a time, never backwards. The first time starts it.
func (c *clock) advance(now int64) {
	switch {
	case !c.started:
		c.started, c.first, c.now = true, now, now
		return
	case now <= c.now:
		return
	}
	c.now = now
	halfLife := float64(c.window) * math.Ln2
	x := float64(uint64(now)-uint64(c.first)) / halfLife
	whole := math.Floor(x)
	c.octave, c.scale = int64(whole), math.Exp2(x-whole)
}

// follow advances the clock with the samples, which come by the microsecond: in
// steps too small to matter.
func (c *clock) follow(now int64) {
	const steps = 1 << 14 // to a window
	if uint64(now)-uint64(c.now) >= uint64(c.window)/steps && now > c.now || !c.started {
		c.advance(now)
	}
}

// fade returns what 1, counted in a chunk of that octave, is worth now.
func (c *clock) fade(octave int64) float64 { return octaves(octave-c.octave) / c.scale }

// octaves returns 2ⁿ for n ≤ 0; 0 where that is nothing.
func octaves(n int64) float64 {
	if n < -1000 {
		return 0
	}
	return math.Float64frombits(uint64(1023+n) << 52)
}
