package compare_test

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"strings"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/ccmap/compare"
	"pgregory.net/rapid"
)

// stack is a sampled stack, outermost frame first, with its counts.
type stack struct {
	frames []frame
	counts ccmap.Counters
}

type frame struct {
	method string
	offset uint32 // of the call, or the innermost frame's position
}

// drawStacks draws stacks over so few methods that recursion is the rule.
func drawStacks(label string) *rapid.Generator[[]stack] {
	return rapid.Custom(func(t *rapid.T) []stack {
		stacks := rapid.SliceOfN(rapid.Custom(drawStack), 1, 12).Draw(t, label)
		stacks[0].counts.Samples++
		stacks[0].counts.Time++
		stacks[0].counts.Activations++
		return stacks
	})
}

func drawStack(t *rapid.T) stack {
	return stack{
		frames: rapid.SliceOfN(rapid.Custom(drawFrame), 1, 9).Draw(t, "frames"),
		counts: ccmap.Counters{
			Samples:     drawCount(t, "samples"),
			Time:        drawCount(t, "time"),
			Activations: drawCount(t, "activations"),
		},
	}
}

func drawFrame(t *rapid.T) frame {
	return frame{
		method: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "method"),
		offset: rapid.SampledFrom([]uint32{1, 2, ccmap.NoOffset}).Draw(t, "offset"),
	}
}

// drawCount draws mostly small counts, so that there are ties and zeros. Twelve of
// the largest just stay in range.
func drawCount(t *rapid.T, label string) int64 {
	return rapid.OneOf(
		rapid.Int64Range(0, 3),
		rapid.Int64Range(0, 1e9),
		rapid.Int64Range(1<<58, 1<<59),
	).Draw(t, label)
}

// mapOf builds a map in the way a decoder does. Its methods are numbered in the
// order of names.
func mapOf(stacks []stack, names ...string) *ccmap.Map {
	m := ccmap.New(ccmap.Options{})
	for _, name := range names {
		m.Names().Intern(ccmap.Method{Name: name})
	}
	for _, s := range stacks {
		node, site := m.Root(), uint32(ccmap.NoOffset)
		for _, f := range s.frames {
			node = m.Child(node, site, m.Names().Intern(ccmap.Method{Name: f.method}))
			site = f.offset
		}
		m.Add(node, ccmap.Counters{Activations: s.counts.Activations})
		if site != ccmap.NoOffset {
			node = m.Child(node, site, ccmap.NoMethod)
		}
		m.Add(node, ccmap.Counters{Samples: s.counts.Samples, Time: s.counts.Time})
	}
	return m
}

func snapshotOf(stacks []stack, names ...string) *ccmap.Snapshot {
	return mapOf(stacks, names...).Snapshot()
}

// counters is a CC-Map written out: the value of every path, by its text.
type counters map[string]*big.Int

func (c counters) add(path string, v int64) {
	if c[path] == nil {
		c[path] = new(big.Int)
	}
	c[path].Add(c[path], big.NewInt(v))
}

// explicit is the paper's update, sample by sample: every contiguous sub-path
// of every stack has a counter.
func explicit(stacks []stack, w compare.Weight) (methods, edges, contexts counters) {
	methods, edges, contexts = counters{}, counters{}, counters{}
	for _, s := range stacks {
		for to := range s.frames {
			v := s.counts.Time
			switch {
			case w == compare.BySamples:
				v = s.counts.Samples
			case w == compare.ByActivations && to == len(s.frames)-1:
				v = s.counts.Activations
			case w == compare.ByActivations:
				v = 0
			}
			for from := range to + 1 {
				path := pathText(s.frames[from : to+1])
				contexts.add(path, v)
				switch to - from {
				case 0:
					methods.add(path, v)
				case 1:
					edges.add(path, v)
				}
			}
		}
	}
	return methods, edges, contexts
}

// pathText leaves out the last frame's offset, which is no part of the path.
func pathText(path []frame) string {
	var b strings.Builder
	for i, f := range path {
		b.WriteString(f.method)
		if i < len(path)-1 {
			fmt.Fprintf(&b, ":%d>", f.offset)
		}
	}
	return b.String()
}

// explicitOverlap is the paper's formula, in percent.
func explicitOverlap(a, b counters) float64 {
	sumA, sumB := a.sum(), b.sum()
	if sumA.Sign() == 0 || sumB.Sign() == 0 {
		if sumA.Cmp(sumB) == 0 {
			return 100
		}
		return 0
	}
	total := new(big.Rat)
	for path, v := range a {
		if b[path] == nil {
			continue
		}
		weightA := new(big.Rat).SetFrac(v, sumA)
		weightB := new(big.Rat).SetFrac(b[path], sumB)
		if weightA.Cmp(weightB) > 0 {
			weightA = weightB
		}
		total.Add(total, weightA)
	}
	percent, _ := total.Mul(total, big.NewRat(100, 1)).Float64()
	return percent
}

func (c counters) sum() *big.Int {
	sum := new(big.Int)
	for _, v := range c {
		sum.Add(sum, v)
	}
	return sum
}

// present returns how many paths have a value in either.
func present(a, b counters) uint64 {
	paths := map[string]bool{}
	for _, c := range []counters{a, b} {
		for path, v := range c {
			if v.Sign() > 0 {
				paths[path] = true
			}
		}
	}
	return uint64(len(paths))
}

// program is a random call graph: by method, the calls that it makes.
type program [][]ccmap.Frame

// newProgram returns a program whose methods call later ones, or any neighbours if it
// is recursive.
func newProgram(methods int, recursive bool) program {
	r := rand.New(rand.NewPCG(1, 2))
	p := make(program, methods)
	for m := range p {
		for range 1 + r.IntN(6) {
			callee := m + 1 + r.IntN(max(methods/60, 1))
			if recursive {
				callee = m/8*8 + r.IntN(16)
			}
			p[m] = append(p[m], ccmap.Frame{Method: ccmap.MethodID(callee % methods), Offset: uint32(r.IntN(50))})
		}
	}
	return p
}

// newMap returns an empty map with the program's methods.
func (p program) newMap() *ccmap.Map {
	m := ccmap.New(ccmap.Options{Seed: 1})
	for i := range p {
		m.Names().Intern(ccmap.Method{Name: fmt.Sprintf("example.com/program/part%d.Method%d", i%100, i)})
	}
	return m
}

// sample adds a random stack of 10 to 60 frames. The first calls of a method
// are the likelier ones.
func (p program) sample(m *ccmap.Map, r *rand.Rand) {
	method := ccmap.MethodID(r.IntN(min(16, len(p))))
	node := m.Child(m.Root(), ccmap.NoOffset, method)
	for range 9 + r.IntN(51) {
		calls := p[method]
		call := calls[min(r.IntN(len(calls)), r.IntN(len(calls)))]
		node = m.Child(node, call.Offset, call.Method)
		method = call.Method
	}
	m.Add(node, ccmap.Counters{Samples: 1, Time: 10_000_000 + r.Int64N(1000), Activations: 1})
}
