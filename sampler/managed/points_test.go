package managed_test

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/sampler/managed"
)

const allPoints = managed.Branches | managed.Types | managed.Values

// newCounting returns a profiler without a marker that counts points.
func newCounting(points managed.Points) *managed.Profiler {
	return managed.New(managed.Options{Interval: -1, Points: points})
}

func named(p *managed.Profiler, name string) ccmap.MethodID {
	return p.Sink().Names.Intern(ccmap.Method{Name: name, Receiver: name, Coordinate: ccmap.CoordinateBytecode})
}

// counted returns the points of a profiler that has ended, as a map has them.
func counted(t *testing.T, p *managed.Profiler) []ccmap.Point {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if _, err := p.Run(ctx); err != nil {
		t.Fatal(err)
	}
	list, _ := p.Counted()
	m := ccmap.New(ccmap.Options{Names: p.Sink().Names})
	m.SetPoints(ccmap.OriginVM, list)
	if err := m.Snapshot().CheckValid(); err != nil {
		t.Error(err)
	}
	return m.Snapshot().Points()
}

// Each kind of point has its values, and counts all of them.
func TestPoints(t *testing.T) {
	t.Parallel()
	p := newCounting(allPoints)
	f, circle, square := named(p, "f"), named(p, "Circle"), named(p, "Square")
	at := func(offset uint32) ccmap.Frame { return ccmap.Frame{Method: f, Offset: offset} }
	branch, choice := p.Site(ccmap.PointBranch, at(1)), p.Site(ccmap.PointSwitch, at(2))
	block, check, number := p.Site(ccmap.PointBlock, at(3)), p.Site(ccmap.PointType, at(4)), p.Site(ccmap.PointNumber, at(5))
	never := p.Site(ccmap.PointBranch, at(6))
	if again := p.Site(ccmap.PointBranch, at(1)); again != branch || never == branch {
		t.Errorf("sites %d, %d and %d", branch, again, never)
	}
	thread := p.Attach(managed.ThreadOptions{})
	for i := range 100 {
		thread.Branch(branch, i%4 > 0)
		thread.Switch(choice, []uint32{10, 20, 30}[i%10/4])
		thread.Block(block)
		thread.Type(check, []ccmap.MethodID{circle, circle, square, ccmap.NoMethod}[i%4])
		thread.Value(number, int64(i%2)-1)
	}
	thread.Detach()
	want := func(k ccmap.PointKind, offset uint32, nulls int64, values ...ccmap.PointValue) ccmap.Point {
		return ccmap.Point{Origin: ccmap.OriginVM, Kind: k, Method: f, Offset: offset, End: offset, Count: 100, Values: values, Nulls: nulls}
	}
	minusOne := int64(-1)
	if d := cmp.Diff([]ccmap.Point{
		want(ccmap.PointBlock, 3, -1),
		want(ccmap.PointBranch, 1, -1, ccmap.PointValue{Value: 1, Count: 75}, ccmap.PointValue{Value: 0, Count: 25}),
		want(ccmap.PointSwitch, 2, -1, ccmap.PointValue{Value: 10, Count: 40}, ccmap.PointValue{Value: 20, Count: 40}, ccmap.PointValue{Value: 30, Count: 20}),
		want(ccmap.PointType, 4, 25, ccmap.PointValue{Value: uint64(circle), Count: 50}, ccmap.PointValue{Value: uint64(square), Count: 25}),
		want(ccmap.PointNumber, 5, -1, ccmap.PointValue{Value: 0, Count: 50}, ccmap.PointValue{Value: uint64(minusOne), Count: 50}),
	}, counted(t, p)); d != "" {
		t.Errorf("points (-want +got):\n%s", d)
	}
}

