package hub

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/internal/fleet"
)

// buildsOf returns the builds that a reader sees.
func (s *server) buildsOf(t *testing.T) (list []fleet.Build) {
	t.Helper()
	s.hub.catalog.forget()
	if _, text := s.ask(t, "GET", "/v1/builds", "reader", nil, ""); json.Unmarshal([]byte(text), &list) != nil {
		t.Fatalf("builds %q", text)
	}
	return list
}

// TestDeletes: a token that deletes removes a build or a target, and reads; other tokens do not. What comes late is
// refused, and nothing else is touched.
func TestDeletes(t *testing.T) {
	t.Parallel()
	s := newServer(t, Quotas{})
	r := rand.New(rand.NewPCG(1, 1))
	of := func(target, build string, seq uint64) []byte {
		k := testKey(target, 1, seq)
		k.Build = build
		return newSent(t, k, randomProfile(r, 5).Snapshot()).frame
	}
	for _, frame := range [][]byte{of("web", "1f0c", 1), of("web", "2e", 1), of("web-eu", "1f0c", 1)} {
		if status, text := s.post(t, "any", frame); status != http.StatusNoContent {
			t.Fatalf("status %d: %s", status, text)
		}
	}
	s.await(t, 3)
	for _, test := range []struct {
		token, path string
		want        int
	}{
		{"any", "?target=web", http.StatusForbidden}, {"one", "?target=web", http.StatusForbidden}, {"reader", "?target=web", http.StatusForbidden},
		{"", "?target=web", http.StatusUnauthorized}, {"web deleter", "?target=web-eu", http.StatusForbidden}, {"web deleter", "?target=*", http.StatusForbidden},
		{"web deleter", "", http.StatusBadRequest}, {"web deleter", "?target=web&build=none", http.StatusNotFound},
	} {
		if status, text := s.ask(t, "DELETE", "/v1/builds"+test.path, test.token, nil, ""); status != test.want {
			t.Errorf("%s deletes %s: status %d, want %d: %s", test.token, test.path, status, test.want, text)
		}
	}
	if list := s.buildsOf(t); len(list) != 3 {
		t.Fatalf("builds %+v", list)
	}
	if status, _ := s.ask(t, "GET", "/v1/best"+ofWeb, "web deleter", nil, ""); status != http.StatusOK {
		t.Errorf("a token that deletes reads: status %d", status)
	}
	if status, _ := s.post(t, "web deleter", of("web", "1f0c", 2)); status != http.StatusForbidden {
		t.Errorf("a token that deletes writes: status %d", status)
	}

	if status, text := s.ask(t, "DELETE", "/v1/builds"+ofWeb, "web deleter", nil, ""); status != http.StatusOK || !strings.Contains(text, "1f0c") || strings.Contains(text, "2e") {
		t.Errorf("status %d: %s", status, text)
	}
	if list := s.buildsOf(t); len(list) != 2 {
		t.Errorf("builds %+v", list)
	}
	if status, text := s.post(t, "any", of("web", "1f0c", 3)); status != http.StatusUnprocessableEntity || !strings.Contains(text, "deleted") {
		t.Errorf("a late contribution: status %d: %s", status, text)
	}
	if status, _ := s.ask(t, "DELETE", "/v1/builds?target=web", "web deleter", nil, ""); status != http.StatusOK {
		t.Errorf("delete the rest: status %d", status)
	}
	if status, _ := s.ask(t, "DELETE", "/v1/builds?target=web", "web deleter", nil, ""); status != http.StatusNotFound {
		t.Errorf("delete nothing: status %d", status)
	}
	if list := s.buildsOf(t); len(list) != 1 || list[0].Target != "web-eu" {
		t.Errorf("builds %+v", list)
	}
}

