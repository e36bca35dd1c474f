package perf

import (
	"context"
	"fmt"
	"github.com/ccmapd/ccmapd/sampler/internal/enginetest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/perfevent"
	"github.com/ccmapd/ccmapd/queue"
	"github.com/ccmapd/ccmapd/sampler"
)

// TestNoDescriptorsLeft runs before the tests that are parallel.
func TestNoDescriptorsLeft(t *testing.T) {
	path := enginetest.Build(t, "workload")
	sampleWhole(t, Options{Interval: time.Millisecond}, path, "busy", "50") // opens what the runtime keeps
	before := descriptors(t)
	sampleWhole(t, Options{Interval: time.Millisecond}, path, "threads", "8")
	// Bursts follow each other at once: the target ends within one.
	catchCalls(t, enginetest.Build(t, "receivers"), Options{HitBudget: 1e9}, 100, "bimorphic", "2")
	sink := sampler.Sink{Queue: queue.New(queue.Options{}), Names: ccmap.NewNames()}
	if _, err := Open(context.Background(), Options{PID: 1 << 30, Sink: sink}); err == nil {
		t.Error("attached to nothing")
	}
	g := enginetest.Start(t, path, "calls", "1", "1")
	open := descriptors(t)
	s, _ := attach(t, g.PID(), Options{})
	s.Close()
	r := NewRings(RingOptions{})
	for range 3 {
		s, _ := enginetest.Attach(t, r.Open, g.PID(), Options{})
		s.Close()
	}
	r.Close()
	if after := descriptors(t); after != open {
		t.Errorf("%d descriptors before Open and Close, %d after", open, after)
	}
	if n := r.files.open.Load(); n != 0 {
		t.Errorf("%d descriptors are counted without sources", n)
	}
	g.Proceed(t)
	g.Wait(t)
	if after := descriptors(t); after != before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
}

// descriptors counts the open files of this process. A read that hung keeps its file of
// the test program until its thread ends, which may be now.
func descriptors(t *testing.T) int {
	t.Helper()
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, name := range names {
		if file, _ := os.Readlink("/proc/self/fd/" + name.Name()); filepath.Base(file) != "hangs" {
			n++
		}
	}
	return n
}

// TestLostEnd: a thread whose end no record told of is forgotten all the same.
func TestLostEnd(t *testing.T) {
	t.Parallel()
	g := enginetest.Start(t, enginetest.Build(t, "workload"), "calls", "1", "1")
	s, _ := attach(t, g.PID(), Options{})
	defer s.Close()
	const ended = 1<<22 + 1 // no thread has that number
	s.threads.byTID[ended] = &thread{events: []perfevent.Timer{perfevent.Offline()}}
	alive := len(s.threads.byTID) - 1
	s.drainer.lookOver(context.Background())
	if _, ok := s.threads.byTID[ended]; ok || len(s.threads.byTID) < alive {
		t.Errorf("%d threads are attached, were %d and one that has ended", len(s.threads.byTID), alive)
	}
}

// TestDescriptorLimit: threads beyond the limit are left out, which is not fatal.
func TestDescriptorLimit(t *testing.T) {
	t.Parallel()
	g := enginetest.Start(t, enginetest.Build(t, "workload"), "calls", "1", "1")
	s, _ := attach(t, g.PID(), Options{})
	defer s.Close()
	s.threads.detachAll()
	leaveRoom(s, len(s.threads.outputs)) // for one thread
	if err := s.threads.scan(context.Background()); err != nil {
		t.Fatal(err)
	}
	st := s.threads.state()
	if st.sampled != 1 || s.threads.refused == 0 {
		t.Errorf("with descriptors for one thread: %+v", st)
	}
	checkMissed(t, s)
}

// TestDescriptorLimitAfterPause: threads that were sampled before a pause are left out, too, where
// descriptors are lacking after it.
func TestDescriptorLimitAfterPause(t *testing.T) {
	t.Parallel()
	g := enginetest.Start(t, enginetest.Build(t, "workload"), "calls", "1", "1")
	s, _ := attach(t, g.PID(), Options{})
	defer s.Close()
	before := s.threads.state().sampled
	s.threads.pause()
	if err := s.threads.scan(context.Background()); err != nil {
		t.Fatal(err)
	}
	if st := s.threads.state(); st.sampled != before || s.threads.refused > 0 {
		t.Errorf("in the pause: %+v, before %d", st, before)
	}
	leaveRoom(s, len(s.threads.outputs)) // for one thread
	s.threads.resume()
	if err := s.threads.scan(context.Background()); err != nil {
		t.Fatal(err)
	}
	if st := s.threads.state(); st.sampled != 1 || !s.threads.files.room(0) {
		t.Errorf("with descriptors for one thread: %+v", st)
	}
	checkMissed(t, s)
}

// leaveRoom leaves room for so many descriptors more.
func leaveRoom(s *Source, n int) { s.threads.files.most = s.threads.files.open.Load() + int64(n) }

// checkMissed wants a warning of all threads but one.
func checkMissed(t *testing.T, s *Source) {
	t.Helper()
	st := s.threads.state()
	want := fmt.Sprintf("%d of %d threads were not sampled for want of file descriptors: raise the limit (ulimit -n)", st.missed.of-1, st.missed.of)
	if got := s.Stats().Warning; got != want || st.missed.of < 2 {
		t.Errorf("warning %q, want %q", got, want)
	}
}
