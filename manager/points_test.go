package manager

import (
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/queue"
	"github.com/ccmapd/ccmapd/valueprof"
)

// caught is a caught call of a callee at a site, in any context or in one.
type caught struct {
	site    ccmap.Frame
	callee  ccmap.MethodID
	any     bool
	callers callers
}

// countsOf counts the caught calls in the points of a snapshot, over all phases. The
// points must have all types.
func countsOf(t interface{ Errorf(string, ...any) }, s *ccmap.Snapshot) map[caught]int64 {
	counts := make(map[caught]int64)
	for _, p := range s.Points() {
		if p.Other != 0 || p.Aged != 0 {
			t.Errorf("calls without a type: %+v", p)
		}
		c := caught{site: ccmap.Frame{Method: p.Method, Offset: p.Offset}, any: p.Callers == nil}
		if !c.any {
			c.callers = callersAt(p.Callers)
		}
		for _, v := range p.Values {
			c.callee = ccmap.MethodID(v.Value)
			counts[c] += v.Count
		}
	}
	return counts
}

func callersAt(frames []ccmap.Frame) (c callers) {
	if n := copy(c[:], frames); n < len(c) {
		c[n].Method = ccmap.NoMethod
	}
	return c
}

// TestCountsOfARunStay: after any sequence of calls, looks and drifts, and with tables
// of any size, the phases of a run add up to all its calls, each in any context and in
// its own.
func TestCountsOfARunStay(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		m := ccmap.New(ccmap.Options{})
		v := newValues(ValueOptions{
			Capacity: rapid.IntRange(1, 4).Draw(r, "capacity"),
			Policy:   rapid.SampledFrom([]valueprof.Policy{valueprof.PolicyDecay, valueprof.PolicyReset, valueprof.PolicyOff}).Draw(r, "policy"),
		}, m.Names(), quiet)
		want := make(map[caught]int64)
		phases, placed := uint32(0), uint64(0)
		for range rapid.IntRange(1, 4).Draw(r, "chunks") {
			for _, s := range drawSamples(r, m.Names()) {
				if v.code.update(); len(s.Frames) > 1 && s.Frames[1].Offset != ccmap.NoOffset && v.code.has(s.Frames[1].Method) {
					c := caught{site: s.Frames[1], callee: s.Frames[0].Method, any: true}
					if int(c.callee) >= m.Names().Len() {
						c.callee = m.Names().Intern(ccmap.Method{Name: ccmap.UnknownName})
					}
					placed++
					want[c]++
					context := v.code.callersOf(s.Frames[2:])
					c.any, c.callers = false, callersAt(context.frames())
					want[c]++
				}
				v.count(&s)
			}
			if rapid.Bool().Draw(r, "look") {
				v.cut()
			}
			if rapid.Bool().Draw(r, "answer") {
				drift := rapid.Bool().Draw(r, "drift")
				if v.assign(drift); drift {
					phases++
				}
			}
		}
		m.SetPoints(ccmap.OriginBurst, v.points())
		s := m.Snapshot()
		if diff := cmp.Diff(want, countsOf(r, s), cmp.AllowUnexported(caught{})); diff != "" {
			r.Errorf("points (-want +got):\n%s", diff)
		}
		if stats := v.stats(); stats.Caught != placed || stats.Lost != 0 || v.phased.phase != phases {
			r.Errorf("%d calls, %d phases: %+v", placed, phases, stats)
		}
		if err := s.CheckValid(); err != nil {
			r.Error(err)
		}
	})
}

// TestChunkBeginsAPhase: the new phase has the calls of the chunk in which the program
// has changed, and later calls.
func TestChunkBeginsAPhase(t *testing.T) {
	t.Parallel()
	names := ccmap.NewNames()
	v := newValues(ValueOptions{}, names, quiet)
	learn := func(target string, n int) {
		for range n {
			v.count(caughtCall(stack(names, target, "site")))
		}
	}
	learn("before", 10)
	v.cut()
	v.assign(false)
	learn("after", 20)
	v.cut()
	learn("after", 3) // during the look
	v.assign(true)
	learn("after", 4)
	got := map[string]int64{}
	for _, p := range v.points() {
		if p.Callers == nil {
			for _, value := range p.Values {
				got[fmt.Sprint(p.Phase, " ", names.At(ccmap.MethodID(value.Value)).Name)] += value.Count
			}
		}
	}
	if diff := cmp.Diff(map[string]int64{"0 before": 10, "1 after": 27}, got); diff != "" {
		t.Errorf("calls by phase (-want +got):\n%s", diff)
	}
}

