package memory

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/perfevent"
	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/sampler/internal/enginetest"
)

// came returns how many requests were counted.
func (s *session) came() (n int64) {
	points, _ := s.Counted()
	for _, p := range points {
		n += p.Count
	}
	return n
}

// awaitCount awaits that the requests are counted anew, and returns how many were, and when. Without counts it returns
// at once.
func (s *session) awaitCount(t *testing.T, counts bool) (n int64, at time.Time) {
	t.Helper()
	_, before := s.Counted()
	for deadline := time.Now().Add(time.Minute); counts; s.await(t, time.Millisecond) {
		if _, now := s.Counted(); now != before {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("no count for a minute")
		}
	}
	return s.came(), time.Now()
}

// isReason reports whether a comment says why requests are not counted.
func isReason(comment string) bool {
	return strings.HasPrefix(comment, ccmap.CommentRequests+"not counted: ")
}

// TestRequests: the time of requests with its parts, what runs included, and their number are what a server measures
// itself.
func TestRequests(t *testing.T) {
	g := enginetest.Start(t, build(t, "serves"))
	s := attach(t, g.PID(), sampler.ProcessOptions{Unit: Wall, Interval: 5 * time.Millisecond, Idle: time.Second})
	counts := true
	for end := time.Now().Add(20 * time.Second); counts && s.came() == 0; s.await(t, 20*time.Millisecond) {
		counts = !slices.ContainsFunc(s.Stats().Files, isReason) && time.Now().Before(end)
	}
	if !counts {
		t.Log(s.Stats().Files)
	}
	s.awaitLook(t, 0) // a first one, since which the next one counts
	g.Proceed(t)
	g.Line(t)
	before, since := s.awaitCount(t, counts)
	s.await(t, 3*time.Second)
	s.awaitLooks(t, 400) // on a busy machine they are far apart
	after, until := s.awaitCount(t, counts)
	g.Proceed(t)
	var from, to int64
	if _, err := fmt.Sscan(g.Line(t), &from, &to); err != nil {
		t.Fatal(err)
	}
	is := make(map[string]int64)
	for range 4 {
		var what string
		var n int64
		if _, err := fmt.Sscan(g.Line(t), &what, &n); err != nil {
			t.Fatal(err)
		}
		is[what] = n
	}
	s.awaitLook(t, to)
	s.end(t)
	s.only(from, to)
	for what, want := range is {
		got := s.cum[what]
		if what == "requests" {
			if !counts {
				continue
			}
			got = int64(float64(after-before) * float64(to-from) / float64(until.Sub(since))) // in the server's time
		}
		t.Logf("%s: %d, by the server itself %d", what, got, want)
		const within = 0.12 // of some 1,500 samples on a busy machine
		if off := math.Abs(float64(got)/float64(want) - 1); off > within {
			t.Errorf("%s: %d, by the server itself %d", what, got, want)
		}
	}
	if s.cum["[running] net/http.serverHandler.ServeHTTP"] == 0 {
		t.Errorf("no request runs: %v", s.flat)
	}
}

// TestPriceIsLate: on a busy machine the breakpoints do not wait for their price, which is measured for seconds there, and
// take it later. A session that ends before says why it has counted nothing.
func TestPriceIsLate(t *testing.T) {
	price := make(chan perfevent.Costs, 1)
	late := func() *entries {
		return &entries{price: price, costs: perfevent.UsualThreadCosts(), switches: process.NewSwitches(os.Getpid())}
	}
	short := late()
	short.tick(1, 1, false)
	short.tick(int64(priceTime), 1, true)
	if short.began != 0 || !slices.ContainsFunc(short.comments(nil), isReason) {
		t.Errorf("began at %d, %q", short.began, short.comments(nil))
	}
	e := late()
	now := int64(1)
	for ; now < int64(priceTime); now += int64(entriesEvery) {
		e.tick(now, now, false)
		if e.began != 0 {
			t.Fatalf("set after %v", time.Duration(now))
		}
	}
	e.tick(now, now, false)
	if e.began == 0 || e.costs != perfevent.UsualThreadCosts() || len(e.comments(nil)) > 0 {
		t.Errorf("began at %d, costs %+v, %q", e.began, e.costs, e.comments(nil))
	}
	measured := perfevent.Costs{Call: time.Millisecond}
	price <- measured
	now += int64(entriesEvery)
	e.tick(now, now, false)
	if e.costs != measured {
		t.Errorf("%+v", e.costs)
	}
}

// TestBeyond: what was not counted is told by the switches of the target's threads, as it answers fewer requests while it
// is stopped at each; by the time, where they tell nothing.
func TestBeyond(t *testing.T) {
	second := int64(time.Second)
	for _, c := range []struct {
		name string
		*entries
		want float64
	}{
		{"a tenth of the time, as many switches", &entries{on: second, onSwitches: 1_000, switches: &process.Switches{Total: 10_000}}, 10.5},
		{"a fifth fewer switches meanwhile", &entries{on: second, onSwitches: 800, switches: &process.Switches{Total: 10_000}}, 12.5 * 1.05},
		{"all the time", &entries{on: 10 * second, onSwitches: 10_000, switches: &process.Switches{Total: 10_000}}, 1.05},
		{"few switches", &entries{on: second, onSwitches: 80, switches: &process.Switches{Total: 1_000}}, 10.5},
		{"many threads", &entries{on: second, onSwitches: 800, costly: true, switches: &process.Switches{Total: 10_000}}, 10.5},
	} {
		e := c.entries
		e.begin, e.began, e.readAt, e.looked = second, 3*second/2, 23*second/2, 23*second/2 // set after half a second
		if got := e.beyond(); math.Abs(got/c.want-1) > 1e-9 {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// TestWindows: calls that come independently tell as much as their number says, those that come in bursts less, and what
// they share with the switches does not count.
func TestWindows(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	const all = 400
	var alone, bursts, shared windows
	a, b, c := 0.0, 0.0, 0.0
	for range all {
		few := 0 // of 200, each in one of two cases
		for range 200 {
			few += r.IntN(2)
		}
		rate := 0.5 + r.Float64()
		a, b, c = a+float64(few), b+100*rate, c+float64(few)*rate
		alone.add(a, 1)
		bursts.add(b, 1)
		shared.add(c, rate)
	}
	// The variance of each is 50 of a mean of 100, so a window tells as much as 200; that of a burst is 833, so it tells as much as 12.
	for _, w := range []struct {
		name string
		windows
		want float64
	}{{"alone", alone, 100 * all}, {"bursts", bursts, 12 * all}, {"shared", shared, 100 * all}} {
		if got := float64(w.independent(0.1)); math.Abs(got/w.want-1) > 0.25 {
			t.Errorf("%s: %v, want %v", w.name, got, w.want)
		}
	}
	var one windows
	one.add(10, 1)
	if n := one.independent(0.1); n != 0 {
		t.Errorf("one window: %d", n)
	}
	one.add(20, 1)
	if n := one.independent(0.1); n != 20 {
		t.Errorf("two that agree: %d", n)
	}
	one.restart() // by another measure
	one.add(30, 1000)
	one.add(40, 1000)
	if n := one.independent(0.1); n != 20 {
		t.Errorf("two that agree after others: %d", n)
	}
}
