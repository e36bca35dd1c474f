package managed

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/internal/compilation"
)

// earlier returns a cached profile of one method, whose call at 3 has reached one target.
func earlier(t *testing.T) *Cached {
	t.Helper()
	names := ccmap.NewNames()
	a, b := names.Intern(ccmap.Method{Name: "a", Body: 7}), names.Intern(ccmap.Method{Name: "b", Body: 8})
	m := ccmap.New(ccmap.Options{Names: names})
	m.AddPoint(ccmap.Point{Origin: ccmap.OriginBurst, Kind: ccmap.PointCall, Method: a, Offset: 3, Values: []ccmap.PointValue{{Value: uint64(b), Count: 100}}})
	text, err := compilation.Append(nil, compilation.Record{Method: compilation.Method{Name: "a", Body: 7}, Level: 4, OSR: compilation.NoOSR})
	if err != nil {
		t.Fatal(err)
	}
	c, err := ReadCached(bytes.NewReader(text), m.Snapshot())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestCachedIsOfTheSameCode: a cached profile is for code with the same hash, or of unknown code.
func TestCachedIsOfTheSameCode(t *testing.T) {
	t.Parallel()
	for body, want := range map[uint64]int{0: 4, 7: 4, 9: 0} {
		p := New(Options{Interval: -1, Cached: earlier(t)})
		a := p.Sink().Names.Intern(ccmap.Method{Name: "a", Body: body})
		level, points := p.Cached(a)
		if level != want || (len(points) == 1) != (want > 0) {
			t.Errorf("code %d: level %d, %v", body, level, points)
		}
		if want > 0 {
			target := p.Sink().Names.At(ccmap.MethodID(points[0].Values[0].Value))
			if points[0].Origin != ccmap.OriginCached || points[0].Method != a || target.Name != "b" || target.Body != 0 {
				t.Errorf("%+v of %+v", points, target)
			}
		}
		if other, _ := p.Cached(p.Sink().Names.Intern(ccmap.Method{Name: "other"})); other != 0 {
			t.Error("a method that was never compiled has a level")
		}
	}
	if level, points := New(Options{Interval: -1}).Cached(0); level != 0 || points != nil {
		t.Error("there is something without a cached profile")
	}
}

// TestFanIn: an inliner learns from how many places the earlier run has called a method. A method of other code, or one
// that was never met, has none, which is not zeros.
func TestFanIn(t *testing.T) {
	t.Parallel()
	m := ccmap.New(ccmap.Options{})
	callee := m.Names().Intern(ccmap.Method{Name: "callee", Body: 7})
	for i := range 30 {
		caller := m.Names().Intern(ccmap.Method{Name: "caller", Body: 9})
		m.Fold(&ccmap.Sample{Frames: []ccmap.Frame{{Method: callee}, {Method: caller, Offset: uint32(i % 3)}}, Weight: 1, Fresh: ccmap.FreshUnknown})
	}
	c, err := ReadCachedProfile(nil, m.Snapshot())
	if err != nil {
		t.Fatal(err)
	}
	for _, is := range []struct {
		ccmap.Method
		places  int
		samples int64
		known   bool
	}{
		{ccmap.Method{Name: "callee", Body: 7}, 3, 30, true}, {ccmap.Method{Name: "callee"}, 3, 30, true}, {ccmap.Method{Name: "caller", Body: 9}, 0, 0, true},
		{ccmap.Method{Name: "callee", Body: 8}, 0, 0, false}, {ccmap.Method{Name: "other"}, 0, 0, false},
	} {
		if places, samples, known := c.FanIn(is.Method); places != is.places || samples != is.samples || known != is.known {
			t.Errorf("%+v: %d places, %d samples, known %v", is, places, samples, known)
		}
	}
	if c, err = ReadCached(strings.NewReader(""), nil); err != nil {
		t.Fatal(err)
	}
	if _, _, known := c.FanIn(ccmap.Method{Name: "callee", Body: 7}); known {
		t.Error("without a profile there is fan-in")
	}
}

// TestCachedNeverCounts: whatever a VM asks of a cached profile, or puts into its map of it, live counters are what
// they are without.
func TestCachedNeverCounts(t *testing.T) {
	t.Parallel()
	for seed := range uint64(50) {
		var texts [2]bytes.Buffer
		for i := range texts {
			o := Options{Interval: -1}
			if i == 1 {
				o.Cached = earlier(t)
			}
			p := New(o)
			names := p.Sink().Names
			a, b, c := names.Intern(ccmap.Method{Name: "a", Body: 7}), names.Intern(ccmap.Method{Name: "b"}), names.Intern(ccmap.Method{Name: "c"})
			m := ccmap.New(ccmap.Options{Names: names})
			th := p.Attach(ThreadOptions{})
			random := rand.New(rand.NewPCG(seed, 0))
			for range 200 {
				s := ccmap.Sample{Frames: []ccmap.Frame{{Method: a, Offset: 3}}, Weight: 1 + random.Int64N(9), Thread: 1, Fresh: ccmap.FreshUnknown}
				m.Fold(&s)
				to := []ccmap.MethodID{b, c}[random.IntN(2)]
				m.AddPoint(ccmap.Point{Origin: ccmap.OriginBurst, Kind: ccmap.PointCall, Method: a, Offset: 3, Values: []ccmap.PointValue{{Value: uint64(to), Count: 1}}})
				_, points := p.Cached(a)
				for _, q := range points {
					m.AddPoint(q)
				}
				m.SetPoints(ccmap.OriginCached, points)
				th.Deoptimized(a)
				p.Look(m.Snapshot())
			}
			if err := export.Write(&texts[i], export.JSON, m.Snapshot()); err != nil {
				t.Fatal(err)
			}
		}
		if !bytes.Equal(texts[0].Bytes(), texts[1].Bytes()) {
			t.Fatalf("seed %d: the profiles differ:\n%s\n%s", seed, texts[0].String(), texts[1].String())
		}
	}
}

// TestLookCountsMismatches: a look counts a mismatch where a site has 30 calls more, of which the receiver of the
// cached profile has less than half. Ten are the end.
func TestLookCountsMismatches(t *testing.T) {
	t.Parallel()
	p := New(Options{Interval: -1, Cached: earlier(t)})
	names := p.Sink().Names
	a, b, c := names.Intern(ccmap.Method{Name: "a"}), names.Intern(ccmap.Method{Name: "b"}), names.Intern(ccmap.Method{Name: "c"})
	m := ccmap.New(ccmap.Options{Names: names})
	add := func(to ccmap.MethodID, n int64) {
		m.AddPoint(ccmap.Point{Origin: ccmap.OriginBurst, Kind: ccmap.PointCall, Method: a, Offset: 3, Values: []ccmap.PointValue{{Value: uint64(to), Count: n}}})
	}
	look := func(wrong int, out bool) {
		t.Helper()
		got := p.Look(m.Snapshot())
		if r, _ := p.cached.records.Find(methodOf(names, a)); r.Wrong != wrong || (len(got) == 1) != out {
			t.Fatalf("wrong %d times, want %d; out of use: %v", r.Wrong, wrong, got)
		}
	}
	add(b, 1000)
	look(0, false)
	add(c, 29)
	look(0, false) // too few
	add(c, 1)
	look(1, false)
	look(1, false) // no new calls
	add(b, 20)
	add(c, 20)
	look(1, false) // half is not less than half
	for i := 2; i <= compilation.MostWrong; i++ {
		add(c, 30)
		look(i, i == compilation.MostWrong)
	}
	if level, _ := p.Cached(a); level != 0 {
		t.Error("it is used after ten mismatches")
	}
	add(c, 30)
	look(compilation.MostWrong, false)
}

// failing fails at its second write.
type failing struct {
	bytes.Buffer
	writes int
}

func (f *failing) Write(b []byte) (int, error) {
	if f.writes++; f.writes > 1 {
		return 0, errors.New("disk full")
	}
	return f.Buffer.Write(b)
}

// TestRecordsOfCompiledMethods: levels with a profile leave records. After an error in writing there are no more.
func TestRecordsOfCompiledMethods(t *testing.T) {
	t.Parallel()
	log := new(failing)
	p := New(Options{Interval: -1, Records: log})
	a := p.Sink().Names.Intern(ccmap.Method{Name: "a", Signature: "()"})
	th := p.Attach(ThreadOptions{})
	th.Compiled(a, 2, nil)
	for range 3 {
		th.Compiled(a, 4, []Inlined{{Caller: a, Callee: a, Offset: 9, Inlined: true, Why: "small"}})
	}
	l, err := compilation.Read(&log.Buffer)
	if err != nil || len(l.Records) != 1 || log.writes != 2 || l.Records[0].Level != 4 || l.Records[0].Calls[0] != (compilation.Call{Caller: "a()", Callee: "a()", Offset: 9, Inlined: true, Words: "small"}) {
		t.Errorf("%d writes, %+v, %v", log.writes, l, err)
	}
	if th.Deoptimized(a) {
		t.Error("a method without a cached profile is out of use")
	}
	if _, err := ReadCached(strings.NewReader("no log at all\n"), nil); err != nil {
		t.Errorf("damage is an error: %v", err)
	}
}

// TestThresholdIsAsked: methods with a cached profile, and no others, have the threshold that the VM says.
func TestThresholdIsAsked(t *testing.T) {
	t.Parallel()
	p := New(Options{Interval: -1, Cached: earlier(t)})
	q := New(Options{Interval: -1, Cached: earlier(t), Threshold: func(ccmap.MethodID) float64 { return 0.5 }})
	for _, one := range []*Profiler{p, q} {
		a, other := one.Sink().Names.Intern(ccmap.Method{Name: "a"}), one.Sink().Names.Intern(ccmap.Method{Name: "other"})
		want := DefaultScale
		if one == q {
			want = 0.5
		}
		if one.Threshold(a) != want || one.Threshold(other) != 1 {
			t.Errorf("%v, others %v", one.Threshold(a), one.Threshold(other))
		}
	}
}
