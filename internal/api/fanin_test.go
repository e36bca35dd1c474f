package api

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/daemon"
	"github.com/ccmapd/ccmapd/internal/fanin"
	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/internal/store"
)

// calls returns a profile of a build: of methods with codes, each of which the next one calls.
func calls(build string, samples int, methods ...ccmap.Method) *ccmap.Map {
	m := ccmap.New(ccmap.Options{})
	m.Meta().Target.BuildID = build
	var frames []ccmap.Frame
	for _, method := range methods {
		frames = append(frames, ccmap.Frame{Method: m.Names().Intern(method), Offset: 3})
	}
	for range samples {
		m.Fold(&ccmap.Sample{Frames: frames, Weight: 10, Fresh: ccmap.FreshUnknown})
	}
	return m
}

// keptFans is a daemon that samples build b1 as web, of user 1000, with a stored profile of each owner, and keeps what a
// fleet knows of it.
func keptFans(t *testing.T, owners ...process.Owner) *fake {
	t.Helper()
	f := newFake()
	f.still = true
	leaf, main, unknown := ccmap.Method{Name: "leaf", Body: 1}, ccmap.Method{Name: "main", Body: 2}, ccmap.Method{Name: "stub"}
	f.maps["web"] = calls("b1", 10, leaf, unknown, main)
	f.maps["db"] = calls("b2", 10, leaf, main)
	s, err := store.Open(store.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	to := time.Now()
	for _, o := range owners {
		if _, err := s.File(store.Key{Target: "web", Build: "b1", Owner: o}, to.Add(-time.Hour), to, f.maps["web"].Snapshot()); err != nil {
			t.Fatal(err)
		}
	}
	others := calls("b1", 900, leaf, ccmap.Method{Name: "secret", Body: 7}, main)
	other := calls("b1", 90, ccmap.Method{Name: "main", Body: 8}, unknown)
	if err := others.Merge(other.Snapshot()); err != nil {
		t.Fatal(err)
	}
	list := fanin.Of(others.Snapshot())
	if err := s.PutFanIn("web", store.FanIn{Build: "b1", Tag: "1", Methods: len(list), File: fanin.Encode(list)}); err != nil {
		t.Fatal(err)
	}
	f.stored = s.Reader()
	return f
}

func entriesIn(t *testing.T, w *httptest.ResponseRecorder) fanin.List {
	t.Helper()
	list, err := fanin.Read(w.Body.Bytes())
	if err != nil {
		t.Fatalf("%d %s: %v", w.Code, w.Body, err)
	}
	return list
}

// TestFanInOfOwners: who sees a profile gets what the fleet knows of its methods. Who sees all gets the file; a user gets
// the methods that the own program has with the same code, and no name that it has not. For others there is nothing.
func TestFanInOfOwners(t *testing.T) {
	t.Parallel()
	own, other := ownedBy(1000)[0], ownedBy(1001)[0]
	s := newServer(t, keptFans(t, own, other), Options{Open: true})
	for _, ref := range []string{"live:web", "live:web:42", "best:web", "build:web@b1", "recent:web"} {
		for _, who := range []peer{master, onTCP} {
			all := entriesIn(t, get(s, who, "/v1/p/"+ref+"/fanin"))
			if e, found := all.Find(fanin.Key{Name: "secret", Body: 7}); !found || e.Samples != 900 || len(all) < 4 {
				t.Errorf("%s: %+v", ref, all)
			}
		}
		mine := entriesIn(t, get(s, userOf(1000), "/v1/p/"+ref+"/fanin"))
		leaf, found := mine.Find(fanin.Key{Name: "leaf", Body: 1})
		if !found || leaf.Samples != 900 || leaf.Callers != 1 || len(leaf.Listed) != 0 || leaf.Other != 900 {
			t.Errorf("%s: %+v", ref, leaf)
		}
		for _, e := range mine {
			if e.Name != "leaf" && (e.Name != "main" || e.Body == 8) {
				t.Errorf("%s: a user is told of %+v", ref, e.Key)
			}
		}
		if w := get(s, userOf(1002), "/v1/p/"+ref+"/fanin"); w.Code != http.StatusNotFound || strings.Contains(w.Body.String(), "fan-in") {
			t.Errorf("%s, another user: %d %s", ref, w.Code, w.Body)
		}
	}
	if w := get(s, userOf(1001), "/v1/p/best:web/fanin"); w.Code != http.StatusOK {
		t.Errorf("the owner of the other profile: %d %s", w.Code, w.Body)
	}
	if w := get(s, userOf(1001), "/v1/p/live:web/fanin"); w.Code != http.StatusNotFound {
		t.Errorf("the target of user 1000, to user 1001: %d %s", w.Code, w.Body)
	}
	text := get(s, master, "/metrics").Body.String()
	if !strings.Contains(text, `ccmapd_fanin_loads_total{known="yes"} 16`) {
		t.Errorf("metrics %s", text)
	}
}

// TestNoFanIn: of a program that no fleet knows, and of what is no program, there is none. An unknown parameter is an
// error, and the file that a client has is not sent again.
func TestNoFanIn(t *testing.T) {
	t.Parallel()
	f := keptFans(t, process.Unowned)
	f.keeping = daemon.Keeping{Hub: &daemon.Sending{FanIn: &daemon.FanInOfFleet{Methods: 5, Stored: fanin.Stored{Ties: 2}}}}
	s := newServer(t, f, Options{})
	for path, want := range map[string]int{
		"/v1/p/live:db/fanin": 404, "/v1/p/live:none/fanin": 404, "/v1/p/up:1/fanin": 404, "/v1/p/best:web@zz/fanin": 404,
		"/v1/p/live:web/fanin?event=wait": 404, "/v1/p/live:web/fanin?limit=3": 400, "/targets/web/fanin": 200,
	} {
		if w := get(s, master, path); w.Code != want {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	r := httptest.NewRequest(http.MethodGet, "/v1/p/live:web/fanin", nil)
	r.Header.Set("If-None-Match", get(s, master, "/v1/p/live:web/fanin").Header().Get("ETag"))
	if w := ask(s, master, r); w.Code != http.StatusNotModified || w.Body.Len() > 0 {
		t.Errorf("again: %d, %d bytes", w.Code, w.Body.Len())
	}
	text := get(s, master, "/metrics").Body.String()
	for _, want := range []string{"ccmapd_fanin_methods 5", `ccmapd_fanin_stores_total{as="tie"} 2`, `ccmapd_fanin_fetches_total{outcome="failed"} 0`, `ccmapd_fanin_loads_total{known="no"} `} {
		if !strings.Contains(text, want) {
			t.Errorf("metrics have no %s", want)
		}
	}
	s = newServer(t, newFake(), Options{})
	if w := get(s, master, "/v1/p/live:web/fanin"); w.Code != http.StatusNotFound || !strings.Contains(w.Body.String(), "read_token_file") {
		t.Errorf("without a store: %d %s", w.Code, w.Body)
	}
}
