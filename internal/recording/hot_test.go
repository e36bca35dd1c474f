package recording

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/ccmap/query"
	"github.com/ccmapd/ccmapd/internal/profiletest"
	"github.com/ccmapd/ccmapd/internal/terminal"
	"github.com/ccmapd/ccmapd/manager"
)

// kitchen returns a map in which serve and prepare call cook, which calls fry at line 12, and at line 13 boil or bake.
func kitchen() *ccmap.Snapshot {
	m := ccmap.New(ccmap.Options{})
	id := func(name string, line int32) ccmap.MethodID {
		return m.Names().Intern(ccmap.Method{Name: name, File: name + ".go", StartLine: line})
	}
	serve, prepare, cook, fry, boil, bake := id("serve", 1), id("prepare", 5), id("cook", 10), id("fry", 20), id("boil", 30), id("bake", 40)
	fold := func(ms int, frames ...ccmap.Frame) {
		for range ms {
			m.Fold(&ccmap.Sample{Frames: frames, Thread: 1, Weight: int64(time.Millisecond), Fresh: ccmap.FreshUnknown})
		}
	}
	inServe, inPrepare := ccmap.Frame{Method: serve, Offset: 2}, ccmap.Frame{Method: prepare, Offset: 3}
	fold(60, ccmap.Frame{Method: fry}, ccmap.Frame{Method: cook, Offset: 2}, inServe)
	fold(20, ccmap.Frame{Method: boil}, ccmap.Frame{Method: cook, Offset: 3}, inPrepare)
	fold(10, ccmap.Frame{Method: bake}, ccmap.Frame{Method: cook, Offset: 3}, inPrepare)
	fold(10, ccmap.Frame{Method: cook, Offset: 1})
	m.AddPoint(ccmap.Point{Origin: ccmap.OriginBurst, Method: cook, Offset: 2, End: 2, Count: 8, Nulls: ccmap.NullsUnknown, Values: []ccmap.PointValue{{Value: uint64(fry), Count: 8}}})
	m.AddPoint(ccmap.Point{Origin: ccmap.OriginVM, Kind: ccmap.PointBranch, Method: cook, Offset: 1, End: 1, Count: 5, Nulls: ccmap.NullsUnknown, Values: []ccmap.PointValue{{Value: ccmap.BranchTaken, Count: 4}, {Value: ccmap.BranchUntaken, Count: 1}}})
	return m.Snapshot()
}

func lookup(t testing.TB, s *ccmap.Snapshot, name string) ccmap.MethodID {
	id, ok := s.Names().Lookup(name, "")
	if !ok {
		t.Fatalf("no method %s", name)
	}
	return id
}

func TestHotMethod(t *testing.T) {
	t.Parallel()
	s := kitchen()
	cook := lookup(t, s, "cook")
	m, _ := s.Method(cook)
	got := HotOf(manager.Event{
		Method: cook, Caller: ccmap.NoMethod, Offset: ccmap.NoOffset, Counters: m.Cumulative(), Snapshot: s,
		Threshold: manager.Threshold{Percent: 1, Window: 10 * time.Minute}, Recent: 90 * time.Millisecond, Percent: 98.76,
	})
	want := Hot{
		Kind: "method", Method: Place{Method: "cook", File: "cook.go", Line: 10}, Threshold: "1%/10m",
		Ever:   Amount{100, int64(100 * time.Millisecond), 4},
		Recent: &Recent{int64(10 * time.Minute), int64(90 * time.Millisecond), 98.76},
		Callers: []Caller{
			{Place{Method: "serve", File: "serve.go", Line: 3}, 60},
			{Place{Method: "prepare", File: "prepare.go", Line: 8}, 30},
		},
		NoCaller: 10,
		Calls: []Call{
			{Line: 12, Percent: 60. / 90 * 100, Targets: 1, Target: "fry"},
			{Line: 13, Percent: 30. / 90 * 100, Targets: 2},
		},
		Points: []Point{
			{Kind: "call", Origin: "burst", Line: 12, Count: 8, Values: 1, Top: "fry", Percent: 100},
			{Kind: "branch", Origin: "vm", Line: 11, Count: 5, Values: 2, Top: "1", Percent: 80},
		},
	}
	got.Ever.Activations = want.Ever.Activations // are the map's affair
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if text := got.Text(); text != "cook has 98.8% of the recent CPU time, over 1%/10m; 60.0% by serve:3" {
		t.Errorf("text %q", text)
	}
}

