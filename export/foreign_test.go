package export

import (
	"bytes"
	"errors"
	"fmt"
	"runtime/pprof"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/pprof/profile"

	"github.com/ccmapd/ccmapd/ccmap"
)

// fib is a workload that a CPU profile finds.
func fib(n int) int {
	if n < 2 {
		return n
	}
	return fib(n-1) + fib(n-2)
}

// runtime/pprof allows one CPU profile at a time, so this test is not parallel.
func TestReadCPUProfileOfRuntime(t *testing.T) {
	var b bytes.Buffer
	if err := pprof.StartCPUProfile(&b); err != nil {
		t.Skip(err)
	}
	sum := 0
	for deadline := time.Now().Add(300 * time.Millisecond); time.Now().Before(deadline); {
		sum += fib(25)
	}
	pprof.StopCPUProfile()
	peer, err := profile.ParseData(bytes.Clone(b.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	s := decode(t, b.String())
	var want ccmap.Counters
	for _, sample := range peer.Sample {
		want = want.Add(ccmap.Counters{Samples: sample.Value[0], Time: sample.Value[1]})
	}
	const name = "github.com/ccmapd/ccmapd/export.fib"
	if !slices.ContainsFunc(peer.Function, func(f *profile.Function) bool { return f.Name == name }) {
		t.Skipf("the machine gave the profile no sample of fib, %d", sum)
	}
	if s.Total() != want {
		t.Errorf("total %v, want %v", s.Total(), want)
	}
	if len(s.Meta().Interval) != 1 || s.Meta().Interval[0].Interval != 10*time.Millisecond || s.Meta().Start.IsZero() {
		t.Errorf("meta %+v", s.Meta())
	}
	wantFrame(t, s, name)
}

// wantFrame fails unless the method stands in the map, with a start line and
// called from a known line.
func wantFrame(t *testing.T, s *ccmap.Snapshot, name string) {
	t.Helper()
	for n := range s.Nodes() {
		if n.ID == 0 || n.IsPosition() || s.Names().At(n.Method).Name != name {
			continue
		}
		if m := s.Names().At(n.Method); m.StartLine == 0 || m.File == "" || n.Offset > 1000 {
			t.Errorf("called at +%d: %+v", n.Offset, m)
		}
		return
	}
	t.Errorf("no frame of %s", name)
}

func TestReadHeapProfileOfRuntime(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	if err := pprof.Lookup("heap").WriteTo(&b, 0); err != nil {
		t.Fatal(err)
	}
	peer, err := profile.ParseData(bytes.Clone(b.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	var want ccmap.Counters // inuse_objects and inuse_space
	for _, sample := range peer.Sample {
		want = want.Add(ccmap.Counters{Samples: sample.Value[2], Time: sample.Value[3]})
	}
	s := decode(t, b.String())
	if s.Total() != want {
		t.Errorf("total %v, want %v", s.Total(), want)
	}
	if u := s.Meta().Unit; u != ccmap.NewUnit("inuse_space", "bytes") {
		t.Errorf("unit %v", u)
	}
}

func encodeProfile(t *testing.T, p *profile.Profile) string {
	t.Helper()
	var b bytes.Buffer
	if err := p.Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// Inlined calls, code without symbols, functions without start lines.
func TestReadLocations(t *testing.T) {
	t.Parallel()
	outer := &profile.Function{ID: 1, Name: "outer", StartLine: 10, Filename: "x.go"}
	inner := &profile.Function{ID: 2, SystemName: "_Zinner"}
	program := &profile.Mapping{ID: 1, File: "/bin/x", BuildID: "b", Start: 0x1000, Limit: 0x2000, Offset: 0x400}
	unnamed := &profile.Mapping{ID: 2, Start: 0x3000, Limit: 0x4000}
	inlined := &profile.Location{ID: 1, Mapping: program, Address: 0x1100, Line: []profile.Line{{Function: inner, Line: 5}, {Function: outer, Line: 12}}}
	bare := &profile.Location{ID: 2, Mapping: program, Address: 0x1234}
	lost := &profile.Location{ID: 3, Mapping: unnamed, Address: 0x3001}
	p := &profile.Profile{
		SampleType: []*profile.ValueType{{Type: "samples", Unit: "count"}, {Type: "cpu", Unit: "milliseconds"}},
		Function:   []*profile.Function{outer, inner},
		Mapping:    []*profile.Mapping{program, unnamed},
		Location:   []*profile.Location{inlined, bare, lost},
		Sample: []*profile.Sample{
			{Location: []*profile.Location{bare, inlined}, Value: []int64{1, 2}},
			{Location: []*profile.Location{inlined, lost}, Value: []int64{3, 4}},
			{Value: []int64{5, 6}},
		},
		Comments: []string{"by hand"},
	}
	s := decode(t, encodeProfile(t, p))
	want := map[string]ccmap.Counters{
		`/-1 "outer" ""/2 "_Zinner" ""/4 "x+0x634" ""`:      {Samples: 1, Time: 2e6},
		`/-1 "[unknown]" ""/-1 "outer" ""/2 "_Zinner" ""/4`: {Samples: 3, Time: 4e6},
		`/-1 "[unknown]" ""`:                                {Samples: 5, Time: 6e6},
	}
	got := contentOf(s)
	if diff := cmp.Diff(want, got.counted(func(c ccmap.Counters) ccmap.Counters { return c })); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if m := got.Methods[[2]string{"outer", ""}]; m.Module != "b" || m.StartLine != 10 || m.File != "x.go" {
		t.Errorf("outer is %+v", m)
	}
	if got.Meta.Target.Executable != "/bin/x" || !slices.Equal(got.Meta.Comments, []string{"by hand"}) {
		t.Errorf("meta %+v", got.Meta)
	}
}

// The weight is what 'go tool pprof' shows, unless another is asked for.
func TestChooseValues(t *testing.T) {
	t.Parallel()
	const heap = "alloc_objects/count alloc_space/bytes inuse_objects/count inuse_space/bytes"
	const ours = "samples/count cpu/nanoseconds activations/count recent_samples/count recent_time/nanoseconds"
	for _, test := range []struct{ types, byDefault, asked, want string }{
		{"samples/count cpu/nanoseconds", "", "", "0 1 cpu/nanoseconds"},
		{"cpu/nanoseconds samples/count", "", "", "1 1 samples/count"},
		{"cpu/nanoseconds samples/count", "", "cpu", "-1 0 cpu/nanoseconds"},
		{ours, "cpu", "", "0 1 cpu/nanoseconds"},
		{ours, "", "", "3 4 recent_time/nanoseconds"},
		{ours, "", "cpu", "0 1 cpu/nanoseconds"},
		{"contentions/count delay/nanoseconds", "", "", "0 1 delay/nanoseconds"},
		{"contentions/count delay/nanoseconds", "", "contentions", "0 0 contentions/count"},
		{heap, "inuse_space", "", "2 3 inuse_space/bytes"},
		{heap, "alloc_space", "", "0 1 alloc_space/bytes"},
		{heap, "alloc_space", "inuse_objects", "2 2 inuse_objects/count"},
		{"goroutine/count", "", "", "0 0 goroutine/count"},
		{"cpu/microseconds wall/seconds", "cpu", "", "-1 0 cpu/nanoseconds"},
		{"samples/count time/seconds", "gone", "", "0 1 time/nanoseconds"},
		{"samples/count cpu/nanoseconds", "samples", "", "0 0 samples/count"},
	} {
		v, err := valueTypes{list: valueTypesOf(test.types), byDefault: test.byDefault}.choose(test.asked)
		if got := fmt.Sprint(v.self[ccmap.CounterSamples], v.self[ccmap.CounterTime], v.unit); err != nil || got != test.want {
			t.Errorf("%s, default %q, asked for %q: samples, weight and unit %s, want %s; %v", test.types, test.byDefault, test.asked, got, test.want, err)
		}
	}
	if _, err := (valueTypes{list: valueTypesOf(heap)}).choose("cpu"); !errors.Is(err, ErrSampleType) || !strings.Contains(err.Error(), `"alloc_space"`) {
		t.Errorf("cpu of a heap profile: %v", err)
	}
}

// valueTypesOf parses pairs of a kind and a unit.
func valueTypesOf(pairs string) (types []valueType) {
	for _, pair := range strings.Fields(pairs) {
		kind, unit, _ := strings.Cut(pair, "/")
		types = append(types, valueType{kind, unit})
	}
	return types
}

// A profile of ours keeps its order, whatever its unit and its default are.
func TestChooseOurValues(t *testing.T) {
	t.Parallel()
	for types, want := range map[string]string{
		"samples/count cpu/nanoseconds activations/count":                                                       "[0 1 2] [-1 -1 -1] cpu/nanoseconds",
		"samples/count samples/count activations/count":                                                         "[0 1 2] [-1 -1 -1] samples/count",
		"samples/count activations/count activations/count recent_samples/count recent_activations/count":       "[0 1 2] [3 4 -1] activations/count",
		"samples/count wait/microseconds activations/count recent_samples/count recent_wait/microseconds":       "[0 1 2] [3 4 -1] wait/microseconds",
		"samples/count recent_samples/count activations/count recent_samples/count recent_recent_samples/count": "[0 1 2] [3 4 -1] recent_samples/count",
	} {
		v, err := valueTypes{valueTypesOf(types), "samples", true}.choose("")
		if got := fmt.Sprint(v.self, v.recent, v.unit); err != nil || got != want || v.scale != 1 {
			t.Errorf("%s: %s, scale %d, want %s; %v", types, got, v.scale, want, err)
		}
	}
}

// A sample type may be asked for; formats of one kind have no other.
func TestReadAsksForSampleType(t *testing.T) {
	t.Parallel()
	for _, f := range []Format{Pprof, XML, JSON} {
		data := encode(t, f, small().Snapshot())
		if _, _, err := Read(strings.NewReader(data), ReadOptions{SampleType: "alloc_space"}); !errors.Is(err, ErrSampleType) {
			t.Errorf("%v: %v", f, err)
		}
		if m, _, err := Read(strings.NewReader(data), ReadOptions{SampleType: "cpu"}); err != nil || m.Meta().Unit != ccmap.CPUTime {
			t.Errorf("%v: %v", f, err)
		}
	}
	m, _, err := Read(strings.NewReader(encode(t, Pprof, small().Snapshot())), ReadOptions{SampleType: "samples"})
	if err != nil {
		t.Fatal(err)
	}
	if total := m.Snapshot().Total(); m.Meta().Unit != ccmap.SampleCount || total.Time != total.Samples {
		t.Errorf("by samples: %v, total %v", m.Meta().Unit, total)
	}
}

// Nobody says the unit of another tool's stacks; ours are in ns.
func TestUnitOfFolded(t *testing.T) {
	t.Parallel()
	for data, want := range map[string]ccmap.Unit{
		"main;f 7\n":        ccmap.SampleCount,
		"main+1;f+2 7\n":    ccmap.CPUTime,
		"a+1 7\nmain;f 7\n": ccmap.SampleCount,
	} {
		if got := decode(t, data).Meta().Unit; got != want {
			t.Errorf("%q: %v, want %v", data, got, want)
		}
	}
}

func TestReadRefusesDifferenceProfiles(t *testing.T) {
	t.Parallel()
	f := &profile.Function{ID: 1, Name: "f"}
	l := &profile.Location{ID: 1, Line: []profile.Line{{Function: f}}}
	p := &profile.Profile{
		SampleType: []*profile.ValueType{{Type: "cpu", Unit: "seconds"}},
		Function:   []*profile.Function{f},
		Location:   []*profile.Location{l},
	}
	for value, want := range map[int64]string{-1: "negative count", 1 << 40: "more than 2⁶³-1 ns"} {
		p.Sample = []*profile.Sample{{Location: []*profile.Location{l}, Value: []int64{value}}}
		_, _, err := Read(strings.NewReader(encodeProfile(t, p)), ReadOptions{})
		if err == nil || !strings.Contains(err.Error(), "sample 0: "+want) {
			t.Errorf("value %d: %v", value, err)
		}
	}
}

// pprof -proto merges: lists of the comments are joined, of the rest the first
// is taken.
func TestReadMergedProfile(t *testing.T) {
	t.Parallel()
	second := small()
	second.Meta().Interval[0].Reason = "second"
	second.SetExact(false)
	var parts []*profile.Profile
	for _, s := range []*ccmap.Snapshot{small().Snapshot(), second.Snapshot()} {
		p, err := profile.ParseData([]byte(encode(t, Pprof, s)))
		if err != nil {
			t.Fatal(err)
		}
		parts = append(parts, p)
	}
	merged, err := profile.Merge(parts)
	if err != nil {
		t.Fatal(err)
	}
	merged.Comments = append(merged.Comments, "a note")
	read, once := decode(t, encodeProfile(t, merged)), small().Snapshot().Total()
	got := contentOf(read)
	if read.Total() != once.Add(once) || len(got.Meta.Interval) != 4 || got.Exact || got.Meta.Target.PID != 4711 {
		t.Errorf("total %v of twice %v, meta %+v, exact %t", read.Total(), once, got.Meta, got.Exact)
	}
	if last := len(got.Meta.Comments) - 1; last < 0 || got.Meta.Comments[last] != "a note" {
		t.Errorf("comments %q", got.Meta.Comments)
	}
}

func TestReadRefusesBrokenComments(t *testing.T) {
	t.Parallel()
	for _, comments := range [][]string{
		{"ccmapd version 2"},
		{"ccmapd version x"},
		{"ccmapd version 1", "ccmapd start 5"},
		{"ccmapd version 1", "ccmapd intervals {"},
		{`ccmapd {"version":1,"start":5}`},
		{`ccmapd {"version":2}`},
	} {
		in := encodeProfile(t, &profile.Profile{Comments: comments})
		if _, _, err := Read(strings.NewReader(in), ReadOptions{}); err == nil {
			t.Errorf("%q: no error", comments)
		}
	}
}

// TestFewComments: go tool pprof prints all of them above every report. All comments
// come back, however many there are.
func TestFewComments(t *testing.T) {
	t.Parallel()
	for _, comments := range [][]string{
		nil, {"one"}, {"a", "b", "c", "d"}, {"a", "b", "c", "d", "e", "f"}, {"ccmapd version 2"}, {"two\nlines"}, {"\xff"}, {""},
	} {
		m := small()
		for range 20 {
			m.Meta().Interval = append(m.Meta().Interval, ccmap.IntervalChange{Interval: time.Second, Reason: "a test"})
		}
		m.Meta().Comments = comments
		data := encode(t, Pprof, m.Snapshot())
		p, err := profile.ParseData([]byte(data))
		if err != nil {
			t.Fatal(err)
		}
		if len(p.Comments) > 5 {
			t.Errorf("%q: %d comments", comments, len(p.Comments))
		}
		if got := decode(t, data).Meta(); !slices.Equal(got.Comments, comments) || len(got.Interval) != len(m.Meta().Interval) {
			t.Errorf("comments %q of %q; %d intervals", got.Comments, comments, len(got.Interval))
		}
	}
}
