package ccmap_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/profiletest"
)

// TestMoments: each sample is told once, with its time and weight, and the context that another map has alone for its
// stack, whatever was folded and pruned before.
func TestMoments(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		names := ccmap.NewNames()
		samples := profiletest.Samples(t, names)
		var got []ccmap.Moment
		m := ccmap.New(ccmap.Options{Names: names, Moments: func(m ccmap.Moment) { got = append(got, m) }})
		for i := range samples {
			samples[i].Time = int64(1000 + i)
			if m.Fold(&samples[i]); rapid.IntRange(0, 3).Draw(t, "prune") == 0 {
				m.Prune(0)
			}
		}
		if len(got) != len(samples) {
			t.Fatalf("%d moments of %d samples", len(got), len(samples))
		}
		for i := range samples {
			if want := (ccmap.Moment{Time: samples[i].Time, Path: pathOf(&samples[i]), Weight: samples[i].Weight}); got[i] != want {
				t.Fatalf("sample %d: %v, want %v", i, got[i], want)
			}
		}
	})
}

// pathOf returns the number of a sample's context, in a map and with names of its own.
func pathOf(s *ccmap.Sample) uint64 {
	m := ccmap.New(ccmap.Options{})
	other := ccmap.Sample{Weight: 1, Fresh: ccmap.FreshUnknown}
	for _, f := range s.Frames {
		method := ccmap.Method{Name: string(profiletest.Methods[f.Method-ccmap.FirstID])}
		other.Frames = append(other.Frames, ccmap.Frame{Method: m.Names().Intern(method), Offset: f.Offset})
	}
	m.Fold(&other)
	snapshot := m.Snapshot()
	ids := snapshot.PathIDs()
	for n := range snapshot.Nodes() {
		if n.Self.Samples > 0 {
			return ids[n.ID]
		}
	}
	return 0
}

// TestPathIDs: different contexts have different numbers, but labels make no difference. Files have the numbers, so
// they never change.
func TestPathIDs(t *testing.T) {
	t.Parallel()
	m := ccmap.New(ccmap.Options{})
	id := func(method ccmap.Method) ccmap.MethodID { return m.Names().Intern(method) }
	a, b, labels := id(ccmap.Method{Name: "main.a"}), id(ccmap.Method{Name: "main.b"}), id(ccmap.LabelsMethod([]ccmap.Label{{Key: "k", Value: "v"}}))
	inA := m.Child(0, ccmap.NoOffset, a)
	nodes := []ccmap.NodeID{inA, m.Child(inA, 1, b), m.Child(inA, 2, b), m.Child(inA, 1, ccmap.NoMethod), m.Child(0, ccmap.NoOffset, b), m.Child(0, ccmap.NoOffset, id(ccmap.Method{Name: "main.a", Signature: "x"}))}
	labelled := m.Child(m.Child(m.Child(0, ccmap.NoOffset, labels), ccmap.NoOffset, a), 1, b)
	ids := m.Snapshot().PathIDs()
	seen := make(map[uint64]bool)
	for _, n := range nodes {
		if seen[ids[n]] || ids[n] == 0 {
			t.Errorf("node %d has the number %#x of another one", n, ids[n])
		}
		seen[ids[n]] = true
	}
	if ids[labelled] != ids[nodes[1]] {
		t.Errorf("%#x with labels, %#x without", ids[labelled], ids[nodes[1]])
	}
	if want := uint64(0x86593825e9b7abab); ids[nodes[1]] != want {
		t.Errorf("the number of main.a > main.b is %#x, and was %#x", ids[nodes[1]], want)
	}
}
