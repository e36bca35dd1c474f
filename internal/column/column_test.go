package column

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/internal/profiletest"
)

const plenty = 1 << 30 // bytes

func decode(b []byte) (*ccmap.Map, error) { return NewDecoder(ccmap.NewNames()).Decode(b, plenty) }

// whole returns the bytes of a map.
func whole(s *ccmap.Snapshot) []byte {
	b, _ := Append(nil, s)
	return b
}

func toJSON(t interface{ Fatal(...any) }, s *ccmap.Snapshot) string {
	var b bytes.Buffer
	if err := export.Write(&b, export.JSON, s); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// A delta restores what a daemon's log needs.
func TestDelta(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		_, s := profiletest.PrunedPair(t)
		m := ccmap.New(ccmap.Options{Names: s.Names()})
		if err := m.Merge(s); err != nil {
			t.Fatal(err)
		}
		*m.Meta() = drawMeta(t, m.Meta().Pruned)
		m.SetWindow(0)
		m.SetExact(rapid.Bool().Draw(t, "exact"))
		drawNames(t, m)
		for range rapid.IntRange(0, 10).Draw(t, "points") {
			m.AddPoint(drawPoint(t, m.Names().Len()))
		}
		want := m.Snapshot()
		got, err := decode(AppendDelta(nil, want))
		if err != nil {
			t.Fatal(err)
		}
		if err := got.CheckValid(); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(toJSON(t, want), toJSON(t, got.Snapshot())); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
	})
}

// drawNames draws what names know of methods and positions.
func drawNames(t *rapid.T, m *ccmap.Map) {
	names := m.Names()
	s := m.Snapshot()
	if rapid.Bool().Draw(t, "bodies") {
		for id := ccmap.FirstID; int(id) < names.Len(); id++ {
			names.SetBody(id, rapid.Uint64().Draw(t, "body"))
		}
	}
	for n := range s.Nodes() {
		if n.ID == 0 || n.Parent == 0 {
			continue
		}
		at := ccmap.Frame{Method: s.Node(n.Parent).Method, Offset: n.Offset}
		if rapid.Bool().Draw(t, "located") {
			names.SetLine(at, 7)
			names.SetAddress([]ccmap.Frame{at}, !n.IsPosition(), uint64(n.ID)+1)
		}
		if !n.IsPosition() && rapid.Bool().Draw(t, "inlined") {
			names.SetInlined(at, n.Method)
		}
	}
	names.SetMapping(m.Meta().Target.BuildID, ccmap.Mapping{File: "/f", Start: 1, Limit: 1 << 40, Offset: 3})
	names.SetMapping("a module of nothing here", ccmap.Mapping{File: "/g", Start: 1, Limit: 2})
}

func drawText(t *rapid.T) string {
	return rapid.SampledFrom([]string{"", "a", "\xff\x00", "…", "main.main"}).Draw(t, "text")
}

func drawMeta(t *rapid.T, pruned ccmap.PruneStats) ccmap.Meta {
	count := func() uint64 { return rapid.Uint64Range(0, 1<<40).Draw(t, "count") }
	m := ccmap.Meta{
		Target: ccmap.Target{PID: int(count()), Executable: drawText(t), CommandLine: []string{drawText(t), "b"}, BuildID: drawText(t), Runtime: drawText(t)},
		Engine: drawText(t), Duration: time.Duration(count()), Ended: drawText(t), Known: count(), Repeated: count(), Pruned: pruned,
		Comments: []string{drawText(t)},
		Interval: []ccmap.IntervalChange{{At: 0, Interval: 1, Reason: drawText(t)}, {At: time.Duration(count()), Interval: 2}},
		Loss: ccmap.Loss{Source: count(), Queue: count(), Throttled: count(), Corrupt: count(), Orphaned: count(), Clock: 1 << 41,
			ClockTick: time.Duration(count()), Unaccounted: time.Duration(count()) - 1<<39},
	}
	if rapid.Bool().Draw(t, "started") {
		m.Start = time.Unix(int64(count())&(1<<36-1), int64(count())%1e9).UTC()
	}
	if rapid.Bool().Draw(t, "unit") {
		m.Unit = ccmap.NewUnit("alloc_space", "bytes")
	}
	if rapid.Bool().Draw(t, "settled") {
		m.Settled = ccmap.Settled{Methods: 99.5, Edges: 12.25, Contexts: 1, Samples: int64(count())}
	}
	if rapid.Bool().Draw(t, "elided") {
		m.Elided = ccmap.Elided{Samples: 3, Least: 4, Most: 5, Uncounted: 1}
	}
	return m
}