// TestPhasedPointsAreBounded: with too many points the earlier phases become one. Then
// rare points leave, and their calls are counted as lost.
func TestPhasedPointsAreBounded(t *testing.T) {
	t.Parallel()
	const limit = 32
	names := ccmap.NewNames()
	v := newValues(ValueOptions{MaxPoints: limit}, names, quiet)
	calls := int64(0)
	for phase := range 40 {
		for n := range 5 {
			for range n + 1 {
				v.count(caughtCall(stack(names, "t", fmt.Sprint("site", n), fmt.Sprint("caller", phase/20))))
				calls++
			}
		}
		v.cut()
		v.assign(true)
		sum := int64(0)
		for _, p := range v.points() {
			if p.Callers == nil {
				sum += p.Count
			}
		}
		if stats := v.stats(); stats.Points > limit || sum+int64(stats.Lost) != calls {
			t.Fatalf("phase %d: %d of %d calls: %+v", phase, sum, calls, stats)
		}
	}
	for n := range 300 { // more sites than points
		v.count(caughtCall(stack(names, "t", fmt.Sprint("rare", n))))
		calls++
		v.cut()
		v.assign(false)
	}
	sum := int64(0)
	for _, p := range v.points() {
		if p.Callers == nil {
			sum += p.Count
		}
	}
	if stats := v.stats(); stats.Points > limit || stats.Evicted == 0 || sum+int64(stats.Lost) != calls {
		t.Errorf("%d of %d calls: %+v", sum, calls, stats)
	}
}

// TestJoinedPhasesAreSaid: when phases become one for lack of room, the profile warns
// which, and not before.
func TestJoinedPhasesAreSaid(t *testing.T) {
	t.Parallel()
	point := func(method ccmap.MethodID) []ccmap.Point {
		return []ccmap.Point{{Origin: ccmap.OriginBurst, Method: method, Count: 1, Nulls: ccmap.NullsUnknown}}
	}
	f := phasedPoints{limit: 3}
	for phase, want := range []string{"", "", "", "phases 1 to 3 ", "phases 1 to 3 ", "phases 1 to 5 "} {
		f.chunk = point(7)
		f.assign(phase > 0)
		if got := f.warning(); !strings.Contains(got, want) || want == "" && got != "" {
			t.Errorf("in phase %d: %q, want %q", phase+1, got, want)
		}
	}
	f = phasedPoints{limit: 1}
	for method := range ccmap.MethodID(5) { // all in one phase, which keeps its number
		f.chunk = point(method)
		f.assign(false)
	}
	if got := f.warning(); got != "" || f.evicted == 0 {
		t.Errorf("in one phase: %q, %d evicted", got, f.evicted)
	}
}

// TestSharesOfTypes: streams have few or many types, which change in mid-run. With any
// janitor, the share of every type with 5 % or more is right within a point and three
// standard deviations.
func TestSharesOfTypes(t *testing.T) {
	t.Parallel()
	const calls = 4500
	for _, types := range []int{2, 8, 20, 200} {
		for _, even := range []bool{true, false} {
			for _, policy := range []valueprof.Policy{valueprof.PolicyDecay, valueprof.PolicyReset, valueprof.PolicyOff} {
				t.Run(fmt.Sprintf("types=%d/even=%t/%v", types, even, policy), func(t *testing.T) {
					t.Parallel()
					names := ccmap.NewNames()
					v := newValues(ValueOptions{Policy: policy}, names, quiet)
					shares := make([]map[string]float64, 2)
					for phase := range shares {
						shares[phase] = sharesOf(types, even, fmt.Sprint("phase", phase))
						feed(v, names, shares[phase], calls, uint64(types))
						v.cut()
						v.assign(phase == 1)
					}
					whole := maps.Clone(shares[0])
					for name, share := range shares[1] {
						whole[name] += share
					}
					for name := range whole {
						whole[name] /= 2
					}
					checkShares(t, "the run", names, ccmap.SumPhases(v.points()), whole, 2*calls)
					for phase := range shares {
						of := slices.DeleteFunc(v.points(), func(p ccmap.Point) bool { return p.Phase != uint32(phase) })
						checkShares(t, fmt.Sprint("phase ", phase), names, of, shares[phase], calls)
					}
				})
			}
		}
	}
}

// sharesOf gives types equal shares, or shares by a power law. Half of the types occur
// in any phase.
func sharesOf(types int, even bool, phase string) map[string]float64 {
	shares, sum := make(map[string]float64), 0.0
	for i := range types {
		weight := 1.0
		if !even {
			weight = 1 / float64(i+1)
		}
		name := fmt.Sprint("common.T", i)
		if i%2 == 0 {
			name = fmt.Sprint(phase, ".T", i)
		}
		shares[name] = weight
		sum += weight
	}
	for name := range shares {
		shares[name] /= sum
	}
	return shares
}

// feed catches calls of types with such shares, at one site.
func feed(v *values, names *ccmap.Names, shares map[string]float64, calls int, seed uint64) {
	types := slices.Sorted(maps.Keys(shares))
	rng := rand.New(rand.NewPCG(seed, 1))
	for range calls {
		at := rng.Float64()
		i := 0
		for ; i < len(types)-1 && at >= shares[types[i]]; i++ {
			at -= shares[types[i]]
		}
		v.count(caughtCall(stack(names, types[i], "main.draw", "main.main")))
	}
}

