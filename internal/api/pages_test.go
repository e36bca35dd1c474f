package api

import (
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/ccmapd/ccmapd/internal/pages"
)

const pagePolicy = "default-src 'none'"

func newPages(t *testing.T) *pages.Shell {
	t.Helper()
	shell, err := pages.NewShell(fstest.MapFS{"index.html": {Data: []byte("the shell")}, "app-1a.js": {Data: []byte("script")}}, pagePolicy)
	if err != nil {
		t.Fatal(err)
	}
	return shell
}

// TestPages: the port has pages under their policy, also for links of other sites, and data for none of these. The
// socket has no pages.
func TestPages(t *testing.T) {
	t.Parallel()
	s := newServer(t, newFake(), Options{TCP: "127.0.0.1:7070", Pages: newPages(t)})
	visit := map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
	frame := map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"}
	script := map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "script"}
	for _, test := range []struct {
		peer   peer
		method string
		path   string
		header map[string]string
		host   string
		status int
	}{
		{onTCP, "GET", "/", nil, "localhost", 200},
		{onTCP, "GET", "/", visit, "localhost", 200},
		{onTCP, "GET", "/p/live:web/flame?focus=a", visit, "localhost", 200},
		{onTCP, "GET", "/t/web", visit, "localhost", 200},
		{onTCP, "GET", "/app-1a.js", nil, "localhost", 200},
		{onTCP, "GET", "/", visit, "evil.example", 403},
		{onTCP, "GET", "/", frame, "localhost", 403},
		{onTCP, "GET", "/app-1a.js", script, "localhost", 403},
		{onTCP, "GET", "/v1/targets", visit, "localhost", 403},
		{onTCP, "GET", "/v1/p/live:web/flame", visit, "localhost", 403},
		{onTCP, "GET", "/metrics", visit, "localhost", 403},
		{onTCP, "GET", "/targets/web/top", visit, "localhost", 403},
		{onTCP, "POST", "/", nil, "localhost", 400},
		{onTCP, "GET", "/none", nil, "localhost", 404},
		{master, "GET", "/", nil, "localhost", 404},
		{stranger, "GET", "/", nil, "localhost", 403},
	} {
		r := httptest.NewRequest(test.method, test.path, nil)
		for name, value := range test.header {
			r.Header.Set(name, value)
		}
		r.Host = test.host
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r.WithContext(withPeer(r.Context(), test.peer)))
		if w.Code != test.status {
			t.Errorf("%+v: %d %.200s", test, w.Code, w.Body)
		}
		if got := w.Header().Get("Content-Security-Policy"); test.status == 200 && got != pagePolicy || strings.Contains(w.Body.String(), "samples") {
			t.Errorf("%+v: policy %q, %.200s", test, got, w.Body)
		}
	}
	if w := get(newServer(t, newFake(), Options{TCP: "127.0.0.1:7070"}), onTCP, "/"); w.Code != 404 {
		t.Errorf("without pages: %d", w.Code)
	}
}

// TestVisitsTryNoPassword: behind a web configuration a link of another site gets no page, as it would try a password.
func TestVisitsTryNoPassword(t *testing.T) {
	t.Parallel()
	file := t.TempDir() + "/web.yml"
	if err := os.WriteFile(file, []byte("basic_auth_users: {reader: $2y$10$qNY4jvPHiEbuXOEsvsUr8.JTIhrJyWfgIAU0gjjEkJxqCFZsbUzQ6}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := newServer(t, newFake(), Options{TCP: "127.0.0.1:7070", WebConfig: file, Pages: newPages(t)})
	for site, want := range map[string]int{"cross-site": 403, "none": 401} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Host = "localhost"
		r.Header.Set("Sec-Fetch-Site", site)
		r.Header.Set("Sec-Fetch-Mode", "navigate")
		r.Header.Set("Sec-Fetch-Dest", "document")
		w := httptest.NewRecorder()
		if s.ownSite(s.gate).ServeHTTP(w, r); w.Code != want {
			t.Errorf("from %s: %d %s", site, w.Code, w.Body)
		}
	}
}
