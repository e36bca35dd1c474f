package hotspot

import (
	"math"
	"testing"

	"github.com/ccmapd/ccmapd/internal/compilation"
)

// TestRecordsOfCompilations: a compilation that came to its end at level 3 or 4 is one record, with the calls that came
// before its end and after it, and the times that its method was thrown away before.
func TestRecordsOfCompilations(t *testing.T) {
	t.Parallel()
	var got []compilation.Record
	deopts := int64(0)
	c := &Compilations{
		Pattern: "p.*",
		Record:  func(r []compilation.Record) { got = append(got, r...) },
		Deopt:   func(d Deoptimization) { deopts = d.Total },
	}
	ends := []compiledMethod{
		{id: 1, root: circles, ok: true, level: 4, begin: 1, osr: true},
		{id: 2, root: circles, ok: true, level: 2, begin: 2},
		{id: 3, root: circles, ok: false, level: 4, begin: 3},
		{id: 4, root: "q.Other.m()V", ok: true, level: 4, begin: 4},
		{id: 5, root: call, ok: true, level: 3, begin: 5},
	}
	c.noteDeopt(Deoptimization{Method: circles, Action: "reinterpret"})
	c.noteDeopt(Deoptimization{Method: circles, Action: "none"})
	for _, end := range ends {
		c.noteCall(end.id, inlined{circles, call, 14, true, "inline (hot)"})
		c.noteEnd(end)
	}
	c.flush(1)
	if len(got) != 0 {
		t.Fatalf("before all calls may have come: %+v", got)
	}
	c.noteCall(1, inlined{call, square, 2, false, "too big"})
	c.flush(1)
	if len(got) != 2 || got[0].Name != "p.Work.circles" || got[0].Level != 4 || got[0].OSR != compilation.OSRUnknown || got[0].Thrown != 1 ||
		len(got[0].Calls) != 2 || got[0].Calls[1].Words != "too big" || !got[0].Calls[0].Inlined || got[1].Level != 3 || got[1].OSR != compilation.NoOSR {
		t.Errorf("%+v", got)
	}
	if c.Deopts() != 2 || deopts != 2 {
		t.Errorf("%d deoptimizations, told of %d", c.Deopts(), deopts)
	}
	c.noteEnd(ends[0]) // the piece comes again
	c.noteCall(1, inlined{})
	c.flush(math.MaxInt)
	if len(got) != 2 || len(c.pending) != 0 {
		t.Errorf("a compilation has two records: %+v", got)
	}
}

// TestPendingIsBounded: what never ends does not fill the memory.
func TestPendingIsBounded(t *testing.T) {
	t.Parallel()
	c := &Compilations{Pattern: "*", Record: func([]compilation.Record) {}}
	for id := range int64(2 * mostPending) {
		c.noteCall(id, inlined{})
	}
	for id := range int64(2 * mostDone) {
		c.noteEnd(compiledMethod{id: id, root: circles, ok: true, level: 4})
		if id%100 == 0 {
			c.flush(math.MaxInt)
		}
	}
	for range 2 * compilation.MostCalls {
		c.noteCall(math.MaxInt64, inlined{})
	}
	if len(c.pending) > mostPending || len(c.done) > mostDone || len(c.pending[math.MaxInt64].calls) > compilation.MostCalls {
		t.Errorf("%d pending, %d done", len(c.pending), len(c.done))
	}
}

func TestPatterns(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		pattern, text string
		want          bool
	}{
		{"*", "p.Work.m", true}, {"p.*", "p.Work.m", true}, {"p.*", "pq.Work.m", false}, {"*.m", "p.Work.m", true}, {"*.m", "p.Work.mm", false},
		{"p.Work.m", "p.Work.m", true}, {"p.Work", "p.Work.m", false}, {"", "p", false}, {"p.*.get*", "p.Cart.getAll", true}, {"*a*b*", "xbxa", false},
	} {
		if matches(test.pattern, test.text) != test.want {
			t.Errorf("%q, %q: %v", test.pattern, test.text, !test.want)
		}
	}
}
