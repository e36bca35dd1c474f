package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/daemon/client"
	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/internal/daemon"
	"github.com/ccmapd/ccmapd/internal/profiletest"
	"github.com/ccmapd/ccmapd/internal/terminal"
	"github.com/ccmapd/ccmapd/internal/view"
	"github.com/ccmapd/ccmapd/sampler/engine"
)

// TestRoutes: each route answers a master with its status and type.
func TestRoutes(t *testing.T) {
	if testing.Short() {
		t.Skip("makes one request after the other")
	}
	t.Parallel()
	f := newFake()
	s := newServer(t, f, Options{Version: "v1"})
	for _, test := range []struct {
		method, path string
		status       int
		contains     string
	}{
		{"GET", "/healthz", 200, "ok"},
		{"GET", "/readyz", 200, "ok"},
		{"GET", "/metrics", 200, `ccmapd_build_info{version="v1"} 1`},
		{"GET", "/metrics", 200, `ccmapd_samples_total{target="web"}`},
		{"GET", "/v1/info", 200, `"may": "everything"`},
		{"GET", "/v1/targets", 200, `"rule": "exe /db"`},
		{"GET", "/v1/targets/web", 200, `"name": "web"`},
		{"GET", "/v1/targets/none", 404, `"code":"no-target"`},
		{"GET", "/v1/p/live:web/top?limit=1", 200, `"ref": "live:web"`},
		{"GET", "/v1/p/live:web:42/top", 200, `"ref": "live:web:42"`},
		{"GET", "/v1/p/live:web:44/top", 404, "target web has no process 44"},
		{"GET", "/v1/p/live:web:x/top", 404, `"code":"no-target"`},
		{"GET", "/v1/p/live:web/contexts?method=a&depth=2", 200, `"contexts"`},
		{"GET", "/v1/p/live:web/contexts", 400, "contexts wants method"},
		{"GET", "/v1/p/live:web/contexts?method=none", 404, `"code":"no-method"`},
		{"GET", "/v1/p/live:web/sites", 200, `"sites"`},
		{"GET", "/v1/p/live:web/receivers?all=true", 200, `"sites"`},
		{"GET", "/v1/p/live:web/points", 200, `"points"`},
		{"GET", "/v1/p/live:web/query?path=a+%3E+b", 200, `"path"`},
		{"GET", "/v1/p/live:web/query?match=[", 400, `"code":"usage"`},
		{"GET", "/v1/p/live:web/meta", 200, `"samples"`},
		{"GET", "/v1/p/live:web/map", 200, `"nodes"`},
		{"GET", "/v1/p/live:web/map?format=folded", 200, "a+1;"},
		{"GET", "/v1/p/live:web/map?format=none", 400, "there is no format"},
		{"GET", "/v1/p/live:web/methods?q=A&limit=1", 200, `"found": 0`},
		{"GET", "/v1/p/live:web/methods?q=a&limit=1", 200, `"method": "a`},
		{"GET", "/v1/p/live:web/methods?match=%5Ea%24", 200, `"found": 1`},
		{"GET", "/v1/p/live:web/methods?match=%5B", 400, `"code":"usage"`},
		{"GET", "/v1/p/live:web/methods?limit=x", 400, `"code":"usage"`},
		{"GET", "/v1/p/live:web/flame?width=512", 200, `"width": 512`},
		{"GET", "/v1/p/live:web/flame?width=513", 200, `"width": 1024`},
		{"GET", "/v1/p/live:web/flame?width=1025", 200, `"width": 2048`},
		{"GET", "/v1/p/live:web/flame?width=100", 200, `"width": 100`},
		{"GET", "/v1/p/live:web/none", 404, "there is no view"},
		{"GET", "/v1/p/live:web/top?limit=x", 400, "not a whole number"},
		{"GET", "/v1/p/live:web/top?limt=1", 400, `there is no parameter \"limt\"`},
		{"GET", "/v1/p/live:web/top?sort=none", 400, "there is no order"},
		{"GET", "/v1/p/live:web/top?recent=1", 400, "no window"},
		{"GET", "/v1/p/best:web/top", 404, `"code":"no-target"`},
		{"GET", "/targets/web/map.json", 200, `"nodes"`},
		{"GET", "/targets/web/top", 200, `"ref": "live:web"`},
		{"GET", "/v1/overlap?a=live:web&b=live:db", 200, `"pairs"`},
		{"GET", "/v1/diff?a=live:web&b=live:db&all=1", 200, `"methods"`},
		{"GET", "/v1/overlap?a=live:web", 400, `a=REF and b=REF`},
		{"POST", "/v1/targets/web/pause", 202, ""},
		{"POST", "/v1/targets/web/none", 404, "there is no action"},
		{"DELETE", "/v1/targets/web", 204, ""},
		{"POST", "/v1/reload", 202, ""},
		{"PUT", "/v1/targets", 400, "Allowed: GET, POST"},
		{"GET", "/v2", 404, "no route"},
		{"POST", "/v1/targets", 400, "the body must be"},
	} {
		w := ask(s, master, httptest.NewRequest(test.method, test.path, nil))
		if w.Code != test.status || !strings.Contains(w.Body.String(), test.contains) {
			t.Errorf("%s %s: %d\n%.300s\nwant %d, %s", test.method, test.path, w.Code, w.Body, test.status, test.contains)
		}
		if kind := w.Header().Get("Content-Type"); w.Code >= 400 && kind != client.ProblemType {
			t.Errorf("%s %s: %s", test.method, test.path, kind)
		}
	}
	if did := fmt.Sprint(f.done()); did != "[pause web detach web reload]" {
		t.Errorf("the daemon was asked to %s", did)
	}
}

