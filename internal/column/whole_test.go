package column

import (
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/export"
)

// realProfiles are those of docs/session (Go, WebAssembly, receivers, blocks and branches), recordings of JVMs and of
// allocations, profiles with a window, and the golden files of export.
func realProfiles(t *testing.T) (paths []string) {
	t.Helper()
	for _, pattern := range []string{
		"../../docs/session/*.pb.gz", "../../docs/session/*.xml.zst", "../../cmd/ccmapd/testdata/window/*.pb.gz",
		"../../export/testdata/*.jfr.gz", "../../export/testdata/*.json", "../../export/testdata/*.pb",
	} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: no profiles, error %v", pattern, err)
		}
		paths = append(paths, found...)
	}
	return paths
}

func readFile(t *testing.T, path string) *ccmap.Snapshot {
	t.Helper()
	o := export.ReadOptions{}
	switch name := filepath.Base(path); {
	case strings.HasPrefix(name, "tlab"):
		o.SampleType = "alloc"
	case strings.HasPrefix(name, "asyncwall"):
		o.SampleType = "wall"
	}
	m, _, err := export.ReadFile(path, o)
	if err != nil {
		t.Fatal(err)
	}
	return m.Snapshot()
}

func through(t interface {
	Helper()
	Fatal(...any)
}, s *ccmap.Snapshot) *ccmap.Snapshot {
	t.Helper()
	m, err := decode(whole(s))
	if err != nil {
		t.Fatal(err)
	}
	return m.Snapshot()
}

// TestRealProfiles: whatever JSON keeps of a real profile, columns keep.
func TestRealProfiles(t *testing.T) {
	t.Parallel()
	for _, path := range realProfiles(t) {
		t.Run(strings.TrimPrefix(path, "../../"), func(t *testing.T) {
			t.Parallel()
			want := readFile(t, path)
			if diff := cmp.Diff(lines(toJSON(t, want)), lines(toJSON(t, through(t, want)))); diff != "" {
				t.Errorf("(-want +got):\n%.4000s", diff)
			}
		})
	}
}

func lines(s string) []string { return strings.Split(s, "\n") }

// TestMergesAsJSON: the sum of real profiles is the same, byte for byte, whether all and each sum were JSON or columns.
func TestMergesAsJSON(t *testing.T) {
	t.Parallel()
	byUnit := make(map[ccmap.Unit][]*ccmap.Snapshot)
	for _, path := range realProfiles(t) {
		s := readFile(t, path)
		unit := s.Meta().Unit
		byUnit[unit] = append(byUnit[unit], s)
	}
	viaJSON := func(s *ccmap.Snapshot) *ccmap.Snapshot {
		m, _, err := export.Read(strings.NewReader(toJSON(t, s)), export.ReadOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return m.Snapshot()
	}
	viaColumns := func(s *ccmap.Snapshot) *ccmap.Snapshot { return through(t, s) }
	for unit, all := range byUnit {
		want, got := sum(t, all, viaJSON), sum(t, all, viaColumns)
		if diff := cmp.Diff(lines(want), lines(got)); diff != "" {
			t.Errorf("%d profiles of %s (-want +got):\n%.4000s", len(all), unit, diff)
		}
	}
}

// sum adds up profiles, each and the sum so far restored by a function. It returns the sum as JSON.
func sum(t *testing.T, all []*ccmap.Snapshot, restored func(*ccmap.Snapshot) *ccmap.Snapshot) string {
	t.Helper()
	sum := ccmap.New(ccmap.Options{}).Snapshot()
	for _, s := range all {
		m := ccmap.New(ccmap.Options{})
		for _, part := range []*ccmap.Snapshot{restored(sum), restored(s)} {
			if err := m.Merge(part); err != nil {
				t.Fatal(err)
			}
		}
		sum = m.Snapshot()
	}
	return toJSON(t, sum)
}

// TestWhole: a map with all that a map can have is restored with all of it. The values are drawn by reflection: a field
// that is added to the map's types, and that columns do not keep, fails this test.
func TestWhole(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := drawWhole(t).Snapshot()
		if diff := cmp.Diff(lines(toJSON(t, want)), lines(toJSON(t, through(t, want)))); diff != "" {
			t.Fatalf("JSON (-want +got):\n%s", diff)
		}
		m, err := NewDecoder(want.Names()).Decode(whole(want), plenty) // with the same ids
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(allOf(want), allOf(m.Snapshot()), cmp.AllowUnexported(ccmap.Unit{})); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
	})
}

