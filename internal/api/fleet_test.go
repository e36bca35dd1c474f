package api

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/internal/profiletest"
	"github.com/ccmapd/ccmapd/internal/view"
)

// fakeHub answers as a hub may.
type fakeHub struct {
	profile []byte
	hold    chan struct{} // nil, or answers wait for it
	asked   chan string
}

func (f fakeHub) Ask(_ context.Context, about, name, method, event string) (any, error) {
	if f.hold != nil {
		f.asked <- about
		<-f.hold
	}
	if about == "away" {
		return nil, &view.Error{Code: view.CodeFailed, Err: errors.New("ask the hub: away"), Hint: "Is it up?"}
	}
	return []string{about, name, method, event}, nil
}

func (f fakeHub) Profile(_ context.Context, ref, event string, most int64) ([]byte, error) {
	if f.asked != nil {
		f.asked <- ref + event
	}
	if int64(len(f.profile)) > most {
		return nil, export.ErrMemory
	}
	return f.profile, nil
}

func encoded(t *testing.T, s *ccmap.Snapshot) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := export.Write(&b, export.JSON, s); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestFleet: the fleet is there for those who may read all, and for nobody else. A profile of the hub is answered like
// any other, and what it sends instead of one is an error.
func TestFleet(t *testing.T) {
	t.Parallel()
	const flame = "/v1/p/@hub%2Fbest:web/flame"
	with := newServer(t, newFake(), Options{Open: true, Fleet: fakeHub{profile: encoded(t, profiletest.Thicket(1).Snapshot())}})
	without := newServer(t, newFake(), Options{Open: true})
	spoilt := newServer(t, newFake(), Options{Open: true, Fleet: fakeHub{profile: []byte("<html>no profile</html>")}})
	for _, test := range []struct {
		who      peer
		s        *Server
		path     string
		status   int
		contains string
	}{
		{master, with, "/v1/fleet/show?name=web@1&event=alloc_space", 200, "\"show\",\n  \"web@1\",\n  \"\",\n  \"alloc_space\""},
		{master, with, "/v1/fleet/builds", 200, "\"builds\",\n  \"\",\n  \"\",\n  \"cpu\""},
		{master, with, "/v1/fleet/fanin?name=web&method=a", 200, "\"fanin\",\n  \"web\",\n  \"a\",\n  \"cpu\""},
		{onTCP, with, "/v1/fleet/targets", 200, "targets"},
		{userOf(1000), with, "/v1/fleet/targets", 404, "no such route"},
		{peer{}, with, "/v1/fleet/targets", 403, "not permitted"},
		{master, with, "/v1/fleet/targets?url=http://evil.example", 400, "no parameter"},
		{master, with, "/v1/fleet/away", 500, "Is it up?"},
		{master, without, "/v1/fleet/targets", 404, "CCMAPD_HUB"},
		{master, with, flame, 200, "\"ref\": \"@hub/best:web\""},
		{onTCP, with, flame, 200, "frames"},
		{userOf(1000), with, flame, 404, "no such profile"},
		{master, with, "/v1/overlap?a=@hub/best:web&b=live:web", 200, "pairs"},
		{userOf(1000), with, "/v1/overlap?a=@hub/best:web&b=live:web", 404, "no such profile"},
		{master, without, flame, 404, "CCMAPD_HUB"},
		{master, spoilt, flame, 500, "what the hub sends is no profile"},
	} {
		if w := get(test.s, test.who, test.path); w.Code != test.status || !strings.Contains(w.Body.String(), test.contains) {
			t.Errorf("%+v, %s: %d %.300s, want %d %q", test.who, test.path, w.Code, w.Body, test.status, test.contains)
		}
	}
}

// TestFleetIsAskedLittle: clients have few requests sent to a hub at once, and a profile fetched once for all.
func TestFleetIsAskedLittle(t *testing.T) {
	t.Parallel()
	hub := fakeHub{profile: encoded(t, profiletest.Thicket(1).Snapshot()), hold: make(chan struct{}), asked: make(chan string, 10)}
	s := newServer(t, newFake(), Options{Fleet: hub})
	done := make(chan int, mostOfFleet)
	for range mostOfFleet {
		go func() { done <- get(s, master, "/v1/fleet/builds").Code }()
	}
	for range mostOfFleet {
		<-hub.asked
	}
	if w := get(s, master, "/v1/fleet/builds"); w.Code != http.StatusServiceUnavailable {
		t.Errorf("one more: %d %s", w.Code, w.Body)
	}
	close(hub.hold)
	for range mostOfFleet {
		if code := <-done; code != http.StatusOK {
			t.Errorf("%d", code)
		}
	}
	for _, view := range []string{"flame", "top", "meta"} {
		if w := get(s, master, "/v1/p/@hub%2Fbest:web/"+view+"?event=cpu"); w.Code != http.StatusOK {
			t.Errorf("%s: %d %s", view, w.Code, w.Body)
		}
	}
	if n := len(hub.asked); n != 1 || <-hub.asked != "@hub/best:webcpu" {
		t.Errorf("the profile is fetched %d times", n)
	}
}

// TestLocalFleet: beside a daemon, the fleet has all profiles that are not this process's own; beside files, those of
// the hub alone.
func TestLocalFleet(t *testing.T) {
	t.Parallel()
	asked := make(chan string, 10)
	hub := fakeHub{profile: encoded(t, profiletest.Thicket(1).Snapshot()), asked: asked}
	for path, want := range map[string]string{
		"/v1/overlap?a=@hub/best:web&b=live:web:7": "@hub/best:web live:web:7", "/v1/p/best:web/top": "best:web", "/v1/p/file:1/top": "", "/v1/p/up:1/top": "",
	} {
		getLocal(t, Local(LocalOptions{Fleet: hub}), path)
		var got []string
		for range len(asked) {
			got = append(got, <-asked)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: the fleet is asked for %q, want %q", path, got, want)
		}
	}
	withSession := Local(LocalOptions{Fleet: hub, Sessions: map[string]Session{"web": fakeSession{profiletest.Thicket(3).Snapshot()}}})
	if code := getLocal(t, withSession, "/v1/p/live:web/top"); code != http.StatusOK || len(asked) > 0 {
		t.Errorf("a session: %d, the fleet is asked %d times", code, len(asked))
	}
}

func getLocal(t *testing.T, h http.Handler, path string) int {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w.Code
}
