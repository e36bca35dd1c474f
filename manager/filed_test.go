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

// caught is a caught call: of a callee at a site, in any context or after its callers.
type caught struct {
	site    ccmap.Frame
	callee  ccmap.MethodID
	any     bool
	callers callers
}

// countsOf counts what the points of a snapshot say of caught calls, all phases
// together. Nothing may be without a type.
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

// TestCountsOfARunStay: at any sequence of calls, looks and drifts, and whatever the
// tables have room for, the phases of a run add up to all its calls, each in any
// context and in its own.
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
				v.hit(&s)
			}
			if rapid.Bool().Draw(r, "look") {
				v.cut()
			}
			if rapid.Bool().Draw(r, "answer") {
				drift := rapid.Bool().Draw(r, "drift")
				if v.file(drift); drift {
					phases++
				}
			}
		}
		m.SetPoints(ccmap.OriginBurst, v.points())
		s := m.Snapshot()
		if diff := cmp.Diff(want, countsOf(r, s), cmp.AllowUnexported(caught{})); diff != "" {
			r.Errorf("points (-want +got):\n%s", diff)
		}
		if stats := v.stats(); stats.Caught != placed || stats.Lost != 0 || v.filed.phase != phases {
			r.Errorf("%d calls, %d phases: %+v", placed, phases, stats)
		}
		if err := s.CheckValid(); err != nil {
			r.Error(err)
		}
	})
}

// TestChunkBeginsAPhase: the calls of the chunk in which the program has changed are
// those of the new phase, and calls after it.
func TestChunkBeginsAPhase(t *testing.T) {
	t.Parallel()
	names := ccmap.NewNames()
	v := newValues(ValueOptions{}, names, quiet)
	learn := func(target string, n int) {
		for range n {
			v.hit(hitOf(stack(names, target, "site")))
		}
	}
	learn("before", 10)
	v.cut()
	v.file(false)
	learn("after", 20)
	v.cut()
	learn("after", 3) // while the look goes on
	v.file(true)
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

// TestFiledCallsAreBounded: with too many points the earlier phases become one, then
// rare points go, and their calls are counted.
func TestFiledCallsAreBounded(t *testing.T) {
	t.Parallel()
	const limit = 32
	names := ccmap.NewNames()
	v := newValues(ValueOptions{MaxPoints: limit}, names, quiet)
	calls := int64(0)
	for phase := range 40 {
		for n := range 5 {
			for range n + 1 {
				v.hit(hitOf(stack(names, "t", fmt.Sprint("site", n), fmt.Sprint("caller", phase/20))))
				calls++
			}
		}
		v.cut()
		v.file(true)
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
		v.hit(hitOf(stack(names, "t", fmt.Sprint("rare", n))))
		calls++
		v.cut()
		v.file(false)
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

// TestJoinedPhasesAreSaid: where phases lose their numbers for want of room, the profile
// says which, and not before.
func TestJoinedPhasesAreSaid(t *testing.T) {
	t.Parallel()
	point := func(method ccmap.MethodID) []ccmap.Point {
		return []ccmap.Point{{Origin: ccmap.OriginBurst, Method: method, Count: 1, Nulls: ccmap.NullsUnknown}}
	}
	f := filed{limit: 3}
	for phase, want := range []string{"", "", "", "phases 1 to 3 ", "phases 1 to 3 ", "phases 1 to 5 "} {
		f.chunk = point(7)
		f.file(phase > 0)
		if got := f.warning(); !strings.Contains(got, want) || want == "" && got != "" {
			t.Errorf("in phase %d: %q, want %q", phase+1, got, want)
		}
	}
	f = filed{limit: 1}
	for method := range ccmap.MethodID(5) { // all in one phase, which has its number
		f.chunk = point(method)
		f.file(false)
	}
	if got := f.warning(); got != "" || f.evicted == 0 {
		t.Errorf("in one phase: %q, %d evicted", got, f.evicted)
	}
}

// TestSharesOfTypes: of streams with few and many types, which change in mid-run, the
// share of every type that has 5 % or more is right within a point and three
// deviations of chance, whatever the janitor does.
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
						v.file(phase == 1)
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

// sharesOf gives types equal shares, or those of a power law. Half of the types are
// those of any phase.
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
		v.hit(hitOf(stack(names, types[i], "main.draw", "main.main")))
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

// TestDriftKeepsCaughtCalls: a session whose receivers change in mid-run has all calls
// that its report counts, by phase.
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
				r.Push(hitOf(stack(names, target, "draw", "main")))
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
