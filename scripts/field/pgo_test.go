package main

import (
	"math"
	"testing"
)

// The interval leaves out as many rounds on either side as the sign test at 95 % allows,
// and ratios compare the same round.
func TestRatioIsPairedByRound(t *testing.T) {
	t.Parallel()
	for rounds, want := range map[int]int{1: 0, 6: 0, 12: 2, 24: 6} {
		if got := signRank(rounds); got != want {
			t.Errorf("of %d rounds it leaves out %d a side, want %d", rounds, got, want)
		}
	}
	var o optimized
	for round := range 12 {
		speed := float64(round + 1) // the machine's, which is the same for all variants
		o.used[withPprof] = append(o.used[withPprof], 100*speed)
		o.used[withCcmapd] = append(o.used[withCcmapd], (100+float64(round))*speed)
	}
	if median, low, high := o.ratio(withCcmapd); math.Abs(median-1.055) > 1e-9 || low != 1.02 || high != 1.09 {
		t.Errorf("median %v, interval %v to %v", median, low, high)
	}
}