// TestDeletionHolds: deletions and merges are killed at any step, while segments of before and of after wait. What was
// deleted comes back by no aggregator, no object is left of it, and when the tombstone is over, what comes then counts
// once, and nothing of before.
func TestDeletionHolds(t *testing.T) {
	t.Parallel()
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 1))
		b := newMemory()
		var all []sent
		for seq := range uint64(6) {
			all = append(all, newSent(t, testKey("web", int(seq%2), seq+1), randomProfile(r, 4).Snapshot()))
		}
		now := start
		clock := func() time.Time { return now }
		aggregatorOf := func(m *mortal) *aggregator {
			a := testAggregator(m)
			a.now = clock
			return a
		}
		alive := func() *mortal { return &mortal{Bucket: b, r: r, left: 1 << 30} }
		putSegment(t, b, all[:4]...)
		if err := aggregatorOf(alive()).round(t.Context()); err != nil {
			t.Fatal(err)
		}
		putSegment(t, b, all[2:5]...) // some again, and one that was acknowledged and not merged
		id := idOf(all[0].Key)
		lives := func() *mortal {
			return &mortal{Bucket: b, r: rand.New(rand.NewPCG(r.Uint64(), 2)), left: 1 + r.IntN(12), rough: 0.2}
		}
		var others sync.WaitGroup
		one, two := lives(), lives()
		others.Go(func() { aggregatorOf(one).round(t.Context()) })
		others.Go(func() { New(Options{Bucket: two, Now: clock}).removeBuild(t.Context(), id) })
		others.Wait()
		if _, err := New(Options{Bucket: alive(), Now: clock}).removeBuild(t.Context(), id); err != nil { // again, as a user does
			t.Fatal(err)
		}
		now = now.Add(deletedFor - time.Minute)
		putSegment(t, b, all...)
		if err := aggregatorOf(alive()).round(t.Context()); err != nil {
			t.Fatal(err)
		}
		m := manifestOf(t, b, all[0])
		if len(m.Parts) != 0 || len(m.Outliers) != 0 || m.Contributions != 0 || !m.isDeleted(now) || len(keysOf(t, b, segmentsDir)) != 0 {
			t.Fatalf("seed %d: it has come back: %+v", seed, m)
		}
		a := aggregatorOf(alive())
		a.now = func() time.Time { return time.Now().Add(2 * garbageAge) } // the memory's objects are of now
		if err := a.collect(t.Context()); err != nil {
			t.Fatal(err)
		}
		if left := keysOf(t, b, aggregatesDir); len(left) != 1 {
			t.Fatalf("seed %d: %q are left", seed, left)
		}
		now = now.Add(time.Hour)
		late := newSent(t, testKey("web", 3, 1), randomProfile(r, 4).Snapshot())
		putSegment(t, b, append([]sent{late}, all[:4]...)...)
		if err := aggregatorOf(alive()).round(t.Context()); err != nil {
			t.Fatal(err)
		}
		checkSums(t, b, []sent{late})
	}
}

// TestAudit: the log says who has written, deleted or been refused, and has no token.
func TestAudit(t *testing.T) {
	t.Parallel()
	var log lockedLog
	s := newLoggedServer(t, newMemory(), Quotas{}, slog.New(slog.NewTextHandler(&log, nil)))
	frame := newSent(t, testKey("web", 1, 1), randomProfile(rand.New(rand.NewPCG(1, 1)), 5).Snapshot()).frame
	s.post(t, "one", frame)
	s.await(t, 1)
	s.post(t, "mistyped", frame)
	s.post(t, "web reader", frame)
	s.ask(t, "DELETE", "/v1/builds?target=batch", "web deleter", nil, "")
	s.ask(t, "DELETE", "/v1/builds?target=web", "web deleter", nil, "")
	text := log.String()
	for _, want := range []string{
		`msg="took a contribution" target=web build=1f0c instance=00000000000000000000000000000001 epoch=1 seq=1`, "token=" + hash("one")[:8] + " host=127.0.0.1",
		`msg="refused a token" method=POST path=/v1/contributions status=401 host=127.0.0.1` + "\n",
		`path=/v1/contributions status=403 host=127.0.0.1 token=` + hash("web reader")[:8],
		`method=DELETE path=/v1/builds status=403 host=127.0.0.1 token=` + hash("web deleter")[:8],
		`msg="deleted a build" target=web build=1f0c unit=cpu/nanoseconds samples=5 token=` + hash("web deleter")[:8],
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is not in the log:\n%s", want, text)
		}
	}
	for _, never := range []string{"mistyped", "web deleter", hash("one"), hash("mistyped")[:8]} {
		if strings.Contains(text, never) {
			t.Errorf("%q is in the log:\n%s", never, text)
		}
	}
}

// lockedLog is the log of a hub. mu guards the rest.
type lockedLog struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *lockedLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
