package ccmap_test

import (
	"encoding/binary"
	"math"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/google/go-cmp/cmp"
)

// Ids of the methods that abc interns.
const (
	idA = ccmap.FirstID + iota
	idB
	idC
)

// abc returns an empty map that knows the methods A, B and C.
func abc() (m *ccmap.Map, a, b, c ccmap.MethodID) {
	m = ccmap.New(ccmap.Options{})
	return m,
		m.Names().Intern(ccmap.Method{Name: "A"}),
		m.Names().Intern(ccmap.Method{Name: "B"}),
		m.Names().Intern(ccmap.Method{Name: "C"})
}

// methodSamples returns the samples of all methods, by name.
func methodSamples(s *ccmap.Snapshot) map[string]int64 {
	samples := map[string]int64{}
	for p := range s.Methods() {
		samples[p.Method().Name] = p.Total().Samples
	}
	return samples
}

func TestFoldBadSamples(t *testing.T) {
	t.Parallel()
	const bad = ccmap.MethodID(99)
	for _, test := range []struct {
		name    string
		sample  ccmap.Sample // on a thread that was last seen in A > B
		methods map[string]int64
		total   ccmap.Counters
		loss    ccmap.Loss
		exact   bool
	}{
		{
			name:    "no frames",
			methods: map[string]int64{"A": 1, "B": 1},
			total:   ccmap.Counters{Samples: 1, Time: 5, Activations: 2},
			loss:    ccmap.Loss{Corrupt: 1},
			exact:   true,
		}, {
			name:    "negative weight",
			sample:  ccmap.Sample{Frames: []ccmap.Frame{{Method: idA}}, Weight: -7},
			methods: map[string]int64{"A": 2, "B": 1},
			total:   ccmap.Counters{Samples: 2, Time: 5, Activations: 2},
			exact:   true,
		}, {
			name:    "weight that overflows",
			sample:  ccmap.Sample{Frames: []ccmap.Frame{{Method: idA}}, Weight: math.MaxInt64},
			methods: map[string]int64{"A": 2, "B": 1},
			total:   ccmap.Counters{Samples: 2, Time: math.MaxInt64, Activations: 2},
			exact:   true,
		}, {
			name:    "unknown methods",
			sample:  ccmap.Sample{Frames: []ccmap.Frame{{Method: bad}, {Method: ccmap.NoMethod}, {Method: idA}}},
			methods: map[string]int64{"A": 2, "B": 1, ccmap.UnknownName: 2},
			total:   ccmap.Counters{Samples: 2, Time: 5, Activations: 2},
			exact:   true,
		}, {
			name:    "more fresh frames than frames",
			sample:  ccmap.Sample{Frames: []ccmap.Frame{{Method: idC, Offset: 1}, {Method: idA, Offset: 1}}, Fresh: 3},
			methods: map[string]int64{"A": 2, "B": 1, "C": 1},
			total:   ccmap.Counters{Samples: 2, Time: 5, Activations: 3},
		}, {
			name:    "depth beyond the thread's stack",
			sample:  ccmap.Sample{Frames: []ccmap.Frame{{Method: idC}, {Method: idB}}, Depth: 3},
			methods: map[string]int64{"A": 1, "B": 2, "C": 1, ccmap.TruncatedName: 1},
			total:   ccmap.Counters{Samples: 2, Time: 5, Activations: 2},
			loss:    ccmap.Loss{Orphaned: 1},
			exact:   true,
		}, {
			name:    "depth of the largest uint32",
			sample:  ccmap.Sample{Frames: []ccmap.Frame{{Method: idB}}, Depth: math.MaxUint32},
			methods: map[string]int64{"A": 1, "B": 2, ccmap.TruncatedName: 1},
			total:   ccmap.Counters{Samples: 2, Time: 5, Activations: 2},
			loss:    ccmap.Loss{Orphaned: 1},
			exact:   true,
		}, {
			name:    "another method at that depth",
			sample:  ccmap.Sample{Frames: []ccmap.Frame{{Method: idC}, {Method: idA}}, Depth: 2},
			methods: map[string]int64{"A": 2, "B": 1, "C": 1, ccmap.TruncatedName: 1},
			total:   ccmap.Counters{Samples: 2, Time: 5, Activations: 2},
			loss:    ccmap.Loss{Orphaned: 1},
			exact:   true,
		}, {
			name:    "another goroutine at the thread's address",
			sample:  ccmap.Sample{Frames: []ccmap.Frame{{Method: idC}, {Method: idB}}, Depth: 2, Goroutine: 8},
			methods: map[string]int64{"A": 1, "B": 2, "C": 1, ccmap.TruncatedName: 1},
			total:   ccmap.Counters{Samples: 2, Time: 5, Activations: 2},
			loss:    ccmap.Loss{Orphaned: 1},
			exact:   true,
		}, {
			name:    "depth in a truncated sample",
			sample:  ccmap.Sample{Frames: []ccmap.Frame{{Method: idC}, {Method: idB}}, Depth: 2, Truncated: true},
			methods: map[string]int64{"A": 1, "B": 2, "C": 1, ccmap.TruncatedName: 1},
			total:   ccmap.Counters{Samples: 2, Time: 5, Activations: 2},
			exact:   true,
		}, {
			name:    "frames cut off that may be new",
			sample:  ccmap.Sample{Frames: []ccmap.Frame{{Method: idC}}, Fresh: 1, Truncated: true},
			methods: map[string]int64{"A": 1, "B": 1, "C": 1, ccmap.TruncatedName: 1},
			total:   ccmap.Counters{Samples: 2, Time: 5, Activations: 3},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			m, a, b, _ := abc()
			m.Fold(&ccmap.Sample{Frames: []ccmap.Frame{{Method: b, Offset: 1}, {Method: a, Offset: 1}}, Weight: 5, Fresh: 2})
			m.Fold(&test.sample)
			mustBeValid(t, m)
			s := m.Snapshot()
			if d := cmp.Diff(test.methods, methodSamples(s)); d != "" {
				t.Errorf("samples of methods (-want +got):\n%s", d)
			}
			if s.Total() != test.total {
				t.Errorf("Total() = %+v, want %+v", s.Total(), test.total)
			}
			if s.Meta().Loss != test.loss {
				t.Errorf("Loss = %+v, want %+v", s.Meta().Loss, test.loss)
			}
			if s.ActivationsExact() != test.exact {
				t.Errorf("ActivationsExact() = %t", s.ActivationsExact())
			}
		})
	}
}