// TestViewsAreCommands: the JSON of a route is what a program prints of a file of the same
// snapshot, after the reference.
func TestViewsAreCommands(t *testing.T) {
	t.Parallel()
	f := newFake()
	f.still = true
	s := newServer(t, f, Options{})
	p := view.New("live:web", profiletest.Thicket(1).Snapshot())
	top, err := view.NewTop(p, view.List{Limit: 20})
	if err != nil {
		t.Fatal(err)
	}
	var want bytes.Buffer
	if err := terminal.WriteJSON(&want, top.JSON()); err != nil {
		t.Fatal(err)
	}
	got := strings.Replace(get(s, master, "/v1/p/live:web/top").Body.String(), "  \"ref\": \"live:web\",\n", "", 1)
	if got != want.String() {
		t.Errorf("got\n%.500s\nwant\n%.500s", got, &want)
	}
}

// TestCodings: a map comes in the coding that the client takes, and is the same in each.
func TestCodings(t *testing.T) {
	t.Parallel()
	f := newFake()
	f.still = true
	s := newServer(t, f, Options{})
	plain := get(s, master, "/v1/p/live:web/map").Body.String()
	for accepted, want := range map[string]string{"zstd, gzip": "zstd", "gzip": "gzip", "gzip;q=0, br": "", "GZIP; q=0.5": "gzip"} {
		r := httptest.NewRequest(http.MethodGet, "/v1/p/live:web/map", nil)
		r.Header.Set("Accept-Encoding", accepted)
		w := ask(s, master, r)
		if got := w.Header().Get("Content-Encoding"); got != want {
			t.Errorf("%s: coding %q", accepted, got)
		}
		if text := decode(t, want, w.Body); text != plain {
			t.Errorf("%s: another map", accepted)
		}
	}
	if w := get(s, master, "/targets/web/profile.pb.gz"); decode(t, "gzip", w.Body) == "" {
		t.Error("no profile for pprof")
	}
}

