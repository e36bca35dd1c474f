package api

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/profiletest"
)

// fakeSession has one profile, and an empty one until it is asked for a fresh one.
type fakeSession struct{ fresh *ccmap.Snapshot }

func (fakeSession) Snapshot() *ccmap.Snapshot { return ccmap.New(ccmap.Options{}).Snapshot() }

func (s fakeSession) Fresh(context.Context) (*ccmap.Snapshot, error) { return s.fresh, nil }

// dated is a response that counts the deadlines which a handler sets.
type dated struct {
	*httptest.ResponseRecorder
	deadlines int
}

func (d *dated) SetWriteDeadline(time.Time) error {
	d.deadlines++
	return nil
}

// TestHandlerReadsOnly: a program that mounts the routes answers questions about its sessions, and
// changes nothing. Deadlines are the program's own.
func TestHandlerReadsOnly(t *testing.T) {
	t.Parallel()
	h := Handler(map[string]Session{"scripts": fakeSession{profiletest.Thicket(1).Snapshot()}, "guests": fakeSession{profiletest.Thicket(2).Snapshot()}})
	for _, test := range []struct {
		method, path string
		status       int
		contains     string
	}{
		{"GET", "/v1/targets", 200, `"rule": "hosted by process `},
		{"GET", "/v1/targets/guests", 200, `"state": "sampling"`},
		{"GET", "/v1/targets/guests", 200, `"hosted": true`},
		{"GET", "/v1/targets/none", 404, `"code":"no-target"`},
		{"GET", "/v1/p/live:scripts/top?limit=1", 200, `"samples": 2000`},
		{"GET", "/v1/p/live:none/top", 404, `"code":"no-target"`},
		{"GET", "/v1/p/live:scripts/map?format=folded", 200, "a+1;"},
		{"GET", "/v1/p/live:scripts/profile.pb.gz", 200, "\x1f\x8b"},
		{"GET", "/v1/overlap?a=live:scripts&b=live:guests", 200, `"pairs"`},
		{"GET", "/v1/diff?a=live:scripts&b=live:guests", 200, `"methods"`},
		{"POST", "/v1/targets", 400, "Allowed: GET."},
		{"DELETE", "/v1/targets/guests", 400, "Allowed: GET."},
		{"POST", "/v1/targets/guests/pause", 404, "no route"},
		{"POST", "/v1/reload", 404, "no route"},
		{"POST", "/v1/uploads", 404, "no route"},
		{"GET", "/v1/events", 404, "no route"},
		{"GET", "/v1/doctor", 404, "no route"},
		{"GET", "/metrics", 404, "no route"},
	} {
		w := &dated{ResponseRecorder: httptest.NewRecorder()}
		h.ServeHTTP(w, httptest.NewRequest(test.method, "http://vm.example"+test.path, nil))
		if w.Code != test.status || !strings.Contains(w.Body.String(), test.contains) || w.deadlines > 0 {
			t.Errorf("%s %s: %d, %d deadlines\n%.300s\nwant %d, %s", test.method, test.path, w.Code, w.deadlines, w.Body, test.status, test.contains)
		}
	}
	w := &dated{ResponseRecorder: httptest.NewRecorder()}
	r := httptest.NewRequest(http.MethodGet, "/v1/targets", nil)
	newServer(t, newFake(), Options{}).ServeHTTP(w, r.WithContext(withPeer(r.Context(), master)))
	if w.deadlines == 0 {
		t.Error("a server of its own sets no deadline")
	}
}

// TestHostedStatus: a target has the figures of its session's profile.
func TestHostedStatus(t *testing.T) {
	t.Parallel()
	m := profiletest.Thicket(1)
	m.Meta().Ended, m.Meta().Engine, m.Meta().Known = "program ended", "wasm", 7
	m.Meta().Interval = []ccmap.IntervalChange{{Interval: time.Second}, {Interval: time.Millisecond}}
	s := hostedStatus("guests", m.Snapshot())
	if f := s.Status; s.State != "ended" || s.Reason != "program ended" || s.Processes[0].Engine != "wasm" ||
		f.Samples != 2000 || f.Known != 7 || f.IntervalNS != 1e6 || f.Nodes != m.Len() {
		t.Errorf("%+v", s)
	}
}