// TestChildNormalizes checks the results of Child for impossible nodes.
func TestChildNormalizes(t *testing.T) {
	t.Parallel()
	m, a, b, _ := abc()
	nodeA := m.Child(m.Root(), 7, a)
	position := m.Child(nodeA, 3, ccmap.NoMethod)
	for _, test := range []struct {
		name      string
		got, want ccmap.NodeID
	}{
		{"outermost frames have no call site", nodeA, m.Child(m.Root(), ccmap.NoOffset, a)},
		{"the root has no position", m.Child(m.Root(), 1, ccmap.NoMethod), m.Root()},
		{"an unknown position is the node", m.Child(nodeA, ccmap.NoOffset, ccmap.NoMethod), nodeA},
		{"a position has no children", m.Child(position, 2, b), m.Child(nodeA, 2, b)},
		{"nor positions", m.Child(position, 3, ccmap.NoMethod), position},
	} {
		if test.got != test.want {
			t.Errorf("%s: node %d, want %d", test.name, test.got, test.want)
		}
	}
	m.Add(m.Root(), ccmap.Counters{Samples: 1})
	m.Add(nodeA, ccmap.Counters{Samples: -1, Time: 2, Activations: math.MinInt64})
	m.Add(position, ccmap.Counters{Activations: 4})
	mustBeValid(t, m)
	s := m.Snapshot()
	if got, want := s.Total(), (ccmap.Counters{Time: 2, Activations: 4}); got != want {
		t.Errorf("Total() = %+v, want %+v", got, want)
	}
	if got := s.Node(nodeA).Self.Activations; got != 4 {
		t.Errorf("the method has %d activations of its position's 4", got)
	}
}

// TestFoldWithoutMarks checks how many activations are certainly new in a second
// sample of a thread that was last seen in A:1 > B:2 > C:3.
func TestFoldWithoutMarks(t *testing.T) {
	t.Parallel()
	const a, b, c = 0, 1, 2
	frame := func(m ccmap.MethodID, offset uint32) ccmap.Frame { return ccmap.Frame{Method: m, Offset: offset} }
	for _, test := range []struct {
		name   string
		frames []ccmap.Frame // innermost first
		top    ccmap.Repetition
		want   int64
	}{
		{"unchanged", []ccmap.Frame{frame(c, 3), frame(b, 2), frame(a, 1)}, ccmap.TopUnknown, 0},
		{"unchanged but for the top", []ccmap.Frame{frame(c, 3), frame(b, 2), frame(a, 1)}, ccmap.TopNew, 1},
		{"another line", []ccmap.Frame{frame(c, 9), frame(b, 2), frame(a, 1)}, ccmap.TopUnknown, 0},
		{"another call site", []ccmap.Frame{frame(c, 3), frame(b, 9), frame(a, 1)}, ccmap.TopUnknown, 1},
		{"another call site further out", []ccmap.Frame{frame(c, 3), frame(b, 2), frame(a, 9)}, ccmap.TopUnknown, 2},
		{"another method", []ccmap.Frame{frame(a, 3), frame(b, 2), frame(a, 1)}, ccmap.TopNew, 1},
		{"a longer stack", []ccmap.Frame{frame(b, 1), frame(b, 1), frame(c, 3), frame(b, 2), frame(a, 1)}, ccmap.TopNew, 2},
		{"a shorter stack", []ccmap.Frame{frame(b, 2), frame(a, 1)}, ccmap.TopUnknown, 0},
		{"the same top activation", []ccmap.Frame{frame(c, 4), frame(b, 2), frame(a, 1)}, ccmap.TopRepeated, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			m, _, _, _ := abc()
			m.Fold(&ccmap.Sample{Frames: []ccmap.Frame{frame(c, 3), frame(b, 2), frame(a, 1)}, Fresh: 3})
			m.Fold(&ccmap.Sample{Frames: test.frames, Top: test.top, Fresh: ccmap.FreshUnknown})
			mustBeValid(t, m)
			s := m.Snapshot()
			if got := s.Total().Activations - 3; got != test.want {
				t.Errorf("%d new activations, want %d", got, test.want)
			}
			if s.ActivationsExact() {
				t.Error("activations are exact without marks")
			}
		})
	}
}

