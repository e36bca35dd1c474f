package ccmap_test

import (
	"fmt"
	"math/rand/v2"

	"github.com/ccmapd/ccmapd/ccmap"
)

// callGraph is a synthetic program for benchmarks: methods that call up to six
// others each, some far more often than the rest.
type callGraph struct {
	names   *ccmap.Names
	rng     *rand.Rand
	callees [][]ccmap.Frame // by caller: callee, and the offset of the call to it
}

func newCallGraph(methods int) *callGraph {
	g := &callGraph{names: ccmap.NewNames(), rng: rand.New(rand.NewPCG(1, 2)), callees: make([][]ccmap.Frame, methods)}
	for i := range g.callees {
		g.names.Intern(ccmap.Method{Name: fmt.Sprintf("example.com/program/pkg%d.(*Type%d).Method%d", i%20, i%100, i)})
		for range 1 + g.rng.IntN(6) {
			g.callees[i] = append(g.callees[i], ccmap.Frame{
				Method: ccmap.FirstID + ccmap.MethodID(g.rng.IntN(methods)),
				Offset: g.rng.Uint32N(100),
			})
		}
	}
	return g
}

// stack returns a random stack, innermost first, that begins at one of eight
// methods. Its first calls are the likely ones, as in real programs.
func (g *callGraph) stack(depth int) []ccmap.Frame {
	frames := make([]ccmap.Frame, depth)
	method := ccmap.FirstID + ccmap.MethodID(g.rng.IntN(8))
	for i := depth - 1; i >= 0; i-- {
		calls := g.callees[method-ccmap.FirstID]
		call := calls[0]
		if g.rng.IntN(6) == 0 {
			call = calls[g.rng.IntN(len(calls))]
		}
		frames[i] = ccmap.Frame{Method: method, Offset: call.Offset}
		method = call.Method
	}
	return frames
}

// stacks returns samples of n random stacks whose depths lie between two bounds.
func (g *callGraph) stacks(n, low, high int) []ccmap.Sample {
	samples := make([]ccmap.Sample, n)
	for i := range samples {
		samples[i] = ccmap.Sample{Frames: g.stack(low + g.rng.IntN(high-low+1)), Weight: 10_000_000}
	}
	return samples
}

// correlated returns samples of one thread. Each differs from the one before in up
// to eight innermost frames.
func (g *callGraph) correlated(n, depth int) []ccmap.Sample {
	samples := g.stacks(n, depth, depth)
	for i := 1; i < n; i++ {
		changed := g.rng.IntN(9)
		copy(samples[i].Frames[changed:], samples[i-1].Frames[changed:])
	}
	return samples
}

func frames(samples []ccmap.Sample) int {
	n := 0
	for i := range samples {
		n += len(samples[i].Frames)
	}
	return n
}
