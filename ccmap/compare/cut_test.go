package compare_test

import (
	"fmt"
	"testing"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/ccmap/compare"
)

// deep returns a profile of stacks of 1 to 80 methods that lead down to the same leaf,
// in steps of 5; more than most frames are cut from outside, as runtime/pprof does.
func deep(most int) *ccmap.Snapshot {
	m := ccmap.New(ccmap.Options{})
	id := func(i int) ccmap.MethodID { return m.Names().Intern(ccmap.Method{Name: fmt.Sprint("f", i)}) }
	for depth := 1; depth <= 80; depth += 5 {
		at, first := m.Root(), max(0, depth-most)
		for i := first; i < depth; i++ {
			offset := uint32(3)
			if i == first {
				offset = ccmap.NoOffset
			}
			at = m.Child(at, offset, id(80-depth+i))
		}
		at = m.Child(at, 7, ccmap.NoMethod)
		m.Add(at, ccmap.Counters{Samples: 50, Time: 50})
	}
	return m.Snapshot()
}

// TestStacksAreCutAlike: a profile whose stacks were cut at 64 frames is the same as
// one that has them whole.
func TestStacksAreCutAlike(t *testing.T) {
	t.Parallel()
	whole, cut := deep(1000), deep(64)
	for _, pair := range [][2]*ccmap.Snapshot{{whole, cut}, {cut, whole}} {
		r, err := compare.Compare(pair[0], pair[1], compare.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if r.CutAt != 64 || r.Contexts.Percent != 100 || r.A.Samples != 800 || r.B.Samples != 800 {
			t.Errorf("cut at %d, contexts overlap by %v %%, %d and %d samples", r.CutAt, r.Contexts.Percent, r.A.Samples, r.B.Samples)
		}
		d, err := compare.Differences(pair[0], pair[1], compare.DiffOptions{})
		if err != nil || d.CutAt != 64 || len(d.Contexts.List)+len(d.Methods.List) > 0 {
			t.Errorf("differences, cut at %d: %+v, %v", d.CutAt, d.Contexts, err)
		}
	}
	for _, pair := range [][2]*ccmap.Snapshot{{whole, whole}, {cut, cut}, {whole, deep(50)}} {
		r, err := compare.Compare(pair[0], pair[1], compare.Options{})
		if err != nil || r.CutAt != 0 {
			t.Errorf("cut at %d, %v; want no cut", r.CutAt, err)
		}
	}
}