// TestForget checks that a partial sample of a thread that has ended is an
// orphan.
func TestForget(t *testing.T) {
	t.Parallel()
	m, a, b, _ := abc()
	whole := ccmap.Sample{Thread: 1, Frames: []ccmap.Frame{{Method: b}, {Method: a}}}
	partial := ccmap.Sample{Thread: 1, Frames: []ccmap.Frame{{Method: b}}, Depth: 2}
	m.Fold(&whole)
	m.Fold(&partial)
	m.Forget(1)
	m.Forget(1)
	m.Fold(&partial)
	if got := m.Meta().Loss.Orphaned; got != 1 {
		t.Errorf("%d orphaned, want 1", got)
	}
}

// TestFoldAllocates: folding known stacks allocates nothing, and new stacks little.
func TestFoldAllocates(t *testing.T) {
	g := newCallGraph(100)
	samples := g.stacks(500, 10, 60)
	m := ccmap.New(ccmap.Options{Names: g.names})
	for i := range samples {
		samples[i].Thread = uint64(i % 50)
		samples[i].Fresh = ccmap.FreshUnknown
	}
	m.FoldBatch(samples)
	if n := testing.AllocsPerRun(10, func() { m.FoldBatch(samples) }); n != 0 {
		t.Errorf("%v allocations for known stacks", n)
	}
	novel := g.stacks(20_000, 60, 60)
	n := testing.AllocsPerRun(1, func() {
		m = ccmap.New(ccmap.Options{Names: g.names})
		m.FoldBatch(novel)
	})
	if perSample := n / float64(len(novel)); perSample > 0.2 {
		t.Errorf("%.2f allocations for a novel stack", perSample)
	}
}

// TestBytesPerNode checks the memory of a map of a few hundred thousand nodes
// against the design's bound of 32 bytes a node.
func TestBytesPerNode(t *testing.T) {
	t.Parallel()
	g := newCallGraph(2000)
	m := ccmap.New(ccmap.Options{Names: g.names})
	m.FoldBatch(g.stacks(8000, 60, 60))
	perNode := float64(m.Bytes()) / float64(m.Len())
	if perNode > 32 {
		t.Errorf("%.1f bytes a node, of %d nodes", perNode, m.Len())
	}
	t.Logf("%.1f bytes a node, of %d nodes", perNode, m.Len())
}

// FuzzFold folds samples that make no sense, one after the other, and checks
// that the map is valid and its views can be walked.
func FuzzFold(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("\x00\x01\x00\x00\x02\x01\x05\x02\x07\x01\x04"))
	f.Add([]byte("\x12\x00\x03\x02\x02\x01\x01\x01\x01\x00\x00\x32\x01\x03\x01\x02\x02\x01\x09"))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, _, _, _ := abc()
		m.SetWindow(time.Second)
		for len(data) > 0 {
			var s ccmap.Sample
			s, data = wildSample(data)
			m.Fold(&s)
			if s.Weight == 7 {
				m.PruneTo(m.Len() / 2)
			}
		}
		mustBeValid(t, m)
		s := m.Snapshot()
		mustBeValid(t, s)
		if got, want := s.Inclusive(0).Samples, s.Total().Samples; got != want {
			t.Fatalf("%d samples below the root, want %d", got, want)
		}
		viewed(s)
		copied := ccmap.New(ccmap.Options{})
		if err := copied.Merge(s); err != nil {
			t.Fatal(err)
		}
		mustBeValid(t, copied)
	})
}

// wildSample takes a sample from the front of data. A small byte is taken as it
// is, a large one for a number near the ends of its range.
func wildSample(data []byte) (ccmap.Sample, []byte) {
	number := func() int64 {
		if len(data) == 0 {
			return 0
		}
		b := data[0]
		data = data[1:]
		if b < 0xf0 {
			return int64(b)
		}
		return int64(binary.BigEndian.Uint64([]byte{0x80, 0, 0, 0, 0x80, 0, 0, b & 15})) - 8
	}
	kind := number()
	s := ccmap.Sample{
		Truncated: kind&1 != 0,
		Top:       ccmap.Repetition(kind >> 1 & 3),
		Fresh:     int32(kind>>3&7) - 1,
		Thread:    uint64(kind >> 6 & 1),
		Goroutine: uint64(kind >> 7 & 1),
		Depth:     uint32(number()),
		Weight:    number(),
		Time:      number(),
	}
	for n := number() & 15; n > 0; n-- {
		s.Frames = append(s.Frames, ccmap.Frame{Method: ccmap.MethodID(number()), Offset: uint32(number())})
	}
	return s, data
}
