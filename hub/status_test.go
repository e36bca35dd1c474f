package hub

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/hub/bucket"
	"github.com/ccmapd/ccmapd/internal/fleet"
)

// TestStatus: a reader of all targets is told what waits in the bucket, of whichever hub, since when, and what the hub
// has taken and refused. A reader of some targets is told nothing.
func TestStatus(t *testing.T) {
	t.Parallel()
	s := newServer(t, Quotas{})
	ask := func() (is fleet.Status) {
		t.Helper()
		status, text := s.ask(t, "GET", "/v1/status", "reader", nil, "")
		if err := json.Unmarshal([]byte(text), &is); status != http.StatusOK || err != nil {
			t.Fatalf("status %d: %s, %v", status, text, err)
		}
		return is
	}
	if is := ask(); is.Waiting != 0 || is.Lag != 0 || is.Accepted != 0 || len(is.Refused) != 0 || time.Since(is.Since) > time.Hour {
		t.Errorf("at first: %+v", is)
	}
	s.send(t, "web", "1f0c", 1, randomProfile(rand.New(rand.NewPCG(1, 1)), 20).Snapshot())
	s.await(t, 1)
	s.post(t, "any", []byte("no contribution"))
	s.post(t, "reader", nil)
	s.post(t, "nobody", nil)
	s.ask(t, "GET", "/v1/build?target=web&build=none", "reader", nil, "") // is no write
	is := ask()
	for is.Merged == 0 && t.Context().Err() == nil {
		is = ask()
	}
	if is.Accepted != 1 || is.Merged != 1 || fmt.Sprint(is.Refused) != "map[400:1 401:1 403:1]" {
		t.Errorf("after some: %+v", is)
	}
	for _, token := range []string{"web reader", "any"} {
		if status, _ := s.ask(t, "GET", "/v1/status", token, nil, ""); status != http.StatusForbidden {
			t.Errorf("%s is told: status %d", token, status)
		}
	}

	idle := New(Options{Bucket: newMemory(), Tokens: s.hub.tokens.Load()}) // which does not run, and merges nothing
	old := time.Now().Add(-time.Minute).UnixMilli()
	for i, at := range []int64{old + 5000, old} {
		if err := idle.Bucket.Put(t.Context(), fmt.Sprintf("%s0/%013d-x-%d-7", segmentsDir, at, i), []byte("."), bucket.Condition{}); err != nil {
			t.Fatal(err)
		}
	}
	waits := &server{httptest.NewServer(idle), idle, idle.Bucket}
	t.Cleanup(waits.Close)
	_, text := waits.ask(t, "GET", "/v1/status", "reader", nil, "")
	if err := json.Unmarshal([]byte(text), &is); err != nil || is.Waiting != 14 || is.Lag < time.Minute || is.Lag > time.Hour {
		t.Errorf("14 wait for a minute: %s, %v", text, err)
	}
}

// lister is a bucket that counts its lists of segments.
type lister struct {
	bucket.Bucket
	lists atomic.Int64
}

func (l *lister) List(ctx context.Context, prefix string) iter.Seq2[bucket.Entry, error] {
	if prefix == segmentsDir {
		l.lists.Add(1)
	}
	return l.Bucket.List(ctx, prefix)
}

// TestStatusListsSeldom: however many ask, the bucket lists what waits once in some seconds, and not at all if the
// aggregator has just asked.
func TestStatusListsSeldom(t *testing.T) {
	t.Parallel()
	l, s := &lister{Bucket: newMemory()}, newServer(t, Quotas{})
	var passed atomic.Int64
	now := func() time.Time { return start.Add(time.Duration(passed.Load())) }
	idle := New(Options{Bucket: l, Tokens: s.hub.tokens.Load(), Now: now}) // which does not run
	waits := &server{httptest.NewServer(idle), idle, l}
	t.Cleanup(waits.Close)
	ask := func() {
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				if status, text := waits.ask(t, "GET", "/v1/status", "reader", nil, ""); status != http.StatusOK {
					t.Errorf("status %d: %s", status, text)
				}
			})
		}
		all.Wait()
	}
	for i, want := range []int64{1, 1, 2, 3, 3} {
		switch i {
		case 2:
			passed.Add(int64(catalogTime))
		case 3:
			passed.Add(int64(catalogTime))
			if _, err := idle.aggregator.list(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		ask()
		if got := l.lists.Load(); got != want {
			t.Errorf("after %d times 20 questions the bucket has listed %d times, want %d", i+1, got, want)
		}
	}
}
