package wasm

import (
	"context"
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/sampler/managed"
	"github.com/ccmapd/ccmapd/sampler/wasm/internal/rewrite"
	"github.com/ccmapd/ccmapd/testdata/guests"
)

// counted returns the points of a profiler that has ended, as a map has them.
func counted(t testing.TB, p *Profiler) []ccmap.Point {
	t.Helper()
	list, _ := p.Counted()
	m := ccmap.New(ccmap.Options{Names: p.Sink().Names})
	m.SetPoints(ccmap.OriginVM, list)
	if err := m.Snapshot().CheckValid(); err != nil {
		t.Error(err)
	}
	return m.Snapshot().Points()
}

// recordPoints calls an export once and returns all of its points.
func recordPoints(t testing.TB, binary []byte, export string, params ...uint64) (*ccmap.Snapshot, []ccmap.Point, error) {
	t.Helper()
	h := newExactHost(t, binary, managed.Branches)
	err := call(t, h.instantiate(t), export, params...)
	s := h.finish(t)
	return s, counted(t, h.profiler), err
}

// With Exact every branch, switch and block counts: of 4 calls of classify each takes another
// case of its br_table, and classify_all ($4) has one loop that goes on but for the last time.
func TestExactPoints(t *testing.T) {
	t.Parallel()
	const rounds = 4 * 500 // more points than askEvery
	s, points, err := recordPoints(t, guests.Small("brtable"), "classify_all", rounds)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int64{}
	for _, p := range points {
		name := s.Names().At(p.Method).Name + " " + p.Kind.String()
		for _, v := range p.Values {
			if p.Kind == ccmap.PointBranch {
				got[name+map[uint64]string{0: " untaken", 1: " taken"}[v.Value]] += v.Count
			} else if v.Count == rounds/4 {
				got[name+" quarters"]++
			}
		}
		got[name] += p.Count
	}
	if d := cmp.Diff(map[string]int64{
		"$4 block": 1 + rounds, "$4 branch": rounds, "$4 branch taken": rounds - 1, "$4 branch untaken": 1,
		"classify block": 2 * rounds, "classify switch": rounds, "classify switch quarters": 4, "visit block": rounds,
	}, got); d != "" {
		t.Errorf("counts (-want +got):\n%s", d)
	}
}

// The first block of a function counts its activations, whatever its calls and its end.
func TestExactPointsCountCalls(t *testing.T) {
	ofOneGoroutine(t)
	for _, c := range exportCalls {
		t.Run(c.String(), func(t *testing.T) {
			t.Parallel()
			s, points, _ := recordPoints(t, guests.Small(c.guest), c.function, c.params...)
			got := make(map[string]int64)
			seen := make(map[ccmap.MethodID]bool)
			for _, p := range points { // by offset
				if p.Kind == ccmap.PointBlock && !seen[p.Method] {
					seen[p.Method] = true
					got[s.Names().At(p.Method).Name] += p.Count
				}
			}
			want := byMethod(s)
			maps.DeleteFunc(want, func(name string, _ int64) bool { return name == "env.callback" })
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("activations (-want) and first blocks (+got):\n%s", d)
			}
		})
	}
}

// A sampled guest reports the points that follow a mark, and no more.
func TestSampledPoints(t *testing.T) {
	t.Parallel()
	p := newProfile(t, Options{Options: managed.Options{Interval: -1, Points: managed.Branches}}, compiling())
	guest := p.instantiate(p.compile(guests.Small("brtable")))
	flag := global(guest, rewrite.PointsGlobal)
	const marks = 3
	for mark := range marks + 1 { // the first call attaches the guest, and is not marked
		if mark > 0 {
			p.profiler.Mark(1000)
			if flag.Get() != 1 {
				t.Error("a mark opens no window")
			}
		}
		if err := call(t, guest, "classify_all", 1000); err != nil {
			t.Fatal(err)
		}
		if flag.Get() != 0 {
			t.Error("a window stays open")
		}
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := p.profiler.Run(ended); err != nil {
		t.Fatal(err)
	}
	sum := int64(0)
	for _, q := range counted(t, p.profiler) {
		sum += q.Count
	}
	if sum != marks*pointsWindow {
		t.Errorf("%d points after %d marks", sum, marks)
	}
}

// Without Points a guest has no code for them.
func TestNoPoints(t *testing.T) {
	t.Parallel()
	for _, exact := range []bool{false, true} {
		p := newProfile(t, Options{Options: managed.Options{Interval: -1}, Exact: exact}, compiling())
		guest := p.instantiate(p.compile(guests.Small("brtable")))
		if guest.ExportedGlobal(rewrite.PointsGlobal) != nil {
			t.Errorf("exact %t: a global of points", exact)
		}
	}
}
