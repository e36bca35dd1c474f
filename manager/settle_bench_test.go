package manager

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/ccmapd/ccmapd/ccmap"
)

// BenchmarkSettling measures what the goroutine beside the manager does for one
// question: the overlap of two halves, and the look for drift.
func BenchmarkSettling(b *testing.B) {
	for _, nodes := range []int{10_000, 100_000, 1_000_000} {
		m := bushyMap(nodes)
		b.Run(fmt.Sprintf("question=floors/nodes=%d", nodes), func(b *testing.B) {
			for b.Loop() {
				settled(m.Snapshot())
			}
		})
		b.Run(fmt.Sprintf("question=drift/nodes=%d", nodes), func(b *testing.B) {
			for b.Loop() {
				new(phases).look(m.Snapshot())
			}
		})
	}
}

// bushyMap returns a map of so many nodes: stacks of 20 frames of 2,000 methods,
// which part from each other at any depth.
func bushyMap(nodes int) *ccmap.Map {
	m := ccmap.New(ccmap.Options{Seed: 1})
	rng := rand.New(rand.NewPCG(1, 1))
	one := stack(m.Names(), make([]string, 20)...)
	for i := range one.Frames {
		one.Frames[i].Method = m.Names().Intern(ccmap.Method{Name: fmt.Sprint("f", i)})
	}
	for m.Len() < nodes {
		changed := rng.IntN(len(one.Frames))
		for i := range changed {
			k := rng.IntN(100)*20 + i
			one.Frames[i].Method = m.Names().Intern(ccmap.Method{Name: fmt.Sprint("f", k)})
		}
		m.Fold(one)
	}
	return m
}