// everything is all that readers get from a snapshot. That of names is in its JSON.
type everything struct {
	Exact         bool
	Meta          ccmap.Meta
	Nodes, Recent []ccmap.Node
	Edges         []ccmap.PrunedEdge
	Methods       []ccmap.PrunedMethod
	Points        []ccmap.Point
}

func allOf(s *ccmap.Snapshot) everything {
	all := everything{
		Exact: s.ActivationsExact(), Meta: s.Meta(), Nodes: slices.Collect(s.Nodes()), Points: s.Points(),
		Edges: slices.Collect(s.PrunedEdges()), Methods: slices.Collect(s.PrunedMethods()),
	}
	if recent, windowed := s.Recent(); windowed {
		all.Recent = slices.Collect(recent.Nodes())
	}
	return all
}

// TestKnowsAllFields: each field of a snapshot and of its names is one that columns keep, or that is made of others. A
// new one is to be kept by JSON and columns, or has its reason here.
func TestKnowsAllFields(t *testing.T) {
	t.Parallel()
	for of, known := range map[reflect.Type]string{
		reflect.TypeFor[ccmap.Snapshot](): "nodes columns recent evicted points names meta total inexact " +
			"moments " + // which a merge drops, and files of the store have beside the map
			"subtrees links removed window unlabelled index cumulative methods blind", // made when they are asked for
		reflect.TypeFor[ccmap.Names](): "list bodies lines inlined mappings addresses " +
			"mu ids bytes labelled", // made of the list
	} {
		for i := range of.NumField() {
			if name := of.Field(i).Name; !slices.Contains(strings.Fields(known), name) {
				t.Errorf("%v has a field %s that this package does not know", of, name)
			}
		}
	}
}

const (
	wholeMethods = 6
	wholeOffsets = 4
)

// drawWhole draws a map with everything: nodes with and without samples, and positions that names know and the map does
// not have.
func drawWhole(t *rapid.T) *ccmap.Map {
	m := ccmap.New(ccmap.Options{})
	f := filler{t}
	var ids []ccmap.MethodID
	for i := range wholeMethods {
		var method ccmap.Method
		f.fill(reflect.ValueOf(&method).Elem())
		method.Name = fmt.Sprint(method.Name, i)
		ids = append(ids, m.Names().Intern(method))
	}
	f.meta(m, ids)
	f.names(m.Names(), ids)
	f.nodes(m, ids)
	for range rapid.IntRange(0, 3).Draw(t, "pruned") {
		var e ccmap.PrunedEdge
		f.fill(reflect.ValueOf(&e).Elem())
		e.Total.Activations, e.Recent.Activations = 0, 0
		e.Caller, e.Callee = f.method(ids), f.method(ids)
		m.AddPruned(e)
		var p ccmap.PrunedMethod
		f.fill(reflect.ValueOf(&p).Elem())
		p.Method = f.method(ids)
		for _, c := range []*ccmap.Counters{&p.Self, &p.Cumulative, &p.RecentSelf, &p.RecentCumulative} {
			c.Activations = 0
		}
		m.AddPrunedMethod(p)
	}
	for range rapid.IntRange(0, 4).Draw(t, "points") {
		m.AddPoint(f.point(ids))
	}
	m.SetExact(rapid.Bool().Draw(t, "exact"))
	return m
}

type filler struct{ *rapid.T }

// fill sets all fields of a value, to other values than zero.
func (f filler) fill(v reflect.Value) {
	switch v.Interface().(type) {
	case time.Time:
		v.Set(reflect.ValueOf(time.Unix(rapid.Int64Range(1, 1<<33).Draw(f.T, "time"), 0).UTC()))
		return
	case ccmap.Unit:
		v.Set(reflect.ValueOf(ccmap.NewUnit("alloc_space", "bytes")))
		return
	case ccmap.Coordinate:
		v.Set(reflect.ValueOf(ccmap.Coordinate(rapid.IntRange(0, int(ccmap.CoordinateMachine)).Draw(f.T, "coordinate"))))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			f.fill(v.Field(i))
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			f.fill(v.Index(i))
		}
	case reflect.String:
		v.SetString(rapid.SampledFrom([]string{"a", "…", "main.main", "\xff\x01"}).Draw(f.T, "text"))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Float64:
		v.SetFloat(rapid.Float64Range(0.25, 100).Draw(f.T, "share"))
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(rapid.Int64Range(1, 1000).Draw(f.T, "number"))
	case reflect.Uint8:
		v.SetUint(rapid.Uint64Range(1, 200).Draw(f.T, "byte"))
	case reflect.Uint32, reflect.Uint64:
		v.SetUint(rapid.Uint64Range(1, 1000).Draw(f.T, "count"))
	default:
		f.Fatalf("draw a %v: this test does not know how", v.Type())
	}
}

