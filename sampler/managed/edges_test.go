package managed

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/compilation"
)

// sampledCalls returns a profile of samples of a method, by the callee and its call: "b@3" was called at 3.
func sampledCalls(names *ccmap.Names, body uint64, calls map[string]int) *ccmap.Snapshot {
	m := ccmap.New(ccmap.Options{Names: names})
	main, a := names.Intern(ccmap.Method{Name: "main"}), names.Intern(ccmap.Method{Name: "a", Body: body})
	for text, n := range calls {
		var callee string
		var at uint32
		fmt.Sscanf(text, "%1s@%d", &callee, &at)
		s := ccmap.Sample{
			Frames: []ccmap.Frame{{Method: names.Intern(ccmap.Method{Name: callee}), Offset: ccmap.NoOffset}, {Method: a, Offset: at}, {Method: main, Offset: 1}},
			Weight: 10, Thread: 1, Fresh: ccmap.FreshUnknown,
		}
		for range n {
			m.Fold(&s)
		}
	}
	return m.Snapshot()
}

// cachedCalls is a cached profile of a, which called b and c.
func cachedCalls(t *testing.T) *Cached {
	t.Helper()
	text, err := compilation.Append(nil, compilation.Record{Method: compilation.Method{Name: "a", Body: 7}, Level: 4, OSR: compilation.NoOSR})
	if err != nil {
		t.Fatal(err)
	}
	c, err := ReadCached(bytes.NewReader(text), sampledCalls(ccmap.NewNames(), 7, map[string]int{"b@3": 300, "c@5": 100}))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestLookAtCalls: a period counts a mismatch where the calls of a method are others than in the cached profile, by
// more than chance explains.
func TestLookAtCalls(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		body  uint64
		calls map[string]int
		wrong int
	}{
		"the same":              {7, map[string]int{"b@3": 150, "c@5": 50}, 0},
		"by chance":             {7, map[string]int{"b@3": 140, "c@5": 60}, 0},
		"another share":         {7, map[string]int{"b@3": 50, "c@5": 150}, 1},
		"another callee":        {7, map[string]int{"d@3": 150, "c@5": 50}, 1},
		"at another place":      {7, map[string]int{"b@4": 150, "c@6": 50}, 1},
		"one more":              {7, map[string]int{"b@3": 150, "c@5": 50, "d@9": 100}, 1},
		"few samples":           {7, map[string]int{"d@3": 8}, 0},
		"no calls":              {7, nil, 0},
		"code that is unknown":  {0, map[string]int{"d@3": 200}, 1},
		"code that has changed": {9, map[string]int{"d@3": 200}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := New(Options{Interval: -1, Cached: cachedCalls(t)})
			p.LookAtCalls(sampledCalls(p.Sink().Names, test.body, test.calls))
			if r, _ := p.cached.records.Find(compilation.Method{Name: "a", Body: 7}); r.Wrong != test.wrong {
				t.Errorf("wrong %d times, want %d", r.Wrong, test.wrong)
			}
		})
	}
}

// TestCallsPutOutOfUse: after ten such periods the cached profile is out of use, and the log says so to the next run.
func TestCallsPutOutOfUse(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	p := New(Options{Interval: -1, Cached: cachedCalls(t), Records: &log})
	a := p.Sink().Names.Intern(ccmap.Method{Name: "a", Body: 7})
	for i := 1; i <= compilation.MostWrong; i++ {
		if level, _ := p.Cached(a); level != 4 {
			t.Fatalf("out of use after %d periods", i-1)
		}
		out := p.LookAtCalls(sampledCalls(p.Sink().Names, 7, map[string]int{"d@3": 200}))
		if want := i == compilation.MostWrong; (len(out) == 1 && out[0] == a) != want {
			t.Errorf("period %d: out of use %v, want %v", i, out, want)
		}
	}
	if level, _ := p.Cached(a); level != 0 {
		t.Error("it is in use after ten periods")
	}
	read, err := compilation.Read(&log)
	if err != nil || len(read.Records) != compilation.MostWrong || read.Records[len(read.Records)-1].Wrong != compilation.MostWrong {
		t.Errorf("%v: %+v", err, read)
	}
	if out := New(Options{Interval: -1}).LookAtCalls(sampledCalls(ccmap.NewNames(), 0, map[string]int{"b@3": 100})); out != nil {
		t.Errorf("without a cached profile: %v", out)
	}
}