func decode(t *testing.T, coding string, r io.Reader) string {
	t.Helper()
	var err error
	switch coding {
	case "gzip":
		r, err = gzip.NewReader(r)
	case "zstd":
		var z *zstd.Decoder
		z, err = zstd.NewReader(r)
		r = z
	}
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestSeconds: profile.pb.gz?seconds=N is what N seconds add.
func TestSeconds(t *testing.T) {
	t.Parallel()
	s := newServer(t, newFake(), Options{})
	w := get(s, master, "/targets/web/profile.pb.gz?seconds=2")
	m, _, err := export.Read(w.Body, export.ReadOptions{})
	if err != nil {
		t.Fatal(w.Code, err)
	}
	if n := m.Snapshot().Total().Samples; n != 1 {
		t.Errorf("%d samples, and the fake adds one", n)
	}
	f := newFake()
	f.looked = func() { f.maps["web"] = ccmap.New(ccmap.Options{}) }
	if w := get(newServer(t, f, Options{}), master, "/targets/web/profile.pb.gz?seconds=2"); w.Code != 503 || !strings.Contains(w.Body.String(), "ask again") {
		t.Errorf("another map after that: %d %s", w.Code, w.Body)
	}
	if w := get(s, master, "/targets/web/profile.pb.gz?seconds=4000"); w.Code != 400 {
		t.Errorf("more than an hour: %d", w.Code)
	}
}

// TestWaitIsNoAnswer: the time that a client asks to wait is no time to answer, for the histogram and the
// alert of slow answers.
func TestWaitIsNoAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, newFake(), Options{})
		if w := get(s, master, "/targets/web/profile.pb.gz?seconds=3000"); w.Code != http.StatusOK {
			t.Fatal(w.Code, w.Body)
		}
		var requests, seconds float64 // over all routes
		for line := range strings.Lines(get(s, master, "/metrics").Body.String()) {
			sample, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "} ")
			number, err := strconv.ParseFloat(value, 64)
			switch {
			case strings.HasPrefix(sample, "ccmapd_http_request_seconds_count"):
				requests += number
			case strings.HasPrefix(sample, "ccmapd_http_request_seconds_sum"):
				seconds += number
			default:
				continue
			}
			if err != nil {
				t.Errorf("%s: %v", line, err)
			}
		}
		if requests != 1 || seconds != 0 {
			t.Errorf("%v requests, the one of the profile, took %v s beside 3,000 s of waiting", requests, seconds)
		}
	})
}

// TestUploads: a profile that was sent can be compared, by its sender alone.
func TestUploads(t *testing.T) {
	if testing.Short() {
		t.Skip("makes one request after the other")
	}
	t.Parallel()
	s := newServer(t, newFake(), Options{})
	var body bytes.Buffer
	if err := export.Write(&body, export.XML, profiletest.Thicket(1).Snapshot()); err != nil {
		t.Fatal(err)
	}
	w := ask(s, master, httptest.NewRequest(http.MethodPost, "/v1/uploads", &body))
	var up uploadJSON
	if err := json.Unmarshal(w.Body.Bytes(), &up); err != nil || w.Code != 201 || up.Samples != 2000 {
		t.Fatalf("%d %s %v", w.Code, w.Body, err)
	}
	if w := get(s, master, "/v1/overlap?a=live:web&b="+up.Ref); w.Code != 200 {
		t.Errorf("compare it: %d %s", w.Code, w.Body)
	}
	if w := get(s, userOf(1000), w.Header().Get("Location")); w.Code != 404 {
		t.Errorf("another user: %d %s", w.Code, w.Body)
	}
	for body, want := range map[string]int{"": 400, "\x1f\x8b": 400, strings.Repeat("x", mostUpload+1): 413} {
		if w := ask(s, master, httptest.NewRequest(http.MethodPost, "/v1/uploads", strings.NewReader(body))); w.Code != want {
			t.Errorf("%.10q: %d %s, want %d", body, w.Code, w.Body, want)
		}
	}
}

