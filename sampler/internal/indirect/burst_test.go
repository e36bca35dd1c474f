package indirect

import (
	"testing"

	"github.com/ccmapd/ccmapd/valueprof/pollution"
)

// TestVerdictsNeedFourBursts: package pollution knows how many calls a burst catches on
// each of its two threads.
func TestVerdictsNeedFourBursts(t *testing.T) {
	t.Parallel()
	if pollution.MinCalls != 4*BurstCalls/2 {
		t.Errorf("verdicts need %d calls, and a burst catches %d on two threads", pollution.MinCalls, BurstCalls)
	}
}
