package api

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/internal/store"
)

// goCalls returns a profile of a Go program with a call by each of the callers.
func goCalls(callers ...ccmap.Method) *ccmap.Map {
	m := ccmap.New(ccmap.Options{})
	callee := m.Names().Intern(ccmap.Method{Name: "web.parse", File: "web.go", StartLine: 90})
	for i, c := range callers {
		c.File, c.StartLine = "web.go", 10
		at := m.Child(m.Root(), ccmap.NoOffset, m.Names().Intern(c))
		m.Add(m.Child(at, uint32(i)+3, callee), ccmap.Counters{Samples: 30, Time: 30e6})
	}
	m.Meta().Target.BuildID = "b1"
	return m
}

// TestDefaultPGO: the daemon has the minimal profile of a stored one, says where it comes from, and sends it
// only to those that lack it. Calls leave whose caller has the code of several builds.
func TestDefaultPGO(t *testing.T) {
	t.Parallel()
	s, err := store.Open(store.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	at := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	m := goCalls(ccmap.Method{Name: "web.serve", Body: 7}, ccmap.Method{Name: "web.changed", Body: ccmap.MixedBodies})
	if _, err := s.File(store.Key{Target: "shop", Build: "b1"}, at.Add(-time.Hour), at, m.Snapshot()); err != nil {
		t.Fatal(err)
	}
	f := newFake()
	f.stored = s.Reader()
	server := newServer(t, f, Options{})
	const path = "/v1/p/best:shop/default.pgo"
	w := get(server, master, path)
	if w.Code != http.StatusOK {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	body, tag := bytes.Clone(w.Body.Bytes()), w.Header().Get("ETag")
	got := mapIn(t, w)
	comments := strings.Join(got.Meta().Comments, "\n")
	if want := "build b1, 60 samples"; !strings.Contains(comments, want) || !strings.Contains(comments, "left out: 50.0 % of the weight") {
		t.Errorf("comments %s", comments)
	}
	edges, err := export.PGOEdges(got)
	if err != nil {
		t.Fatal(err)
	}
	callers := make(map[string]bool)
	for e := range edges {
		callers[got.Names().At(e.Caller).Name] = true
	}
	if !callers["web.serve"] || callers["web.changed"] {
		t.Errorf("callers %v", callers)
	}
	if w := get(server, master, path); !bytes.Equal(w.Body.Bytes(), body) || w.Header().Get("ETag") != tag {
		t.Error("the same profile has other bytes, or another tag")
	}
	for header, want := range map[string]int{tag: 304, strings.TrimPrefix(tag, "W/"): 304, `"x", ` + tag: 304, "*": 304, `"x"`: 200, "": 200} {
		if w := getTagged(server, path, header); w.Code != want || want == 304 && w.Body.Len() > 0 {
			t.Errorf("If-None-Match %q: %d with %d bytes, want %d", header, w.Code, w.Body.Len(), want)
		}
	}
	if w := get(server, userOf(1001), path); w.Code != http.StatusNotFound {
		t.Errorf("another user: %d", w.Code)
	}
	if w := get(server, master, "/v1/p/live:web/default.pgo"); w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "Go") {
		t.Errorf("a profile without Go functions: %d %s", w.Code, w.Body)
	}
}

// getTagged asks as one who has a profile of a tag.
func getTagged(s *Server, path, tag string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, path, nil)
	r.Header.Set("If-None-Match", tag)
	return ask(s, master, r)
}
