package bpf

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/ccmapd/ccmapd/sampler/internal/enginetest"
)

// unread opens a host like openHost that nothing reads.
func unread(t *testing.T) *Host {
	t.Helper()
	h, err := newHost(HostOptions{MaxOverhead: -1}, true)
	if err != nil {
		enginetest.SkipUnlessPermitted(t, err)
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close() })
	return h
}

// TestReaderFails: a host that cannot wait for records ends its sources with the reason.
func TestReaderFails(t *testing.T) {
	t.Parallel()
	h := unread(t)
	var err error
	if h.waiter, err = h.newWaiter(-1); err != nil {
		t.Fatal(err)
	}
	reason := errors.New("no more waiting")
	var sources []*Source
	for range 2 {
		g := enginetest.Start(t, enginetest.Build(t, "workload"), "busy", "60000")
		s, _ := enginetest.Attach(t, h.Open, g.PID(), Options{})
		sources = append(sources, s)
	}
	h.reader.Start(h.waiter, func() error { return reason }, h.ringAll)
	for _, s := range sources {
		if _, err := s.Run(context.Background()); !errors.Is(err, reason) {
			t.Errorf("Run: %v, want %v", err, reason)
		}
	}
}

// TestInterruptedTakeLosesNothing: records that an interrupt leaves are taken at the end.
func TestInterruptedTakeLosesNothing(t *testing.T) {
	t.Parallel()
	var s Source
	s.add([]byte("first"), false)
	s.add([]byte("second"), false)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	s.drainRecords(ctx)
	s.add([]byte("third"), false)
	var left []string
	for rest := s.inbox.Swap(nil); len(rest) > 0; {
		var raw []byte
		raw, rest = next(rest)
		left = append(left, string(raw))
	}
	if want := []string{"first", "second", "third"}; !slices.Equal(left, want) || s.inbox.Lost() != 0 {
		t.Errorf("left %q, lost %d, want %q", left, s.inbox.Lost(), want)
	}
}

// TestCounters: the sums are those of the library, and a closed host has none.
func TestCounters(t *testing.T) {
	t.Parallel()
	h, err := newHost(HostOptions{}, true)
	if err != nil {
		enginetest.SkipUnlessPermitted(t, err)
		t.Fatal(err)
	}
	entries := make([]uint64, len(h.counters.query.each))
	for i := range entries {
		entries[i] = uint64(i) + 1<<40
	}
	if err := h.program.Counters.Put(uint32(taken), entries); err != nil {
		t.Fatal(err)
	}
	want := uint64(0)
	for _, n := range entries {
		want += n
	}
	if got := h.counted(taken); got != want {
		t.Errorf("counted %d, want %d", got, want)
	}
	if got := h.counted(1 << 20); got != 0 {
		t.Errorf("a counter that does not exist: %d", got)
	}
	h.Close()
	if got := h.counted(taken); got != 0 {
		t.Errorf("after the end: %d", got)
	}
}

// TestInboxWaits: a source is woken for records when they are due, and at once for one that it wants or for many.
func TestInboxWaits(t *testing.T) {
	t.Parallel()
	var s seat
	for _, c := range []struct {
		what      string
		bytes     int
		urgent    bool
		soon, due bool
	}{
		{"nothing", -1, false, false, false},
		{"a record", 10, false, false, true},
		{"an awaited record", 10, true, true, true},
		{"a record after it", 10, false, true, true},
		{"a full inbox", fullInbox, false, true, true},
	} {
		if c.bytes >= 0 {
			s.add(make([]byte, c.bytes), c.urgent)
		}
		if soon, due := s.inbox.Waiting(false), s.inbox.Waiting(true); soon != c.soon || due != c.due {
			t.Errorf("%s: waits %t, when due %t; want %t, %t", c.what, soon, due, c.soon, c.due)
		}
	}
	s.inbox.Swap(nil)
	s.add(make([]byte, fullInbox+1), false)
	if !s.inbox.Waiting(false) {
		t.Error("a full inbox waits until it is due")
	}
	s.inbox.Swap(nil)
	if s.inbox.Waiting(true) {
		t.Error("an inbox that was emptied still waits")
	}
}