// TestUploadsEnd: an upload is kept for a time, and there are so many of a peer.
func TestUploadsEnd(t *testing.T) {
	t.Parallel()
	s := newServer(t, newFake(), Options{})
	for range mostUploads {
		if _, _, err := s.uploads.add(profiletest.Thicket(1), master); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := s.uploads.add(profiletest.Thicket(1), master); coded(err).Code != view.CodeBusy {
		t.Errorf("one too many: %v", err)
	}
	now := s.uploads.now()
	s.uploads.now = func() time.Time { return now.Add(uploadKept) }
	if id, _, err := s.uploads.add(profiletest.Thicket(1), master); err != nil || len(s.uploads.of) != 1 {
		t.Errorf("after their time: %s %v, %d are kept", id, err, len(s.uploads.of))
	}
	small := newServer(t, newFake(), Options{Memory: uploadsShare * export.MapMemory(profiletest.Thicket(1))})
	if _, _, err := small.uploads.add(profiletest.Thicket(1), master); err != nil {
		t.Errorf("within the part of memory: %v", err)
	}
	if _, _, err := small.uploads.add(profiletest.Thicket(1), userOf(1)); coded(err).Code != view.CodeBusy {
		t.Errorf("beyond the part of memory: %v", err)
	}
}

// TestEvents: the stream has the events that the peer may see.
func TestEvents(t *testing.T) {
	t.Parallel()
	f := newFake()
	s := newServer(t, f, Options{})
	for i, target := range []string{"web", "db", ""} {
		f.events <- daemon.Event{Seq: uint64(i + 1), Kind: "state", Target: target, Text: "it begins", Owner: ownedBy(1000, 70, 0)[i]}
	}
	f.events <- daemon.Event{Seq: 4, Kind: "hot", Target: "web", Text: "main.Secret", Owner: ownedBy(70)[0]} // of an earlier process
	close(f.events)
	text := get(s, userOf(1000), "/v1/events?since=0").Body.String()
	if !strings.Contains(text, "id: 1\nevent: state\ndata: {") || strings.Count(text, "id: ") != 1 {
		t.Errorf("a user of web gets\n%s", text)
	}
	for range mostStreamsOfUser {
		if _, ok := s.streams.enter(userOf(1000)); !ok {
			t.Fatal("no room for a stream")
		}
	}
	if w := get(s, userOf(1000), "/v1/events"); w.Code != 503 {
		t.Errorf("a user has more than their share of streams: %d", w.Code)
	}
	f.events = make(chan daemon.Event, 1)
	f.events <- daemon.Event{Seq: 5, Kind: "hot", Text: "\u009b2J\u202etxt.go"}
	close(f.events)
	if text := get(s, master, "/v1/events").Body.String(); strings.ContainsAny(text, "\u009b\u202e") || !strings.Contains(text, `\u009b2J\u202etxt.go`) {
		t.Errorf("a hostile name: %q", text)
	}
	if text := get(s, master, "/v1/%C2%9B2J").Body.String(); strings.Contains(text, "\u009b") {
		t.Errorf("a hostile name in an error: %q", text)
	}
	if w := get(s, master, "/v1/events?since=x"); w.Code != 400 {
		t.Errorf("since=x: %d", w.Code)
	}
}

// TestOthersSamples: a user gets no profile that has samples of another's process, whether that one has
// ended, or comes while the profile is read, or is in a profile that somebody else has got a moment ago.
func TestOthersSamples(t *testing.T) {
	t.Parallel()
	f := newFake()
	s := newServer(t, f, Options{})
	const path = "/v1/p/live:web/meta"
	all := get(s, master, path).Body.String()
	if own := get(s, userOf(1000), path); own.Code != 200 || own.Body.String() == all {
		t.Errorf("status %d, and the profile that root has got: %v", own.Code, own.Body.String() == all)
	}
	f.targets[1].Owners = ownedBy(70, 1000)
	for _, path := range []string{path, "/v1/p/live:web:42/meta", "/v1/targets/web"} {
		if w := get(s, userOf(1000), path); w.Code != 404 {
			t.Errorf("%s of a target with samples of others: %d", path, w.Code)
		}
	}
	f.targets[0].Owners = ownedBy(1000)
	f.looked = func() { f.targets[0].Owners = ownedBy(70) }
	if w := get(s, userOf(1000), "/v1/p/live:db/meta"); w.Code != 404 {
		t.Errorf("a process of another came meanwhile: %d", w.Code)
	}
}

// TestShared: what one has computed serves all that ask for the same of the same snapshot.
func TestShared(t *testing.T) {
	t.Parallel()
	s := newServer(t, newFake(), Options{})
	made := 0
	for range 3 {
		a, err := s.shares.get(t.Context(), "q", [2]*ccmap.Snapshot{}, func() (answer, error) { made++; return answer{body: []byte("a")}, nil })
		if err != nil || string(a.body) != "a" {
			t.Error(a, err)
		}
	}
	if made != 1 {
		t.Errorf("made %d times", made)
	}
	gone, leave := context.WithCancel(t.Context())
	leave()
	if _, err := s.recent.get(gone, subject{target: "web"}); err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if one := s.recent.of[subject{target: "web"}]; one == nil || one.err != nil {
		t.Errorf("a client that has left has spoiled the profile of others: %+v", one)
	}
	failed := errors.New("failed")
	if _, err := s.shares.get(t.Context(), "bad", [2]*ccmap.Snapshot{}, func() (answer, error) { return answer{}, failed }); !errors.Is(err, failed) {
		t.Error(err)
	}
	if len(s.shares.kept) != 1 {
		t.Errorf("%d are kept", len(s.shares.kept))
	}
	for i := range 2 * mostKept {
		s.shares.get(t.Context(), fmt.Sprint(i), [2]*ccmap.Snapshot{}, func() (answer, error) { return answer{body: make([]byte, 1<<16)}, nil })
	}
	if s.shares.bytes > mostShared || len(s.shares.kept) > mostKept || len(s.shares.kept) != s.shares.recent.Len() {
		t.Errorf("%d bytes of %d answers are kept", s.shares.bytes, len(s.shares.kept))
	}
}

// TestSpentOnCoding: so is the CPU time of compressing an answer for one client.
func TestSpentOnCoding(t *testing.T) {
	t.Parallel()
	told := 0
	s := newServer(t, newFake(), Options{Spent: func(time.Duration) { told++ }})
	times := func(accepted string) int {
		before := told
		r := httptest.NewRequest(http.MethodGet, "/v1/p/live:web/map", nil)
		r.Header.Set("Accept-Encoding", accepted)
		if w := ask(s, master, r); w.Code != http.StatusOK || w.Header().Get("Content-Encoding") != accepted {
			t.Fatalf("%d %s", w.Code, w.Header())
		}
		return told - before
	}
	times("zstd")
	if kept, coded := times("zstd"), times("gzip"); kept == 0 || coded <= kept {
		t.Errorf("told %d times of an answer as it is kept, and %d times of a coded one", kept, coded)
	}
}

// TestSpent: the CPU time of an answer is told, so that no session pays for it.
func TestSpent(t *testing.T) {
	t.Parallel()
	var spent time.Duration
	s := newServer(t, newFake(), Options{Spent: func(cpu time.Duration) { spent += cpu }})
	const work = 5 * time.Millisecond
	_, err := s.shares.inTurn(t.Context(), func() (answer, error) {
		for begin := threadCPU(); threadCPU()-begin < work; {
		}
		return answer{}, nil
	})
	if err != nil || spent < work {
		t.Errorf("%v is told of %v, %v", spent, work, err)
	}
}

// TestBusy: beyond so many answers at once, a client is told to come again.
func TestBusy(t *testing.T) {
	t.Parallel()
	s := newServer(t, newFake(), Options{})
	for range mostHeavy {
		s.shares.turns <- struct{}{}
	}
	w := get(s, master, "/v1/p/live:web/top")
	if w.Code != 503 || w.Header().Get("Retry-After") == "" || !strings.Contains(w.Body.String(), `"code":"busy"`) {
		t.Errorf("%d %v %s", w.Code, w.Header(), w.Body)
	}
}

// TestUnwell: health says why the daemon does not sample.
func TestUnwell(t *testing.T) {
	t.Parallel()
	f := newFake()
	f.sick = errors.New("target web: no turn for 31 s")
	s := newServer(t, f, Options{})
	if w := get(s, master, "/healthz"); w.Code != 503 || w.Body.String() != "target web: no turn for 31 s\n" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if w := get(s, userOf(1000), "/healthz"); w.Code != 503 || strings.Contains(w.Body.String(), "web") {
		t.Errorf("a user: %d %s", w.Code, w.Body)
	}
}

// TestOnlyPID: each view of a target takes pid=N, and answers as for live:NAME:N.
func TestOnlyPID(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"top", "flame", "flame?invert=1&method=a", "contexts?match=.", "sites", "receivers", "points", "query?path=a", "meta", "methods?q=a", "map", "map?format=folded", "profile.pb.gz", "map.json"} {
		f := newFake()
		f.still = true
		s := newServer(t, f, Options{})
		pid := "?pid=42"
		if strings.Contains(name, "?") {
			pid = "&pid=42"
		}
		want := get(s, master, "/v1/p/live:web:42/"+name)
		for _, path := range []string{"/v1/p/live:web/" + name + pid, "/v1/p/live:web:42/" + name + pid, "/targets/web/" + name + pid} {
			if got := get(s, master, path); got.Code != 200 || got.Body.String() != want.Body.String() {
				t.Errorf("%s: %d %.300s\nwant %.300s", path, got.Code, got.Body, want.Body)
			}
		}
		if asked := f.askedFor(); len(asked) == 0 || slices.ContainsFunc(asked, func(pid int) bool { return pid != 42 }) {
			t.Errorf("%s: profiles of processes %v", name, asked)
		}
	}
	f := newFake()
	f.addHost()
	s := newServer(t, f, Options{})
	for _, test := range []struct {
		path     string
		status   int
		contains string
	}{
		{"/v1/p/live:web/top?pid=44", 404, "target web has no process 44"},
		{"/targets/web/map.json?pid=7", 404, "target web has no process 7"}, // it is db's
		{"/v1/p/live:web/top?pid=0", 404, "target web has no process 0"},
		{"/v1/p/live:host/top?pid=0", 200, `"ref": "live:host:0"`},
		{"/v1/p/live:web:42/top?pid=43", 400, "of process 42 already"},
		{"/v1/p/live:web:44/top?pid=44", 404, "target web has no process 44"},
		{"/v1/p/live:none/top?pid=42", 404, "no such profile"},
		{"/v1/p/up:x/top?pid=42", 400, "live:NAME"},
		{"/v1/p/live:web/top?pid=x", 400, "not a whole number"},
		{"/v1/p/live:web/top?pid=-42", 400, "not a whole number"},
		{"/v1/p/live:web/top?pid=42&pid=42", 400, "given twice"},
		{"/v1/p/live:web/top?pid=", 200, `"ref": "live:web"`},
		{"/v1/p/live:web/profile.pb.gz?pid=x", 400, "not a whole number"},
		{"/v1/overlap?a=live:web&b=live:db&pid=42", 400, `no parameter \"pid\"`},
	} {
		if w := get(s, master, test.path); w.Code != test.status || !strings.Contains(w.Body.String(), test.contains) {
			t.Errorf("%s: %d %.300s\nwant %d, %s", test.path, w.Code, w.Body, test.status, test.contains)
		}
	}
}