func drawPoint(t *rapid.T, methods int) ccmap.Point {
	method := func() ccmap.MethodID { return ccmap.MethodID(rapid.IntRange(0, methods-1).Draw(t, "method")) }
	number := func() int64 { return rapid.Int64Range(0, 5).Draw(t, "number") }
	p := ccmap.Point{
		Origin: ccmap.Origin(rapid.IntRange(0, int(ccmap.OriginVM)).Draw(t, "origin")),
		Kind:   ccmap.PointKind(rapid.IntRange(0, int(ccmap.PointNumber)).Draw(t, "kind")),
		Frozen: rapid.Bool().Draw(t, "frozen"), Method: method(), Offset: uint32(number()), End: uint32(number()), Phase: uint32(number()),
		Count: number(), Other: number(), Aged: number(), Nulls: number() - 2,
	}
	for range rapid.IntRange(0, 3).Draw(t, "callers") {
		p.Callers = append(p.Callers, ccmap.Frame{Method: method(), Offset: uint32(number())})
	}
	if rapid.Bool().Draw(t, "outermost") {
		p.Callers = []ccmap.Frame{}
	}
	for range rapid.IntRange(0, 3).Draw(t, "values") {
		p.Values = append(p.Values, ccmap.PointValue{Value: uint64(method()), Count: number()})
	}
	return p
}

// A delta has the addresses of instructions that were inlined, as far as the map has their positions.
func TestInlinedAddresses(t *testing.T) {
	t.Parallel()
	m := ccmap.New(ccmap.Options{})
	names := m.Names()
	id := func(name string) ccmap.MethodID {
		return names.Intern(ccmap.Method{Name: name, File: "f.go", StartLine: 1})
	}
	outer, inner := id("outer"), id("inner")
	leaf := m.Child(m.Child(m.Child(0, ccmap.NoOffset, outer), 3, inner), 5, ccmap.NoMethod)
	m.Add(leaf, ccmap.Counters{Samples: 1, Time: 1})
	names.SetInlined(ccmap.Frame{Method: outer, Offset: 3}, inner)
	frames := []ccmap.Frame{{Method: inner, Offset: 5}, {Method: outer, Offset: 3}}
	names.SetAddress(frames, false, 4711)
	got, err := decode(AppendDelta(nil, m.Snapshot()))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(names.Addresses(), got.Names().Addresses()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Methods of other maps with the same names are left out.
func TestOtherMethodsAreLeftOut(t *testing.T) {
	t.Parallel()
	names := ccmap.NewNames()
	for i := range 1000 {
		names.Intern(ccmap.Method{Name: fmt.Sprint("other", i)})
	}
	m := ccmap.New(ccmap.Options{Names: names})
	m.Add(m.Child(0, ccmap.NoOffset, names.Intern(ccmap.Method{Name: "own"})), ccmap.Counters{Samples: 1})
	b := whole(m.Snapshot())
	if got, err := decode(b); err != nil || got.Names().Len() != int(ccmap.FirstID)+1 || len(b) > 200 {
		t.Errorf("%d bytes, error %v", len(b), err)
	}
}

// TestMemory: a map is decoded within the memory that its writer has counted, and not within less.
func TestMemory(t *testing.T) {
	t.Parallel()
	for name, m := range map[string]*ccmap.Map{"drawing": profiletest.Drawing(7), "thicket": profiletest.Thicket(1)} {
		b, memory := Append(nil, m.Snapshot())
		got, err := NewDecoder(ccmap.NewNames()).Decode(b, memory)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if took := got.Bytes() + got.Names().Bytes(); took > memory {
			t.Errorf("%s takes %d bytes, and %d were counted", name, took, memory)
		}
		if _, err := NewDecoder(ccmap.NewNames()).Decode(b, memory-1); !errors.Is(err, ErrMemory) {
			t.Errorf("%s in a byte less: %v", name, err)
		}
	}
}

// TestLyingLength: a list that says it is long takes no more memory than its reader may have, before it has elements.
func TestLyingLength(t *testing.T) {
	var meta ccmap.Meta
	var exact bool
	w := &coder{}
	w.bool(&exact)
	w.meta(&meta)
	w.length(8 << 20) // methods
	b := append(w.out, make([]byte, 32<<20)...)
	const most = 1 << 20
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, err := NewDecoder(ccmap.NewNames()).Decode(b, most); err == nil {
		t.Error("no error")
	}
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > 16*most {
		t.Errorf("%d bytes were allocated, where %d may be taken", took, most)
	}
}

// FuzzDecode: any bytes are an error, or a valid map.
func FuzzDecode(f *testing.F) {
	b := whole(profiletest.Drawing(7).Snapshot())
	f.Add(b)
	f.Add(b[:len(b)/2])
	f.Add(AppendDelta(nil, profiletest.Drawing(7).Snapshot()))
	f.Add(whole(profiletest.Thicket(1).Snapshot()))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := NewDecoder(ccmap.NewNames()).Decode(b, 64<<20)
		if err != nil {
			return
		}
		if err := m.CheckValid(); err != nil {
			t.Fatal(err)
		}
		want := m.Snapshot()
		again, err := decode(whole(want))
		if err != nil {
			t.Fatal(err)
		}
		if got, want := again.Snapshot().Total(), want.Total(); got != want {
			t.Fatalf("total %v, want %v", got, want)
		}
	})
}
