package manager

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ccmapd/ccmapd/ccmap"
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
		points := v.points(v.caught)
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

// TestContextsAreBounded: a hit in one context too many counts in any.
func TestContextsAreBounded(t *testing.T) {
	t.Parallel()
	x := newContexts()
	var last uint32
	for i := range maxContexts + 1 {
		last = x.id(callers{{Method: ccmap.MethodID(i)}})
		if want := uint32(i + 1); i < maxContexts && last != want {
			t.Fatalf("context %d has number %d", i, last)
		}
	}
	if last != anyContext || x.id(callers{{Method: 7}}) != 8 {
		t.Errorf("number %d beyond the bound, %d of one that is known", last, x.id(callers{{Method: 7}}))
	}
}