// FuzzRequest: no request makes a server panic, and each has an answer.
func FuzzRequest(f *testing.F) {
	for _, seed := range []string{"/v1/p/live:web/top?limit=1", "/v1/p/live:web:42/contexts?match=.", "/v1/p/live:web/top?pid=42", "/v1/p/live:web:42/map?pid=43", "/targets/db/top?pid=-1", "/v1/overlap?a=live:web&b=up:x", "/targets/web/map.json",
		"/v1/diff?a=live:web&b=live:db&absorb=(", "/v1/doctor?pid=1", "/v1/events?since=18446744073709551616", "/v1/p/%2e%2e/top", "/v1/p/live:web/query?path=a>b", "//v1"} {
		f.Add("GET", seed, "")
	}
	f.Add("POST", "/v1/targets", `{"pid": 1}`)
	f.Add("POST", "/v1/uploads", "a;b 1\n")
	s, err := New(Options{Daemon: newFake()})
	if err != nil {
		f.Fatal(err)
	}
	s.doctors.diagnose = func(context.Context, int) engine.Report { return engine.Report{} }
	f.Fuzz(func(t *testing.T, method, path, body string) {
		u, err := url.ParseRequestURI(path)
		if err != nil || strings.Contains(u.RawQuery, "seconds") || u.Path == "/v1/events" {
			return // it would wait
		}
		for _, p := range []peer{master, onTCP, userOf(1000), stranger} {
			r := &http.Request{Method: method, URL: u, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body)), Host: "localhost"}
			w := httptest.NewRecorder()
			s.ServeHTTP(w, r.WithContext(withPeer(t.Context(), p)))
			if w.Code == 0 || p == stranger && w.Code < 300 {
				t.Errorf("%s %s of %+v: %d", method, path, p, w.Code)
			}
		}
	})
}

