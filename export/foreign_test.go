package export

import (
	"bytes"
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
	if !slices.Contains(s.Meta().Comments, "time stands for inuse_space in bytes") {
		t.Errorf("comments %q", s.Meta().Comments)
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

func TestChooseValues(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ types, byDefault, want string }{
		{"samples/count cpu/nanoseconds", "", "0 1"},
		{"cpu/nanoseconds samples/count", "", "-1 0"},
		{"samples/count cpu/nanoseconds activations/count", "cpu", "0 1"},
		{"samples/count cpu/nanoseconds activations/count recent_samples/count recent_time/nanoseconds", "cpu", "0 1"},
		{"samples/count cpu/nanoseconds activations/count recent_samples/count recent_time/nanoseconds", "", "0 1"},
		{"contentions/count delay/nanoseconds", "", "0 1"},
		{"alloc_objects/count alloc_space/bytes inuse_objects/count inuse_space/bytes", "inuse_space", "2 3"},
		{"alloc_objects/count alloc_space/bytes inuse_objects/count inuse_space/bytes", "alloc_space", "0 1"},
		{"goroutine/count", "", "0 0"},
		{"cpu/microseconds wall/seconds", "cpu", "-1 0"},
		{"samples/count cpu/nanoseconds", "samples", "0 1"},
	} {
		var types []valueType
		for _, pair := range strings.Fields(test.types) {
			name, unit, _ := strings.Cut(pair, "/")
			types = append(types, valueType{name, unit})
		}
		v := chooseValues(types, test.byDefault)
		if got := fmt.Sprint(v.samples, v.time); got != test.want {
			t.Errorf("%s, default %q: samples and time are values %s, want %s", test.types, test.byDefault, got, test.want)
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
	if read.Total() != once.Add(once) || len(got.Meta.Interval) != 3 || got.Exact || got.Meta.Target.PID != 4711 {
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
	} {
		in := encodeProfile(t, &profile.Profile{Comments: comments})
		if _, _, err := Read(strings.NewReader(in), ReadOptions{}); err == nil {
			t.Errorf("%q: no error", comments)
		}
	}
}
