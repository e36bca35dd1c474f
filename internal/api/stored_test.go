package api

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/internal/profiletest"
	"github.com/ccmapd/ccmapd/internal/store"
)

// keptOf files a profile of each owner for the target "kept", and returns a reader of the store.
func keptOf(t *testing.T, owners ...process.Owner) *store.Reader {
	t.Helper()
	s, err := store.Open(store.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	to := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	for i, o := range owners {
		k := store.Key{Target: "kept", Build: "b1", Owner: o}
		if _, err := s.File(k, to.Add(-time.Hour), to, profiletest.Thicket(uint64(i)+1).Snapshot()); err != nil {
			t.Fatal(err)
		}
	}
	return s.Reader()
}

// TestStored: a peer sees the stored profiles of those whose live ones it would see. All others do not exist for it.
func TestStored(t *testing.T) {
	t.Parallel()
	f := newFake()
	f.stored = keptOf(t, ownedBy(1000)[0], ownedBy(1001)[0], process.Unowned)
	s := newServer(t, f, Options{Open: true})
	var totals [3]int64
	for i := range totals {
		totals[i] = profiletest.Thicket(uint64(i) + 1).Snapshot().Total().Samples
	}
	for name, c := range map[string]struct {
		who  peer
		want int64 // samples; 0: there is no such profile
	}{
		"a user": {userOf(1000), totals[0]}, "another user": {userOf(1001), totals[1]}, "a third": {userOf(1002), 0},
		"readers over TCP": {onTCP, totals[0] + totals[1]}, "masters": {master, totals[0] + totals[1] + totals[2]},
	} {
		for _, ref := range []string{"build:kept", "build:kept@b1", "period:kept@2026-11-20", "best:kept", "recent:kept"} {
			w := get(s, c.who, "/v1/p/"+ref+"/map")
			if c.want == 0 {
				if w.Code != http.StatusNotFound || strings.Contains(w.Body.String(), "kept\"") && strings.Contains(w.Body.String(), "candidates") {
					t.Errorf("%s, %s: %d %s", name, ref, w.Code, w.Body)
				}
				continue
			}
			if w.Code != http.StatusOK {
				t.Errorf("%s, %s: %d %s", name, ref, w.Code, w.Body)
				continue
			}
			if got := mapIn(t, w).Total().Samples; got != c.want {
				t.Errorf("%s, %s: %d samples, want %d", name, ref, got, c.want)
			}
		}
	}
}

// TestNothingStored: a daemon without a store says so, and a wrong reference says what is right.
func TestNothingStored(t *testing.T) {
	t.Parallel()
	s := newServer(t, newFake(), Options{})
	if w := get(s, master, "/v1/p/best:web/top"); w.Code != http.StatusNotFound || !strings.Contains(w.Body.String(), "files = true") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	f := newFake()
	f.stored = keptOf(t, process.Unowned)
	s = newServer(t, f, Options{})
	for ref, want := range map[string]string{"best:kpt": "kept", "best:kept@zz": "b1", "period:kept@noon": "2026-11-20"} {
		if w := get(s, master, "/v1/p/"+ref+"/top"); w.Code == http.StatusOK || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: %d %s", ref, w.Code, w.Body)
		}
	}
}

// TestRecentIsLive: the latest profile of a target that is sampled is the live one.
func TestRecentIsLive(t *testing.T) {
	t.Parallel()
	f := newFake()
	f.still = true // however long a machine takes between the answers
	f.stored = keptOf(t, process.Unowned)
	s := newServer(t, f, Options{})
	live, recent := get(s, master, "/v1/p/live:web/map"), get(s, master, "/v1/p/recent:web/map")
	if live.Code != http.StatusOK || recent.Code != http.StatusOK || mapIn(t, recent).Total() != mapIn(t, live).Total() {
		t.Errorf("live %d, recent %d %s", live.Code, recent.Code, recent.Body)
	}
}

// TestEventsOfStored: a request chooses an event of stored profiles, and gets no live profile of another one.
func TestEventsOfStored(t *testing.T) {
	t.Parallel()
	f := newFake()
	s, err := store.Open(store.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	m := ccmap.New(ccmap.Options{})
	if err := m.SetUnit(ccmap.NewUnit("alloc", "bytes")); err != nil {
		t.Fatal(err)
	}
	m.Add(m.Child(0, ccmap.NoOffset, m.Names().Intern(ccmap.Method{Name: "main.main"})), ccmap.Counters{Samples: 3, Time: 4096})
	at := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	if _, err := s.File(store.Key{Target: "web", Build: "b1", Unit: m.Meta().Unit}, at, at.Add(time.Hour), m.Snapshot()); err != nil {
		t.Fatal(err)
	}
	f.stored = s.Reader()
	server := newServer(t, f, Options{})
	for path, want := range map[string]int{
		"/v1/p/best:web/map?event=alloc": http.StatusOK, "/v1/p/recent:web/top?event=alloc": http.StatusOK,
		"/v1/p/period:web/profile.pb.gz?event=alloc": http.StatusOK,
		"/v1/p/best:web/map":                         http.StatusNotFound, "/v1/p/best:web/map?event=wait": http.StatusNotFound,
		"/v1/p/live:web/map?event=cpu": http.StatusOK, "/v1/p/live:web/top?event=alloc": http.StatusNotFound,
		"/v1/diff?a=best:web&b=recent:web&event=alloc": http.StatusOK, "/v1/diff?a=best:web&b=live:web&event=alloc": http.StatusNotFound,
	} {
		if w := get(server, master, path); w.Code != want {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	if w := get(server, master, "/v1/p/recent:web/map?event=alloc"); mapIn(t, w).Total().Time != 4096 {
		t.Error("the recent profile of an event is another one")
	}
}

// mapIn reads the profile of an answer.
func mapIn(t *testing.T, w *httptest.ResponseRecorder) *ccmap.Snapshot {
	t.Helper()
	m, _, err := export.Read(w.Body, export.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return m.Snapshot()
}
