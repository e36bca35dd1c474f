package main

import (
	"math"
	"testing"
)

// Ratios compare the same round.
func TestRatioIsPairedByRound(t *testing.T) {
	t.Parallel()
	var o optimized
	for round := range 12 {
		speed := float64(round + 1) // the machine's, which is the same for all variants
		o.used[withPprof] = append(o.used[withPprof], 100*speed)
		o.used[withCcmapd] = append(o.used[withCcmapd], (100+float64(round))*speed)
	}
	if i := o.ratio(withCcmapd); math.Abs(i.Middle-1.055) > 1e-9 || i.Low != 1.02 || i.High != 1.09 {
		t.Errorf("%+v", i)
	}
}
