package memory

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
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
	g.Proceed(t)
	g.Line(t)
	s.drain()
	clear(s.cum)
	clear(s.flat)
	before := s.came()
	s.await(t, 3*time.Second)
	g.Proceed(t)
	after := s.came()
	s.drain()
	is := make(map[string]int64)
	for range 4 {
		var what string
		var n int64
		if _, err := fmt.Sscan(g.Line(t), &what, &n); err != nil {
			t.Fatal(err)
		}
		is[what] = n
	}
	s.end(t)
	for what, want := range is {
		got := s.cum[what]
		if what == "requests" {
			if got = after - before; !counts {
				continue
			}
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
