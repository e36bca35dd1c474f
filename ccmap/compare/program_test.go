package compare_test

import (
	"fmt"
	"math/rand/v2"

	"github.com/ccmapd/ccmapd/ccmap"
)

// program is a random call graph: by method, the calls that it makes.
type program [][]ccmap.Frame

// newProgram returns a program in which methods call later ones, or neighbours
// of any kind if it is recursive.
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
