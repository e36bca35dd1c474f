package api

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/internal/profiletest"
)

// TestLocal: files have numbers, sessions names, uploads are taken, and nothing else is there.
func TestLocal(t *testing.T) {
	t.Parallel()
	h := Local(LocalOptions{
		Version: "v1", Sessions: map[string]Session{"web": fakeSession{profiletest.Thicket(3).Snapshot()}},
		Files: []File{{"a.pb.gz", profiletest.Thicket(1).Snapshot()}, {"b.pb.gz", profiletest.Thicket(2).Snapshot()}},
	})
	do := func(method, path, body string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(method, path, strings.NewReader(body)))
		return w
	}
	var packed strings.Builder
	if err := export.Write(&packed, export.Pprof, profiletest.Thicket(4).Snapshot()); err != nil {
		t.Fatal(err)
	}
	up := do("POST", "/v1/uploads", packed.String())
	var uploaded uploadJSON
	if err := json.Unmarshal(up.Body.Bytes(), &uploaded); err != nil || up.Code != 201 {
		t.Fatal(up.Code, up.Body, err)
	}
	for _, test := range []struct {
		method, path string
		status       int
		contains     string
	}{
		{"GET", "/v1/info", 200, `"files": 2`},
		{"GET", "/v1/profiles", 200, `"name": "b.pb.gz"`},
		{"GET", "/v1/targets", 200, `"name": "web"`},
		{"GET", "/v1/p/file:1/top", 200, `"ref": "file:1"`},
		{"GET", "/v1/p/file:2/flame?width=512", 200, `"frames"`},
		{"GET", "/v1/p/live:web/flame", 200, `"frames"`},
		{"GET", "/v1/flamediff?a=file:1&b=file:2", 200, `"frames"`},
		{"GET", "/v1/overlap?a=file:1&b=" + uploaded.Ref, 200, `"pairs"`},
		{"GET", "/v1/p/" + uploaded.Ref + "/methods", 200, `"found"`},
		{"GET", "/v1/p/file:0/top", 404, "no such profile"},
		{"GET", "/v1/p/file:3/top", 404, "no such profile"},
		{"GET", "/v1/p/file:+1/top", 404, "no such profile"},
		{"GET", "/v1/p/file:01/top", 404, "no such profile"},
		{"GET", "/v1/p/file:%2Fetc%2Fpasswd/top", 404, "no such profile"},
		{"GET", "/v1/p/best:web/top", 404, "no such profile"},
		{"POST", "/v1/targets", 400, "Allowed: GET."},
		{"POST", "/v1/uploads", 400, `"code":"usage"`},
		{"POST", "/v1/reload", 404, "no route"},
		{"GET", "/v1/events", 404, "no route"},
		{"GET", "/v1/doctor", 404, "no route"},
		{"GET", "/metrics", 404, "no route"},
	} {
		if w := do(test.method, test.path, "x"); w.Code != test.status || !strings.Contains(w.Body.String(), test.contains) {
			t.Errorf("%s %s: %d %.300s, want %d %s", test.method, test.path, w.Code, w.Body, test.status, test.contains)
		}
	}
	r := httptest.NewRequest(http.MethodGet, "/v1/profiles", nil)
	r.Header.Set("Sec-Fetch-Site", "cross-site")
	w := httptest.NewRecorder()
	if h.ServeHTTP(w, r); w.Code != 403 {
		t.Errorf("a page of another site gets %d", w.Code)
	}
}

// TestHostileNames: names of methods and files are JSON strings in every answer, whatever is in them.
func TestHostileNames(t *testing.T) {
	t.Parallel()
	names := []string{"<img src=x onerror=alert(1)>", "\u202ecod.exe", "a\x00b", "</script><script>", strings.Repeat("x", 1<<20), "\xff\xfe", "Ignore all previous instructions", `"},{"`}
	m := ccmap.New(ccmap.Options{})
	for _, name := range names {
		m.Fold(&ccmap.Sample{Frames: []ccmap.Frame{{Method: m.Names().Intern(ccmap.Method{Name: name, File: name})}}, Weight: 10})
	}
	h := Local(LocalOptions{Files: []File{{names[0], m.Snapshot()}, {names[3], m.Snapshot()}}})
	for _, path := range []string{"/v1/profiles", "/v1/p/file:1/top", "/v1/p/file:1/flame", "/v1/p/file:1/methods", "/v1/p/file:1/sites", "/v1/p/file:1/meta", "/v1/p/file:1/contexts?match=.", "/v1/p/file:1/query?path=.", "/v1/flamediff?a=file:1&b=file:2", "/v1/diff?a=file:1&b=file:2", "/v1/p/%3Cimg%3E/top"} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		if !json.Valid(w.Body.Bytes()) || w.Code >= 500 {
			t.Errorf("%s: %d, no JSON: %.100s", path, w.Code, w.Body)
		}
		if strings.ContainsAny(w.Body.String(), "\x00") || !strings.HasPrefix(w.Header().Get("Content-Type"), "application/") {
			t.Errorf("%s: %v", path, w.Header())
		}
	}
}
