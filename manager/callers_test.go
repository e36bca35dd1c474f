package manager

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/valueprof"
)

// TestContextOfAHit: callers are named as far as they are known.
func TestContextOfAHit(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		stack string // innermost first
		want  []string
	}{
		{"t site", []string{}},
		{"t site a", []string{"a"}},
		{"t site a b c d e", []string{"a", "b", "c"}},
		{"t site a [unknown] c", []string{"a"}},
		{"t site [truncated]", []string{}},
	} {
		names := ccmap.NewNames()
		v := newValues(ValueOptions{}, names, quiet)
		v.hit(hitOf(stack(names, strings.Fields(test.stack)...)))
		points := v.points()
		if len(points) != 2 || points[0].Callers != nil {
			t.Fatalf("%s: points %+v", test.stack, points)
		}
		got := []string{}
		for _, f := range points[1].Callers {
			got = append(got, names.At(f.Method).Name)
		}
		if diff := cmp.Diff(test.want, got); diff != "" || points[1].Callers == nil {
			t.Errorf("%s: context (-want +got):\n%s", test.stack, diff)
		}
	}
}

// TestContextsAreBounded: numbers that no point has go to other contexts, and what
// was published with them does not change.
func TestContextsAreBounded(t *testing.T) {
	t.Parallel()
	const points, last = 8, 100
	nth := func(n int) callers { return callers{{Method: ccmap.MethodID(n)}, {Method: ccmap.NoMethod}} }
	x := newContexts(points)
	var held []valueprof.Site // as many as there may be, the latest
	inUse := func() iter.Seq[valueprof.Site] { return slices.Values(held) }
	first := x.frames(x.id(nth(0), inUse))
	for n := range last + 1 {
		id := x.id(nth(n), inUse)
		held = append(held, valueprof.Site{Context: id})
		held = held[max(0, len(held)-points):]
		for i, s := range held {
			if got := x.frames(s.Context)[0].Method; int(got) != n-len(held)+1+i {
				t.Fatalf("after context %d, number %d is of %d", n, s.Context, got)
			}
		}
	}
	if len(x.all) > x.limit || len(x.ids) > x.limit {
		t.Errorf("%d numbers and %d contexts are over %d", len(x.all), len(x.ids), x.limit)
	}
	if first[0].Method != 0 {
		t.Errorf("published frames became %v", first)
	}
}

// TestHitsInEverNewContexts: contexts that are hot now get named after any number
// of others, with little memory.
func TestHitsInEverNewContexts(t *testing.T) {
	t.Parallel()
	names := ccmap.NewNames()
	v := newValues(ValueOptions{MaxPoints: 32}, names, quiet)
	for n := range 500 {
		v.hit(hitOf(stack(names, "t", "site", "hot")))
		v.hit(hitOf(stack(names, "t", fmt.Sprint("site", n), fmt.Sprint("rare", n))))
	}
	for _, p := range v.points() {
		if len(p.Callers) > 0 && names.At(p.Callers[0].Method).Name == "hot" && p.Count == 500 {
			return
		}
	}
	t.Errorf("points %+v", v.points())
}
