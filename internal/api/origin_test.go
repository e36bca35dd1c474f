package api

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/ccmapd/ccmapd/internal/profiletest"
)

// headers are the headers by which a browser says who has a request sent.
type headers map[string]string

// foreignPages are requests that pages of other sites have browsers send to localhost, and ownRequests those
// of the user, of the server's own pages and of programs that are no browsers.
var (
	foreignPages = map[string]headers{
		"a page of another site, no-cors": {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "empty"},
		"an image on another port":        {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"},
		"a script on another port":        {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "script"},
		"a fetch on another port":         {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "cors", "Origin": "http://localhost:3000"},
		"a link of another site":          {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document", "Sec-Fetch-User": "?1"},
		"a frame of another site":         {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"},
		"an older browser":                {"Origin": "http://evil.example"},
		"an older browser, another port":  {"Origin": "http://localhost:3000"},
		"a sandboxed page":                {"Origin": "null"},
		"no address of an origin":         {"Origin": "http://%zz"},
		"the user, by an origin":          {"Sec-Fetch-Site": "none", "Origin": "http://evil.example"},
		"a word of the future":            {"Sec-Fetch-Site": "near-site"},
	}
	ownRequests = map[string]headers{
		"curl":                                   {},
		"Prometheus":                             {"Accept": "text/plain", "X-Prometheus-Scrape-Timeout-Seconds": "10"},
		"the user types the address":             {"Sec-Fetch-Site": "none", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document", "Sec-Fetch-User": "?1"},
		"a page of its own":                      {"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "cors", "Sec-Fetch-Dest": "empty"},
		"a page of its own, by a proxy":          {"Sec-Fetch-Site": "same-origin", "Origin": "https://proxy.example"},
		"a page of its own, in an older browser": {"Origin": "http://LOCALHOST"},
	}
)

func (h headers) addTo(r *http.Request) *http.Request {
	for name, value := range h {
		r.Header.Set(name, value)
	}
	return r
}

// TestForeignPages: whatever a page of another site has a browser ask for, also by a port of localhost, it is
// refused, and the browser keeps answers from such pages. Others are answered as before.
func TestForeignPages(t *testing.T) {
	t.Parallel()
	s := newServer(t, newFake(), Options{TCP: "127.0.0.1:0"})
	for _, path := range []string{"/v1/targets", "/v1/p/live:web/top", "/v1/p/live:web/profile.pb.gz", "/targets/web/map.json", "/v1/info", "/metrics", "/healthz", "/readyz"} {
		for name, h := range foreignPages {
			w := ask(s, onTCP, h.addTo(httptest.NewRequest(http.MethodGet, path, nil)))
			if w.Code != 403 || !strings.Contains(w.Body.String(), "another site") || w.Header().Get("Cross-Origin-Resource-Policy") != "same-origin" {
				t.Errorf("%s asks for %s: %d %s", name, path, w.Code, w.Body)
			}
		}
		for name, h := range ownRequests {
			w := ask(s, onTCP, h.addTo(httptest.NewRequest(http.MethodGet, path, nil)))
			if w.Code != 200 || w.Header().Get("Cross-Origin-Resource-Policy") != "same-origin" {
				t.Errorf("%s asks for %s: %d %s", name, path, w.Code, w.Body)
			}
		}
	}
	for name, h := range foreignPages {
		if w := ask(s, onTCP, h.addTo(httptest.NewRequest(http.MethodPost, "/v1/uploads", strings.NewReader("a 1\n")))); w.Code != 403 {
			t.Errorf("%s uploads: %d %s", name, w.Code, w.Body)
		}
	}
	two := httptest.NewRequest(http.MethodGet, "/v1/targets", nil)
	two.Header["Sec-Fetch-Site"] = []string{"same-origin", "cross-site"}
	if w := ask(s, onTCP, two); w.Code != 403 {
		t.Errorf("two sites: %d %s", w.Code, w.Body)
	}
}

// TestForeignPagesTryNoPassword: pages of other sites cannot use up the passwords that are checked.
func TestForeignPagesTryNoPassword(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	s, address := secured(t, a, withTLS+withUser)
	for range 2 * mostTries {
		r, err := http.NewRequest(http.MethodGet, "https://"+address+"/v1/info", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.SetBasicAuth("reader", "guess")
		r.Header.Set("Sec-Fetch-Site", "cross-site")
		answer, err := a.trusting().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != 403 {
			t.Fatalf("status %d", answer.StatusCode)
		}
	}
	if s.gate.tries < mostTries {
		t.Errorf("%v passwords may be tried still, of %d", s.gate.tries, mostTries)
	}
}

// TestForeignPagesOfHandler: a program that mounts the routes has the same guard.
func TestForeignPagesOfHandler(t *testing.T) {
	t.Parallel()
	h := Handler(map[string]Session{"scripts": fakeSession{profiletest.Thicket(1).Snapshot()}})
	asked := func(of headers) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, of.addTo(httptest.NewRequest(http.MethodGet, "http://localhost/v1/targets", nil)))
		return w
	}
	for name, of := range foreignPages {
		if w := asked(of); w.Code != 403 {
			t.Errorf("%s: %d", name, w.Code)
		}
	}
	for name, of := range ownRequests {
		if w := asked(of); w.Code != 200 || w.Header().Get("Cross-Origin-Resource-Policy") != "same-origin" {
			t.Errorf("%s: %d", name, w.Code)
		}
	}
}