func TestHotEdge(t *testing.T) {
	t.Parallel()
	s := kitchen()
	got := HotOf(manager.Event{
		Method: lookup(t, s, "boil"), Caller: lookup(t, s, "cook"), Offset: 3, Snapshot: s,
		Counters: ccmap.Counters{Samples: 20, Time: int64(20 * time.Millisecond)}, Threshold: manager.Threshold{Time: 15 * time.Millisecond},
	})
	want := Hot{
		Kind: "edge", Method: Place{Method: "boil", File: "boil.go", Line: 30}, Caller: &Place{Method: "cook", File: "cook.go", Line: 13},
		Threshold: "15ms", Ever: Amount{Samples: 20, Time: int64(20 * time.Millisecond)},
		Callers: []Caller{{Place{Method: "prepare", File: "prepare.go", Line: 8}, 100}},
		Calls:   []Call{{Line: 13, Percent: 30. / 90 * 100, Targets: 2}},
		Points:  []Point{},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if text := got.Text(); text != "cook:13 > boil has reached 20ms of CPU time; 100.0% by prepare:8" {
		t.Errorf("text %q", text)
	}
}

func TestHotPath(t *testing.T) {
	t.Parallel()
	s := kitchen()
	path, err := query.ParsePath("serve > cook > fry")
	if err != nil {
		t.Fatal(err)
	}
	got := HotOf(manager.Event{
		Method: lookup(t, s, "fry"), Caller: ccmap.NoMethod, Offset: ccmap.NoOffset, Path: path, Snapshot: s,
		Counters: ccmap.Counters{Samples: 60, Time: int64(60 * time.Millisecond)}, Threshold: manager.Threshold{Time: 50 * time.Millisecond},
	})
	want := Hot{
		Kind: "path", Method: Place{Method: "fry", File: "fry.go", Line: 20}, Path: "serve > cook > fry", Threshold: "50ms",
		Ever:    Amount{Samples: 60, Time: int64(60 * time.Millisecond)},
		Callers: []Caller{}, NoCaller: 100, Calls: []Call{}, Points: []Point{},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if text := got.Text(); text != "serve > cook > fry has reached 60ms of CPU time" {
		t.Errorf("text %q", text)
	}
}

// TestHotCallersAddUp: in any profile, the shares of callers make the whole.
func TestHotCallersAddUp(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		names := ccmap.NewNames()
		s := profiletest.Fold(profiletest.Samples(t, names), names)
		check := func(e manager.Event) {
			e.Snapshot = s
			h := HotOf(e)
			sum := h.NoCaller
			for _, c := range h.Callers {
				sum += c.Percent
			}
			if h.Others != nil {
				sum += h.Others.Percent
			}
			if math.Abs(sum-100) > 0.01 || len(h.Callers) > mostListed {
				t.Errorf("%+v: the shares are %v", e, sum)
			}
		}
		for m := range s.Methods() {
			check(manager.Event{Method: m.ID(), Caller: ccmap.NoMethod, Counters: m.Cumulative()})
			path := query.Path{{Name: m.Method().Name}}
			check(manager.Event{Method: m.ID(), Caller: ccmap.NoMethod, Path: path, Counters: m.Cumulative()})
		}
		for e := range s.Edges() {
			check(manager.Event{Method: e.Callee(), Caller: e.Caller(), Offset: e.Offset(), Counters: e.Total()})
		}
	})
}

// TestHotIsBoundedAndPrintable: a program with names that are long, or not printable, and with many callers makes no
// event that is long, or that a terminal obeys.
func TestHotIsBoundedAndPrintable(t *testing.T) {
	t.Parallel()
	m := ccmap.New(ccmap.Options{})
	id := func(name string) ccmap.MethodID {
		return m.Names().Intern(ccmap.Method{Name: name, Signature: name, File: name})
	}
	evil := id("\x1b]0;x\x07\u202e\xff" + strings.Repeat("ö", 1<<20))
	for i := range 100 {
		caller := id(fmt.Sprint("\x9b2J", i, strings.Repeat("x", 1<<16)))
		m.Fold(&ccmap.Sample{Frames: []ccmap.Frame{{Method: evil}, {Method: caller, Offset: uint32(i)}}, Thread: 1, Weight: int64(1000 - i), Fresh: ccmap.FreshUnknown})
	}
	s := m.Snapshot()
	h := HotOf(manager.Event{Method: evil, Caller: ccmap.NoMethod, Snapshot: s, Threshold: manager.Threshold{Time: 1}})
	if h.Others == nil || h.Others.Callers != 100-mostListed {
		t.Errorf("other callers: %+v", h.Others)
	}
	line, err := terminal.LineJSON(h)
	if err != nil || len(line) > 64<<10 {
		t.Errorf("%d bytes: %v", len(line), err)
	}
	if i := strings.IndexFunc(string(line), func(r rune) bool { return !unicode.IsGraphic(r) || r == unicode.ReplacementChar }); i >= 0 {
		t.Errorf("not printable: %q", line[i:i+8])
	}
	var back Hot
	if err := json.Unmarshal(line, &back); err != nil || len(back.Callers) != mostListed {
		t.Errorf("read back: %v", err)
	}
	if len(h.Text()) > 2<<10 {
		t.Errorf("the text has %d bytes", len(h.Text()))
	}
}

// TestHotInTheWindow: beside a threshold that is a time stands what is recent by the map's own window.
func TestHotInTheWindow(t *testing.T) {
	t.Parallel()
	m := ccmap.New(ccmap.Options{Window: time.Minute})
	leaf, root := m.Names().Intern(ccmap.Method{Name: "leaf"}), m.Names().Intern(ccmap.Method{Name: "root"})
	for i := range 10 {
		frames := []ccmap.Frame{{Method: leaf}, {Method: root, Offset: 1}}[i%2:]
		m.Fold(&ccmap.Sample{Frames: frames, Thread: 1, Time: 1, Weight: int64(time.Millisecond), Fresh: ccmap.FreshUnknown})
	}
	path := query.Path{{Name: "root"}, {Name: "leaf"}}
	for _, e := range []manager.Event{
		{Method: leaf, Caller: ccmap.NoMethod}, {Method: leaf, Caller: root, Offset: 1}, {Method: leaf, Caller: ccmap.NoMethod, Path: path},
	} {
		e.Snapshot, e.Threshold = m.Snapshot(), manager.Threshold{Time: 1}
		want := &Recent{int64(time.Minute), int64(5 * time.Millisecond), 50}
		if diff := cmp.Diff(want, HotOf(e).Recent); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", e, diff)
		}
	}
}
