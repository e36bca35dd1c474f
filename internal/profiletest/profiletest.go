// Package profiletest draws random profiles for property tests: stacks of few methods, so
// that paths recur and recurse.
package profiletest

import (
	"pgregory.net/rapid"

	"github.com/ccmapd/ccmapd/ccmap"
)

// Facts about the samples that are drawn.
const (
	StartLine = 10 // the line on which every method begins
	SampleNS  = 3  // time of a sample
	Methods   = "ABCD"
)

// Samples draws up to 30 samples of up to eight frames. Their activations are all known.
// The methods have the ids from ccmap.FirstID on, if names is new.
func Samples(t *rapid.T, names *ccmap.Names) []ccmap.Sample {
	for _, name := range Methods {
		names.Intern(ccmap.Method{Name: string(name), File: "f.go", StartLine: StartLine})
	}
	samples := make([]ccmap.Sample, rapid.IntRange(0, 30).Draw(t, "samples"))
	for i := range samples {
		frames := make([]ccmap.Frame, rapid.IntRange(1, 8).Draw(t, "depth"))
		for j := range frames {
			frames[j].Method = ccmap.FirstID + ccmap.MethodID(rapid.IntRange(0, len(Methods)-1).Draw(t, "method"))
			frames[j].Offset = rapid.Uint32Range(0, 2).Draw(t, "offset")
		}
		fresh := rapid.IntRange(0, len(frames)).Draw(t, "fresh")
		samples[i] = ccmap.Sample{Frames: frames, Weight: SampleNS, Fresh: int32(fresh), Thread: uint64(i)}
	}
	return samples
}

// Fold returns a snapshot of samples.
func Fold(samples []ccmap.Sample, names *ccmap.Names) *ccmap.Snapshot {
	m := ccmap.New(ccmap.Options{Names: names})
	m.FoldBatch(samples)
	return m.Snapshot()
}

// PrunedPair draws two snapshots of the same samples. All contexts of the second were
// pruned now and then; perhaps never.
func PrunedPair(t *rapid.T) (full, pruned *ccmap.Snapshot) {
	names := ccmap.NewNames()
	a, b := ccmap.New(ccmap.Options{Names: names}), ccmap.New(ccmap.Options{Names: names})
	for range rapid.IntRange(1, 3).Draw(t, "rounds") {
		samples := append(Samples(t, names), ballast(t, names))
		a.FoldBatch(samples)
		b.FoldBatch(samples)
		if rapid.Bool().Draw(t, "prune") {
			b.Prune(0)
		}
	}
	return a.Snapshot(), b.Snapshot()
}

// ballast draws a heavy sample that is so deep that it leaves little room for others, or
// none: a map is not pruned to less than about a thousand nodes.
func ballast(t *rapid.T, names *ccmap.Names) ccmap.Sample {
	frames := make([]ccmap.Frame, rapid.IntRange(1, 3000).Draw(t, "ballast"))
	z := names.Intern(ccmap.Method{Name: "Z"})
	for i := range frames {
		frames[i].Method = z
	}
	return ccmap.Sample{Frames: frames, Weight: 1000 * SampleNS, Fresh: int32(len(frames))}
}