func checkShares(t *testing.T, what string, names *ccmap.Names, points []ccmap.Point, shares map[string]float64, calls int64) {
	t.Helper()
	for _, p := range points {
		if p.Count != calls {
			t.Errorf("%s: %d calls of %d", what, p.Count, calls)
		}
		got := make(map[string]int64)
		for _, value := range p.Values {
			got[names.At(ccmap.MethodID(value.Value)).Name] = value.Count
		}
		for name, share := range shares {
			is := float64(got[name]) / float64(calls)
			if off := math.Abs(is - share); share >= 0.05 && off > 0.01+3*math.Sqrt(share*(1-share)/float64(calls)) {
				t.Errorf("%s: %s has %.1f %%, truly %.1f %%", what, name, 100*is, 100*share)
			}
		}
	}
}

// TestDriftKeepsCaughtCalls: a session whose receivers change in mid-run keeps all
// calls in its report, by phase.
func TestDriftKeepsCaughtCalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newSession(func(_ context.Context, r *queue.Ring, names *ccmap.Names) {
			for n := range 5200 { // 52 s
				types := "old"
				if n >= 2000 {
					types = "new"
				}
				target := fmt.Sprint(types, n%7)
				r.Push(stack(names, "leaf", target, "draw", "main"))
				r.Push(caughtCall(stack(names, target, "draw", "main")))
				time.Sleep(10 * time.Millisecond)
			}
		}).mustRun(t)
		calls := make(map[string]int64)
		for _, p := range r.Snapshot.Points() {
			if p.Callers == nil {
				for _, v := range p.Values {
					name := r.Snapshot.Names().At(ccmap.MethodID(v.Value)).Name
					calls[fmt.Sprint(p.Phase, name[:3])] += v.Count
				}
			}
		}
		if r.Values.Caught != 5200 || calls["0old"]+calls["1old"] != 2000 || calls["1new"] != 3200 || len(calls) > 3 {
			t.Errorf("calls by phase: %v; report: %+v", calls, r.Values)
		}
	})
}

// TestPointsAreKeptOnceASecond: readers that ask all the time get new points once a
// second at most, and all points in the end.
func TestPointsAreKeptOnceASecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSession(func(_ context.Context, r *queue.Ring, names *ccmap.Names) {
			for range 320 {
				r.Push(caughtCall(stack(names, "leaf", "root")))
				time.Sleep(10 * time.Millisecond)
			}
			r.Publish()
			time.Sleep(3 * time.Second)
		})
		m := s.mustStart(t)
		done := make(chan Report)
		go func() {
			r, _ := m.Run(t.Context())
			done <- r
		}()
		counts := make(map[int64]bool)
		var last int64
		for range 6000 {
			for _, p := range m.Snapshot().Points() {
				counts[p.Count], last = true, p.Count
			}
			time.Sleep(time.Millisecond)
		}
		if n := len(counts); n < 3 || n > 6 || last != 320 {
			t.Errorf("%d new sets of points in six seconds, the last of %d samples", n, last)
		}
		r := <-done
		if got := callsOf(t, r.Snapshot); len(got) != 1 {
			t.Errorf("points in the end: %v", got)
		}
	})
}

// TestPointsInTheEnd: the last snapshot has all points.
func TestPointsInTheEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const calls = 100
		s := newSession(func(_ context.Context, r *queue.Ring, names *ccmap.Names) {
			for range calls {
				r.Push(caughtCall(stack(names, "leaf", "root")))
				time.Sleep(10 * time.Millisecond)
			}
		})
		m := s.mustStart(t)
		go func() {
			for range 100 {
				m.Snapshot()
				time.Sleep(10 * time.Millisecond)
			}
		}()
		r, err := m.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got := int64(0)
		for _, n := range callsOf(t, r.Snapshot) {
			got += n
		}
		if got != calls {
			t.Errorf("points have %d calls of %d", got, calls)
		}
	})
}

// The map has the target's own profile as it was read last, samples or not, and keeps the
// points of other origins.
func TestProfileOfTheTarget(t *testing.T) {
	var s *session
	s = newSession(func(_ context.Context, _ *queue.Ring, names *ccmap.Names) {
		method := names.Intern(ccmap.Method{Name: "A.a"})
		point := ccmap.Point{Origin: ccmap.OriginVM, Method: method, Nulls: ccmap.NullsUnknown}
		s.source.count(point, ccmap.Point{Origin: ccmap.OriginVM, Method: method, Offset: 9})
		point.Values = []ccmap.PointValue{{Value: uint64(method), Count: 7}}
		s.source.count(point)
	})
	s.config.Map.AddPoint(ccmap.Point{Origin: ccmap.OriginImported, Kind: ccmap.PointBlock, Count: 3})
	m, err := New(s.config)
	if err != nil {
		t.Fatal(err)
	}
	report, err := m.Run(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[ccmap.Origin]int64)
	for _, p := range report.Snapshot.Points() {
		got[p.Origin] += p.Count
	}
	if want := map[ccmap.Origin]int64{ccmap.OriginImported: 3, ccmap.OriginVM: 7}; !maps.Equal(got, want) {
		t.Errorf("points count %v, want %v", got, want)
	}
	if report.Values.Counted != 1 {
		t.Errorf("the target counts calls at %d sites, want 1", report.Values.Counted)
	}
}
