package client

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
)

// TestProxy: requests reach the daemon as they are, and of its answers what a browser needs; without a daemon the
// answer says so.
func TestProxy(t *testing.T) {
	t.Parallel()
	socket := listen(t, func(w http.ResponseWriter, r *http.Request) {
		if got := r.URL.String(); got != "/v1/p/live:a%2Fb/top?limit=1" || r.Host != host || r.Header.Get("X-Forwarded-For") != "" {
			t.Errorf("%s of host %s, %v", got, r.Host, r.Header)
		}
		if r.Header.Get("If-None-Match") == `"x"` {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		w.Header().Set("ETag", `"x"`)
		w.Header().Set("Ask-After", "2")
		w.Header().Set("Set-Cookie", "a=b")
		w.Header().Set("Content-Security-Policy", "none of the page's")
		w.Write([]byte("answer"))
	})
	ask := func(d Daemon, tag string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1:80/v1/p/live:a%2Fb/top?limit=1", nil)
		r.Header.Set("If-None-Match", tag)
		w := httptest.NewRecorder()
		d.Proxy().ServeHTTP(w, r)
		return w
	}
	d := Daemon{Sockets: []string{socket}}
	if w := ask(d, ""); w.Code != 200 || w.Body.String() != "answer" || w.Header().Get("ETag") != `"x"` || w.Header().Get("Ask-After") != "2" || w.Header().Get("Set-Cookie")+w.Header().Get("Content-Security-Policy") != "" {
		t.Errorf("%d %s %v", w.Code, w.Body, w.Header())
	}
	if w := ask(d, `"x"`); w.Code != 304 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if w := ask(Daemon{Sockets: []string{filepath.Join(t.TempDir(), "none")}}, ""); w.Code != 502 || !strings.Contains(w.Body.String(), "no daemon answers") || w.Header().Get("Content-Type") != ProblemType {
		t.Errorf("%d %s %v", w.Code, w.Body, w.Header())
	}
}
