// Package profiletest has profiles for tests: random ones for property tests, of few
// methods, so that paths recur and recurse; and small ones of a known make.
package profiletest

import (
	"math/rand/v2"
	"time"

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

// Drawing returns the map of a program that draws shapes: draw has two callers, and each
// has a type of its own. So many calls were caught from each.
func Drawing(calls int64) *ccmap.Map {
	m := ccmap.New(ccmap.Options{Window: time.Minute})
	id := func(name string) ccmap.MethodID { return m.Names().Intern(ccmap.Method{Name: name}) }
	draw := id("main.draw")
	for i, shape := range []string{"Circle", "Square"} {
		area, caller := id("main."+shape+".Area"), ccmap.Frame{Method: id("main.all" + shape + "s"), Offset: uint32(i)}
		for range 40 {
			m.Fold(&ccmap.Sample{
				Frames: []ccmap.Frame{{Method: area, Offset: 1}, {Method: draw, Offset: 2}, caller},
				Weight: SampleNS, Time: int64(time.Second), Fresh: ccmap.FreshUnknown,
			})
		}
		for _, context := range [][]ccmap.Frame{nil, {caller}} {
			m.AddPoint(ccmap.Point{
				Origin: ccmap.OriginBurst, Method: draw, Offset: 2, Callers: context, Nulls: ccmap.NullsUnknown,
				Values: []ccmap.PointValue{{Value: uint64(area), Count: calls}},
			})
		}
	}
	return m
}

// Blind returns a map of 50 samples of main.main, and of so many blind samples: they are
// truncated, and one of the methods is innermost.
func Blind(runtime string, blind int, methods ...ccmap.Method) *ccmap.Map {
	m := ccmap.New(ccmap.Options{})
	fold := func(truncated bool, method ccmap.Method) {
		frames := []ccmap.Frame{{Method: m.Names().Intern(method), Offset: ccmap.NoOffset}}
		m.Fold(&ccmap.Sample{Frames: frames, Weight: 1e7, Fresh: ccmap.FreshUnknown, Truncated: truncated})
	}
	for range 50 {
		fold(false, ccmap.Method{Name: "main.main", File: "main.go"})
	}
	for i := range blind {
		fold(true, methods[i%len(methods)])
	}
	m.Meta().Target = ccmap.Target{Runtime: runtime, BuildID: "0a11", Executable: "/bin/server"}
	m.Names().SetMapping("0a12", ccmap.Mapping{File: "/bin/server", Start: 1, Limit: 2})
	m.Names().SetMapping("0b22", ccmap.Mapping{File: "/usr/lib/libc.so.6", Start: 1, Limit: 2})
	m.Meta().Settled = ccmap.Settled{Methods: 99, Edges: 98, Contexts: 97, Samples: 1000}
	return m
}

// Thicket is a map of many contexts of few edges.
func Thicket(seed uint64) *ccmap.Map {
	rng := rand.New(rand.NewPCG(seed, 1))
	m := ccmap.New(ccmap.Options{})
	methods := []ccmap.MethodID{m.Names().Intern(ccmap.Method{Name: "a"}), m.Names().Intern(ccmap.Method{Name: "b"})}
	for range 2000 {
		n := m.Root()
		for range 15 {
			n = m.Child(n, 1, methods[rng.IntN(2)])
		}
		m.Add(n, ccmap.Counters{Samples: 1, Time: rng.Int64N(100)})
	}
	return m
}
