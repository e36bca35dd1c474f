package taker

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// TestTrim lets samples of 10 ms find a target by chance, which a hypervisor keeps waiting for a part of
// the time. Weights follow the clock, or stay below it where they must not grow. A loss stays one.
func TestTrim(t *testing.T) {
	t.Parallel()
	const period = 10 * time.Millisecond
	for _, c := range []struct {
		name         string
		share        float64 // of the interrupts of two CPUs that find the target
		found        float64 // samples for each period of the target's CPU time
		most         float64
		lossyFrom    int // seconds; no sample comes for as long again
		low, high    float64
		steps, turns int // seconds, and sessions
	}{
		{"chance", 0.3, 1, 1.1, 1000, -1, 1, 60, 20},
		{"a hypervisor", 0.3, 1.05, 1.1, 1000, -1, 1.2, 60, 20},
		{"a busy hypervisor", 0.8, 1.3, 1.1, 1000, -0.5, 2, 60, 20},
		{"only less", 0.3, 0.95, 1, 1000, -7, -3, 60, 20},
		{"only less, a hypervisor", 0.3, 1.05, 1, 1000, -1.5, 1.2, 60, 20},
		{"far off", 0.8, 0.7, 1.1, 1000, -25, -22, 60, 20},
		{"a loss", 0.8, 1, 1.1, 30, -51, -49, 60, 20},
	} {
		sum := 0.
		for turn := range c.turns {
			random := rand.New(rand.NewPCG(1, uint64(turn)))
			var tr trim
			var clock, weights time.Duration
			scale, lost := 1., uint64(0)
			for second := range c.steps {
				lossy := second >= c.lossyFrom
				for range 200 {
					if random.Float64() >= c.share {
						continue
					}
					clock += period
					n := c.found
					if lossy {
						lost++
						continue
					}
					for ; n > 0 && random.Float64() < n; n-- {
						weights += time.Duration(scale * float64(period))
					}
				}
				scale = tr.scale(clock, weights, lost, c.most)
			}
			sum += 100 * (float64(weights)/float64(clock) - 1)
		}
		if off := sum / float64(c.turns); off < c.low || off > c.high || math.IsNaN(off) {
			t.Errorf("%s: %.2f %% off the clock, want %v to %v", c.name, off, c.low, c.high)
		}
	}
}
