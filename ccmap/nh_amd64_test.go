package ccmap

import (
	"testing"

	"pgregory.net/rapid"
)

// WithoutVectors runs f as on a processor without vectors. It is for tests that are not parallel: parallel
// ones wait.
func WithoutVectors(f func()) {
	had := hasVectors
	defer func() { hasVectors = had }()
	hasVectors = false
	f()
}

// TestSums compares the sums of vectors with the formula.
func TestSums(t *testing.T) {
	t.Parallel()
	if !hasVectors {
		t.Skip("the processor has no vectors")
	}
	product := func(f Frame, key uint64) uint64 {
		return uint64(uint32(f.Method)+uint32(key)) * uint64(f.Offset+uint32(key>>32))
	}
	rapid.Check(t, func(t *rapid.T) {
		k := newStackKeys(rapid.Uint64().Draw(t, "seed"))
		frames := make([]Frame, rapid.IntRange(blockFrames, maxKnownDepth).Draw(t, "depth"))
		for i := range frames {
			frames[i] = Frame{Method: MethodID(rapid.Uint32().Draw(t, "method")), Offset: rapid.Uint32().Draw(t, "offset")}
		}
		inBlocks := (len(frames) - 1) / blockFrames * blockFrames // all but the last block
		var hi, lo uint64
		for i, f := range append(frames[:inBlocks:inBlocks], frames[len(frames)-blockFrames:]...) {
			hi += product(f, k.frames[i])
			lo += product(f, k.frames[i+4])
		}
		if gotHi, gotLo := sums(&k.frames, frames); gotHi != hi || gotLo != lo {
			t.Fatalf("sums %x and %x, want %x and %x", gotHi, gotLo, hi, lo)
		}
	})
}
