package view

import (
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/ccmap/compare"
	"github.com/ccmapd/ccmapd/internal/profiletest"
)

// TestFlameDiffHasBothSides: the frames of each profile have their own figures and ids, and each sum is exact.
func TestFlameDiffHasBothSides(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var sides [2]*Profile
		for i := range sides {
			names := ccmap.NewNames()
			for n := range i { // other numbers
				names.Intern(ccmap.Method{Name: string(rune('Y' - n))})
			}
			samples := profiletest.Samples(t, names)
			if i > 0 {
				for _, s := range samples {
					for j, f := range s.Frames {
						s.Frames[j].Method = names.Intern(ccmap.Method{Name: string(profiletest.Methods[int(f.Method-ccmap.FirstID)%4]), File: "f.go", StartLine: profiletest.StartLine})
					}
				}
			}
			if len(samples) == 0 {
				return
			}
			sides[i] = New(string(rune('a'+i)), profiletest.Fold(samples, names))
		}
		width := rapid.SampledFrom([]uint{1, 5, 20, 1 << 20}).Draw(t, "width")
		v, err := NewFlameDiff(sides[0], sides[1], FlameOptions{Width: width, Frames: mostFrames})
		if err != nil {
			t.Fatal(err)
		}
		below := make([][2]int64, len(v.bars))
		for i, b := range v.bars {
			for side := range b.total {
				if i > 0 {
					below[b.parent][side] += b.total[side].Time
				}
			}
		}
		for side, p := range sides {
			own := map[string]int64{}
			single := mustFlame(t, p, FlameOptions{Width: 1 << 20, Frames: mostFrames})
			for _, b := range single.bars {
				own[b.id()] = b.total[0].Time
			}
			for i, b := range v.bars {
				if got := b.total[side].Time; got != own[b.id()] {
					t.Fatalf("frame %d has %d of %s, which has %d", i, got, p.Path, own[b.id()])
				}
				if sum := b.self[side].Time + b.rest[side].Time + below[i][side]; sum != b.total[side].Time {
					t.Fatalf("frame %d is %d of %s, its parts are %d", i, b.total[side].Time, p.Path, sum)
				}
				delete(own, b.id())
			}
			for id, value := range own {
				if value*int64(width) >= p.Total().Time {
					t.Fatalf("the frame %s, %d of %d of %s, is not shown", id, value, p.Total().Time, p.Path)
				}
			}
		}
	})
}

// TestFlameDiffMarksWhatDiffLists: changes are marked at the very contexts that diff lists, at once and below a frame.
func TestFlameDiffMarksWhatDiffLists(t *testing.T) {
	t.Parallel()
	a, b := changed(0), changed(300)
	listed, err := compare.Differences(a.Snapshot, b.Snapshot, compare.DiffOptions{})
	if err != nil || listed.Contexts.Significant < 2 {
		t.Fatalf("%d changes, %v", listed.Contexts.Significant, err)
	}
	want := map[string]float64{}
	for _, c := range listed.Contexts.List {
		want[c.Path[0].Method] = c.Points
	}
	whole, err := NewFlameDiff(a, b, FlameOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i, root := range []string{"", whole.bars[1].id()} {
		v, err := NewFlameDiff(a, b, FlameOptions{Root: root})
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]float64{}
		for _, c := range v.marked() {
			got[v.title(v.bars[c.frame])] = c.Points
		}
		if diff := gocmp.Diff(want, got); diff != "" {
			t.Errorf("graph %d (-want +got):\n%s", i, diff)
		}
	}
}

// changed returns a profile in which a method has so many samples more, at one of two calls of another.
func changed(more int64) *Profile {
	m := ccmap.New(ccmap.Options{})
	at := m.Root()
	for _, name := range []string{"main", "serve"} {
		at = m.Child(at, ccmap.NoOffset, m.Names().Intern(ccmap.Method{Name: name, File: "m.go", StartLine: 10}))
	}
	for i, name := range []string{"parse", "send", "log"} {
		leaf := m.Child(at, uint32(i), m.Names().Intern(ccmap.Method{Name: name}))
		samples := int64(500)
		if i == 1 {
			samples += more
		}
		m.Add(leaf, ccmap.Counters{Samples: samples, Time: samples * 1e7})
	}
	return New("p", m.Snapshot())
}
