package view

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/ccmapd/ccmapd/ccmap"
)

// TestNullBounds: whatever callers pass, as often as they like, what is said of each holds, whether the VM counts nulls
// or only sees them. A check with nulls that are counted has them all.
func TestNullBounds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		const check, first = 1, 2 // methods
		type truth struct{ calls, nulls int64 }
		var callers []truth
		var all truth
		for range rapid.IntRange(1, 5).Draw(t, "callers") {
			calls := rapid.Int64Range(1, 1000).Draw(t, "calls")
			c := truth{calls, rapid.Int64Range(0, calls).Draw(t, "nulls")}
			callers = append(callers, c)
			all.calls, all.nulls = all.calls+c.calls, all.nulls+c.nulls
		}
		if all.nulls == 0 {
			t.Skip("no nulls")
		}
		left := rapid.Int64Range(0, all.calls-all.nulls).Draw(t, "checks that a compiler left out")
		counted := rapid.Bool().Draw(t, "nulls are counted")
		q := ccmap.Point{Origin: ccmap.OriginVM, Kind: ccmap.PointType, Method: check, Offset: 3, End: 3, Count: all.calls - all.nulls - left, Nulls: ccmap.NullsSeen}
		if counted {
			q.Count, q.Nulls = all.calls, all.nulls
		}
		points := []ccmap.Point{q, {Origin: ccmap.OriginVM, Kind: ccmap.PointBlock, Method: check, Count: all.calls}}
		for i, c := range callers {
			points = append(points, ccmap.Point{
				Origin: ccmap.OriginVM, Kind: ccmap.PointCall, Method: ccmap.MethodID(first + i), Offset: 7, End: 7, Count: c.calls,
				Values: []ccmap.PointValue{{Value: check, Count: c.calls}},
			})
		}
		s := nullCountsOf(points).site(q)
		if s.nulls < all.nulls || counted && s.nulls != all.nulls || s.exact != counted || len(s.callers) != len(callers) {
			t.Fatalf("%+v, want %d nulls of %d callers", s, all.nulls, len(callers))
		}
		for _, c := range s.callers {
			is := callers[c.at.Method-first]
			if c.calls != is.calls || c.least > is.nulls || c.most < is.nulls || c.only != (len(callers) == 1) {
				t.Errorf("%+v, and it passes null %d times", c, is.nulls)
			}
		}
	})
}

// TestOnce: only a check that no branch comes before, and no loop ends after, is made once a call.
func TestOnce(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		branch ccmap.Point
		once   bool
	}{
		"no branch":    {ccmap.Point{}, true},
		"before":       {ccmap.Point{Kind: ccmap.PointBranch, Offset: 1, Count: 100}, false},
		"after":        {ccmap.Point{Kind: ccmap.PointBranch, Offset: 9, Count: 100}, true},
		"a loop after": {ccmap.Point{Kind: ccmap.PointBranch, Offset: 9, Count: 900}, false},
		"a switch":     {ccmap.Point{Kind: ccmap.PointSwitch, Offset: 1, Count: 100}, false},
	} {
		q := ccmap.Point{Origin: ccmap.OriginVM, Kind: ccmap.PointType, Method: 1, Offset: 5, Count: 60, Nulls: ccmap.NullsSeen}
		c.branch.Origin, c.branch.Method = ccmap.OriginVM, 1
		points := []ccmap.Point{q, c.branch, {Origin: ccmap.OriginVM, Kind: ccmap.PointBlock, Method: 1, Count: 100}}
		if s := nullCountsOf(points).site(q); (s.nulls == 40) != c.once {
			t.Errorf("%s: at most %d nulls", name, s.nulls)
		}
	}
}
