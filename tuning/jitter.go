package tuning

import (
	"math/rand/v2"
	"time"
)

// Jitter returns an interval drawn evenly from within ± part of d, so that
// sampling does not fall into step with periodic work of the target. The mean
// is exactly d. A part of 0.1 is 10 %; it is taken as 0 if negative and as 1 if
// larger, and the result is always positive for a positive d.
func Jitter(d time.Duration, part float64, rng *rand.Rand) time.Duration {
	width := time.Duration(min(max(part, 0), 1) * float64(d))
	width = max(0, min(width, d-1))
	return d - width + time.Duration(rng.Int64N(int64(2*width)+1))
}