func (f filler) method(ids []ccmap.MethodID) ccmap.MethodID {
	return rapid.SampledFrom(ids).Draw(f.T, "method")
}

func (f filler) offset() uint32 { return rapid.Uint32Range(0, wholeOffsets-1).Draw(f.T, "offset") }

func (f filler) frames(ids []ccmap.MethodID) []ccmap.Frame {
	frames := make([]ccmap.Frame, rapid.IntRange(1, ccmap.MaxPointCallers).Draw(f.T, "frames"))
	for i := range frames {
		frames[i] = ccmap.Frame{Method: f.method(ids), Offset: f.offset()}
	}
	return frames
}

// meta draws the description. A map may have no window.
func (f filler) meta(m *ccmap.Map, ids []ccmap.MethodID) {
	f.fill(reflect.ValueOf(m.Meta()).Elem())
	window := time.Duration(0)
	if rapid.Bool().Draw(f.T, "windowed") {
		window = time.Minute + m.Meta().Window
	}
	m.SetWindow(window)
	m.Meta().Target.BuildID = m.Names().At(ids[0]).Module
}

// names draws what names know of positions.
func (f filler) names(n *ccmap.Names, ids []ccmap.MethodID) {
	for _, id := range ids {
		for offset := range uint32(wholeOffsets) {
			at := ccmap.Frame{Method: id, Offset: offset}
			n.SetLine(at, rapid.Int32Range(1, 100).Draw(f.T, "line"))
			if rapid.Bool().Draw(f.T, "inlined") {
				n.SetInlined(at, f.method(ids))
			}
		}
		var mapping ccmap.Mapping
		f.fill(reflect.ValueOf(&mapping).Elem())
		mapping.Limit += mapping.Start
		n.SetMapping(n.At(id).Module, mapping)
	}
	for range rapid.IntRange(0, 10).Draw(f.T, "addresses") {
		n.SetAddress(f.frames(ids), rapid.Bool().Draw(f.T, "call"), rapid.Uint64Range(1, 1<<40).Draw(f.T, "address"))
	}
}

// nodes draws nodes. Some have no samples, and none below them.
func (f filler) nodes(m *ccmap.Map, ids []ccmap.MethodID) {
	places := []ccmap.NodeID{0}
	for range rapid.IntRange(0, 20).Draw(f.T, "nodes") {
		parent := rapid.SampledFrom(places).Draw(f.T, "parent")
		method := f.method(ids)
		if rapid.Bool().Draw(f.T, "position") {
			method = ccmap.NoMethod
		}
		at := m.Child(parent, f.offset(), method)
		if method != ccmap.NoMethod {
			places = append(places, at)
		}
		if rapid.Bool().Draw(f.T, "bare") || at == 0 {
			continue
		}
		var self, recent ccmap.Counters
		f.fill(reflect.ValueOf(&self).Elem())
		f.fill(reflect.ValueOf(&recent).Elem())
		m.Add(at, self)
		m.AddRecent(at, recent)
	}
}

func (f filler) point(ids []ccmap.MethodID) (p ccmap.Point) {
	f.fill(reflect.ValueOf(&p).Elem())
	p.Origin = ccmap.Origin(rapid.IntRange(0, int(ccmap.OriginVM)).Draw(f.T, "origin"))
	p.Kind = ccmap.PointKind(rapid.IntRange(0, int(ccmap.PointNumber)).Draw(f.T, "kind"))
	p.Method, p.Callers = f.method(ids), f.frames(ids)
	for i := range p.Values {
		p.Values[i].Value = uint64(f.method(ids))
	}
	return p
}