// Without Options.Points, and for kinds that are not asked for, there is no site, and
// counting there does nothing. So does a site that the profiler has never given.
func TestPointsOff(t *testing.T) {
	t.Parallel()
	for _, points := range []managed.Points{0, managed.Calls, managed.Branches, managed.Types, managed.Values, allPoints} {
		p := newCounting(points)
		thread := p.Attach(managed.ThreadOptions{})
		for kind, of := range map[ccmap.PointKind]managed.Points{
			ccmap.PointCall: 0, ccmap.PointThrown: 0, 99: 0, ccmap.PointBranch: managed.Branches, ccmap.PointSwitch: managed.Branches,
			ccmap.PointBlock: managed.Branches, ccmap.PointType: managed.Types, ccmap.PointNumber: managed.Values,
		} {
			s := p.Site(kind, ccmap.Frame{Method: 0, Offset: uint32(kind)})
			if want := points&of != 0; (s != 0) != want || kind != ccmap.PointCall && p.Counts(kind) != want {
				t.Errorf("points %b, %v: site %d, counted: %v", points, kind, s, p.Counts(kind))
			}
			if s == 0 {
				thread.Branch(s, true)
				thread.Type(s, ccmap.NoMethod)
			}
		}
		thread.Value(1<<31, 1)
		thread.Type(1<<32-1, ccmap.NoMethod)
		thread.Detach()
		if got := counted(t, p); len(got) > 0 {
			t.Errorf("points %b: %+v", points, got)
		}
		if calls := points == 0 || points&managed.Calls != 0; p.Counts(ccmap.PointCall) != calls {
			t.Errorf("points %b: calls are counted: %v", points, !calls)
		}
	}
}

// A thread gives its counts away at a safe point with a mark, when it parks, when it is
// detached and when it is collected, and not before.
func TestPointsAtSafepoints(t *testing.T) {
	t.Parallel()
	p := newCounting(managed.Branches)
	s := p.Site(ccmap.PointBlock, ccmap.Frame{})
	g := attachDeep(p, 1)
	sum := func() (n int64) {
		p.Mark(0) // a list is made again after a second: look at the version
		_, version := p.Counted()
		return int64(version)
	}
	g.Block(s)
	if n := sum(); n != 0 {
		t.Errorf("version %d before a safe point", n)
	}
	g.Safepoint(g) // marked, and asked by Counted
	if n := sum(); n == 0 {
		t.Error("nothing after a safe point")
	}
	g.Detach()
}

// Counts of all threads add up, while they are merged, parked, detached and collected.
func TestPointsHammer(t *testing.T) {
	t.Parallel()
	p := managed.New(managed.Options{Interval: managed.MinInterval, Points: managed.Branches})
	ctx, stop := context.WithCancel(t.Context())
	var marker, threads sync.WaitGroup
	marker.Go(func() { p.Run(ctx) })
	const sites, rounds = 200, 2000
	all := make([]managed.Site, sites)
	for i := range all {
		all[i] = p.Site(ccmap.PointBranch, ccmap.Frame{Offset: uint32(i)})
	}
	for n := range 8 {
		threads.Go(func() {
			g := attachDeep(p, 1)
			for i := range rounds {
				for k, s := range all[:sites/2] {
					g.Branch(s, k%2 == 0)
				}
				g.Branch(all[sites/2+i%(sites/2)], true)
				g.Safepoint(g)
				if i%50 == n {
					g.Park()
					p.Counted()
					runtime.Gosched()
					g.Unpark()
				}
			}
			g.Detach()
		})
	}
	threads.Wait()
	stop()
	marker.Wait()
	list, _ := p.Counted()
	if len(list) != sites {
		t.Fatalf("%d points", len(list))
	}
	for _, q := range list {
		want, value := int64(8*rounds), uint64(1)
		if q.Offset >= sites/2 {
			want /= sites / 2
		} else if q.Offset%2 == 1 {
			value = 0
		}
		if q.Count != want || len(q.Values) != 1 || q.Values[0] != (ccmap.PointValue{Value: value, Count: want}) {
			t.Errorf("site %d: %+v, want %d", q.Offset, q, want)
		}
	}
}

// The marker takes the counts of a parked thread, and a collected thread leaves its own.
func TestPointsOfResting(t *testing.T) {
	t.Parallel()
	p := newCounting(managed.Branches)
	s := p.Site(ccmap.PointBlock, ccmap.Frame{Offset: 1})
	parked := p.Attach(managed.ThreadOptions{})
	parked.Block(s)
	parked.Park()
	func() {
		forgotten := p.Attach(managed.ThreadOptions{})
		forgotten.Block(s)
	}()
	for deadline := time.Now().Add(time.Minute); p.Stats().Threads > 1 && time.Now().Before(deadline); {
		runtime.GC()
	}
	if got := counted(t, p); len(got) != 1 || got[0].Count != 2 {
		t.Errorf("%+v", got)
	}
	parked.Unpark()
	parked.Block(s)
	parked.Detach()
	if list, _ := p.Counted(); len(list) != 1 || list[0].Count != 3 {
		t.Errorf("after Unpark: %+v", list)
	}
}
