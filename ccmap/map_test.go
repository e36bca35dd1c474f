package ccmap_test

import (
	"slices"
	"testing"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// fold folds the program's samples into a new map.
func fold(t *rapid.T, p *program) *ccmap.Map {
	m := ccmap.New(ccmap.Options{Names: p.names, Seed: rapid.Uint64().Draw(t, "seed")})
	for i := range p.samples {
		m.Fold(&p.samples[i])
	}
	mustBeValid(t, m)
	return m
}

type fataler interface {
	Helper()
	Fatal(...any)
}

func mustBeValid(t fataler, m interface{ CheckValid() error }) {
	t.Helper()
	if err := m.CheckValid(); err != nil {
		t.Fatal(err)
	}
}

// viewed collects the counters of all paths that the views show, contexts
// walked upward.
func viewed(s *ccmap.Snapshot) explicit {
	x := explicit{}
	for p := range s.Methods() {
		x[key([]ccmap.PathElem{{Method: p.ID()}})] = p.Total()
	}
	var up func(r ccmap.CalleeRef)
	up = func(r ccmap.CalleeRef) {
		x[key(path(r.Path()))] = r.Total()
		for longer := range r.Callers() {
			up(longer)
		}
	}
	for e := range s.Edges() {
		x[key([]ccmap.PathElem{{Method: e.Caller(), Site: e.Offset()}, {Method: e.Callee()}})] = e.Total()
		for r := range e.Contexts() {
			up(r)
		}
	}
	return x
}

// viewedDown collects the same from the methods' call sites, walking downward.
func viewedDown(s *ccmap.Snapshot) explicit {
	x := explicit{}
	var down func(r ccmap.CalleeRef)
	down = func(r ccmap.CalleeRef) {
		x[key(path(r.Path()))] = r.Total()
		for site := range r.CallSites() {
			for longer := range site.Callees() {
				down(longer)
			}
		}
	}
	for p := range s.Methods() {
		x[key([]ccmap.PathElem{{Method: p.ID()}})] = p.Total()
		for site := range p.CallSites() {
			for e := range site.Callees() {
				down(e.Ref())
			}
		}
	}
	return x
}

// TestPaper compares every counter of the paper's CC-Map with the counters of the
// views, upward and downward, and with Ref.
func TestPaper(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := newProgram()
		p.run(t, 120)
		m := fold(t, p)
		s := m.Snapshot()
		if d := cmp.Diff(p.explicit, viewed(s)); d != "" {
			t.Fatalf("upward (-explicit +views):\n%s", d)
		}
		if d := cmp.Diff(p.explicit, viewedDown(s)); d != "" {
			t.Fatalf("downward (-explicit +views):\n%s", d)
		}
		for _, stack := range p.stacks {
			for i := range stack {
				for j := range i + 1 {
					sub := path(stack[j : i+1])
					if got, want := s.Ref(sub), p.explicit[key(sub)]; got != want {
						t.Fatalf("Ref(%v) = %+v, want %+v", sub, got, want)
					}
				}
			}
		}
		if got := m.Meta().Loss.Orphaned; got != p.orphaned {
			t.Fatalf("%d orphaned, want %d", got, p.orphaned)
		}
		if m.ActivationsExact() != p.exact {
			t.Fatalf("ActivationsExact() = %t", m.ActivationsExact())
		}
	})
}

// TestMethodTotals compares cum and flat, as in pprof, lines and the totals of call
// sites.
func TestMethodTotals(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := newProgram()
		p.run(t, 40)
		want := newMethodTotals()
		for i, stack := range p.stacks {
			want.update(stack, p.samples[i].Weight)
		}
		want.mustMatch(t, fold(t, p).Snapshot())
	})
}

// TestRefAnyOffset sums over the sites that AnyOffset stands for.
func TestRefAnyOffset(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := newProgram()
		p.run(t, 40)
		s := fold(t, p).Snapshot()
		pattern := make([]ccmap.PathElem, rapid.IntRange(1, 4).Draw(t, "length"))
		for i := range pattern {
			pattern[i].Method = ccmap.FirstID + ccmap.MethodID(rapid.Uint32Range(0, 4).Draw(t, "method"))
			pattern[i].Site = rapid.SampledFrom([]uint32{1, 2, ccmap.AnyOffset, ccmap.AnyOffset}).Draw(t, "site")
		}
		var want ccmap.Counters
		for i, stack := range p.stacks {
			for end := range stack {
				begin := end + len(pattern)
				if begin <= len(stack) && matches(pattern, path(stack[end:begin])) {
					c := ccmap.Counters{Samples: 1, Time: p.samples[i].Weight}
					if end < p.fresh[i] {
						c.Activations = 1
					}
					want = want.Add(c)
				}
			}
		}
		if got := s.Ref(pattern); got != want {
			t.Fatalf("Ref(%v) = %+v, want %+v", pattern, got, want)
		}
	})
}

func matches(pattern, sub []ccmap.PathElem) bool {
	last := len(pattern) - 1
	return slices.EqualFunc(pattern[:last], sub[:last], func(p, e ccmap.PathElem) bool {
		return p.Method == e.Method && (p.Site == ccmap.AnyOffset || p.Site == e.Site)
	}) && pattern[last].Method == sub[last].Method
}

// TestLowerBound folds without marks: activations are under the exact ones in
// every path, and samples and time are the same.
func TestLowerBound(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := newProgram()
		p.run(t, 40)
		for i := range p.samples {
			s := &p.samples[i]
			s.Top = ccmap.TopRepeated
			if s.Fresh > 0 {
				s.Top = ccmap.TopNew
			}
			if rapid.Bool().Draw(t, "no verdict") {
				s.Top = ccmap.TopUnknown
			}
			s.Fresh = ccmap.FreshUnknown
		}
		m := fold(t, p)
		if len(p.samples) > 0 && m.ActivationsExact() {
			t.Fatal("activations are exact without marks")
		}
		got := viewed(m.Snapshot())
		for k, want := range p.explicit {
			if got[k].Activations > want.Activations {
				t.Fatalf("activations of %x: %d of %d", k, got[k].Activations, want.Activations)
			}
			if withoutActivations(got[k]) != withoutActivations(want) {
				t.Fatalf("%x: %+v, want %+v", k, got[k], want)
			}
		}
	})
}