// TestTags: an answer has a tag, and a client that names it gets no body until the answer is another.
func TestTags(t *testing.T) {
	t.Parallel()
	f := newFake()
	f.still = true
	s := newServer(t, f, Options{})
	ask := func(path string, known ...string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodGet, path, nil)
		r.Header["If-None-Match"] = known
		return ask(s, master, r)
	}
	for _, path := range []string{"/v1/p/live:web/flame", "/v1/p/live:web/methods?q=a", "/v1/diff?a=live:web&b=live:db", "/v1/p/live:web/map"} {
		first := ask(path)
		tag := first.Header().Get("ETag")
		if first.Code != 200 || !strings.HasPrefix(tag, `W/"`) || !strings.HasPrefix(first.Header().Get("Cache-Control"), "private") {
			t.Fatalf("%s: %d %v", path, first.Code, first.Header())
		}
		for _, known := range [][]string{{tag}, {`"x", ` + tag}, {`"x"`, strings.TrimPrefix(tag, "W/")}, {"*"}} {
			if w := ask(path, known...); w.Code != 304 || w.Body.Len() > 0 || w.Header().Get("ETag") != tag {
				t.Errorf("%s with %q: %d, %d bytes, %v", path, known, w.Code, w.Body.Len(), w.Header())
			}
		}
		for _, other := range []string{`"x"`, `W/"x"`, strings.Trim(tag, `W/"`), ""} {
			if w := ask(path, other); w.Code != 200 || w.Body.Len() == 0 {
				t.Errorf("%s with %q: %d", path, other, w.Code)
			}
		}
		if other := ask(path + nextParameter(path) + "label=a=b").Header().Get("ETag"); other == tag && !strings.HasSuffix(path, "/map") {
			t.Errorf("%s: another question has the same tag", path)
		}
	}
	tag := ask("/v1/p/live:web/top").Header().Get("ETag")
	f.mu.Lock()
	f.still = false
	f.mu.Unlock()
	s.recent = newRecent(f) // a second later
	if w := ask("/v1/p/live:web/top", tag); w.Code != 200 || w.Header().Get("ETag") == tag {
		t.Errorf("a profile with another sample: %d", w.Code)
	}
}

func nextParameter(path string) string {
	if strings.Contains(path, "?") {
		return "&"
	}
	return "?"
}
