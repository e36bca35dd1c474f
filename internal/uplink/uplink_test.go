package uplink

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/internal/fleet"
)

// serve starts a hub, and returns the way to it.
func serve(t *testing.T, mode os.FileMode, answer http.HandlerFunc) *Hub {
	t.Helper()
	return serveWithin(t, time.Minute, mode, answer)
}

func serveWithin(t *testing.T, timeout time.Duration, mode os.FileMode, answer http.HandlerFunc) *Hub {
	t.Helper()
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	return dial(t, server.URL, timeout, mode)
}

func dial(t *testing.T, url string, timeout time.Duration, mode os.FileMode) *Hub {
	t.Helper()
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("hunter2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(token, mode); err != nil {
		t.Fatal(err)
	}
	h, err := New(Options{URL: url, TokenFile: token, Timeout: timeout})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	return h
}

// TestAnswers: only the answer of a hub acknowledges, each status means one thing, and no text of an answer, which may
// repeat the token, is quoted.
func TestAnswers(t *testing.T) {
	t.Parallel()
	for code, c := range map[int]struct {
		want    error
		arrived bool
	}{
		204: {nil, false}, 200: {errors.ErrUnsupported, false}, 400: {ErrPoison, false}, 413: {ErrPoison, false}, 422: {ErrPoison, false},
		409: {ErrClone, false}, 410: {ErrOver, false}, 401: {ErrToken, false}, 403: {ErrToken, false}, 404: {fs.ErrNotExist, false},
		429: {errors.ErrUnsupported, false}, 503: {errors.ErrUnsupported, true},
	} {
		h := serve(t, 0o600, func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			if r.Header.Get("Authorization") != "Bearer hunter2" || string(body) != "frame" || r.URL.Path != "/v1/contributions" {
				t.Errorf("%s %s %q", r.Method, r.URL, body)
			}
			w.Header().Set("Retry-After", "60")
			w.WriteHeader(code)
			if code != 204 {
				fmt.Fprint(w, r.Header.Get("Authorization"))
			}
		})
		err := h.Send(t.Context(), []byte("frame"))
		switch {
		case c.want == nil && err == nil:
			continue
		case err == nil, c.want == nil, !errors.Is(c.want, errors.ErrUnsupported) && !errors.Is(err, c.want):
			t.Errorf("%d: %v", code, err)
		case errors.Is(c.want, errors.ErrUnsupported) && (errors.Is(err, ErrPoison) || errors.Is(err, ErrOver) || errors.Is(err, ErrClone)):
			t.Errorf("%d: %v", code, err)
		case strings.Contains(err.Error(), "hunter2"), MayHaveArrived(err) != c.arrived, After(err) != time.Minute:
			t.Errorf("%d: %v, arrived %v, after %v", code, err, MayHaveArrived(err), After(err))
		}
	}
}

// TestHostileHub: a hub that leads elsewhere, never ends, sends too much or does not answer costs a bounded time and
// memory, and gets no token for others.
func TestHostileHub(t *testing.T) {
	t.Parallel()
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { t.Errorf("asked %s", r.URL) }))
	t.Cleanup(elsewhere.Close)
	ended := make(chan struct{})
	t.Cleanup(func() { close(ended) })
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		text   string
	}{
		"elsewhere": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
		}, "another host"},
		"slow": {func(_ http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body) // or the server does not see that the client leaves
			select {
			case <-ended:
			case <-r.Context().Done():
			}
		}, "deadline"},
		"much": {func(w http.ResponseWriter, r *http.Request) {
			for zeros := bytes.Repeat([]byte(" "), 1<<20); r.Context().Err() == nil; {
				if _, err := w.Write(zeros); err != nil {
					return
				}
			}
		}, "more than"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			timeout := time.Minute
			if name == "slow" {
				timeout = time.Second
			}
			h := serveWithin(t, timeout, 0o600, c.answer)
			if _, err := h.Builds(t.Context(), "web"); err == nil || !strings.Contains(err.Error(), c.text) {
				t.Errorf("builds: %v", err)
			}
			if name == "much" {
				return // sending reads no answer
			}
			if err := h.Send(t.Context(), []byte("frame")); err == nil || !strings.Contains(err.Error(), c.text) {
				t.Errorf("send: %v", err)
			}
		})
	}
}

// TestToken: a token that others may read or change is not used, and goes over no network in the clear.
func TestToken(t *testing.T) {
	t.Parallel()
	for _, mode := range []os.FileMode{0o604, 0o602} {
		h := serve(t, mode, func(http.ResponseWriter, *http.Request) { t.Error("it was sent") })
		if err := h.Send(t.Context(), nil); err == nil || MayHaveArrived(err) {
			t.Errorf("mode %o: %v", mode, err)
		}
	}
	if _, err := New(Options{URL: "http://hub.example", TokenFile: "/t"}); err == nil || !strings.Contains(err.Error(), "clear text") {
		t.Errorf("without TLS: %v", err)
	}
	if _, err := New(Options{URL: "https://hub.example", TokenFile: "/t", CAFile: "/none"}); err == nil {
		t.Error("without its authorities")
	}
}

// TestAway: what cannot have arrived is known.
func TestAway(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(nil)
	server.Close()
	if err := dial(t, server.URL, time.Minute, 0o600).Send(t.Context(), nil); err == nil || MayHaveArrived(err) {
		t.Errorf("nobody listens: %v", err)
	}
	h := serve(t, 0o600, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	if err := h.Send(t.Context(), nil); err == nil || !MayHaveArrived(err) {
		t.Errorf("an answer was lost: %v", err)
	}
}

// TestLists: outliers of an instance and the builds that a deletion has removed come as the hub says, and no other
// answer counts as one: nothing is said to be deleted unless the hub says so.
func TestLists(t *testing.T) {
	t.Parallel()
	const outlier = `[{"target":"web","build":"1f0c","unit":"cpu/nanoseconds","instance":"0a","class":1,"others":41,"overlap":50,"expected":97}]`
	many := "[" + strings.TrimSuffix(strings.Repeat(`{"target":"web","build":"1f0c"},`, 40_000), ",") + "]"
	for name, c := range map[string]struct {
		status   int
		text     string
		want     error // nil and no text: a list
		says     string
		outliers int // of the list
	}{
		"list": {200, outlier, nil, "", 1}, "none": {200, "[]", nil, "", 0}, "many": {200, many, nil, "", 40_000},
		"too many":  {200, "[" + strings.Repeat(" ", mostDeleted) + "]", nil, "more than", 0},
		"no JSON":   {200, "hunter2", nil, "invalid", 0},
		"an object": {200, `{"list":[]}`, nil, "cannot unmarshal", 0},
		"cut":       {200, outlier[:40], nil, "unexpected end", 0},
		"no answer": {204, "", nil, "answers 204", 0}, "accepted": {202, "[]", nil, "answers 202", 0},
		"refused": {403, "Bearer hunter2", ErrToken, "", 0}, "unknown": {401, "", ErrToken, "", 0},
		"missing": {404, "", fs.ErrNotExist, "", 0}, "later": {503, "", nil, "answers 503", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			query := make(chan url.Values, 3)
			h := serve(t, 0o600, func(w http.ResponseWriter, r *http.Request) {
				if route := r.Method + " " + r.URL.Path; route != "GET /v1/outliers" && route != "DELETE /v1/builds" || r.Header.Get("Authorization") != "Bearer hunter2" {
					t.Error(route, r.Header)
				}
				query <- r.URL.Query()
				w.Header().Set("Retry-After", "60")
				w.WriteHeader(c.status)
				io.WriteString(w, c.text)
			})
			check := func(what string, n int, err error, want url.Values) {
				t.Helper()
				if got := <-query; got.Encode() != want.Encode() {
					t.Errorf("%s asks for %v, want %v", what, got, want)
				}
				isList := c.want == nil && c.says == "" && (what != "outliers" || name != "many")
				switch {
				case isList && (err != nil || n != c.outliers):
					t.Errorf("%s: %d, %v", what, n, err)
				case !isList && (err == nil || n > 0):
					t.Errorf("%s: %d, no error", what, n)
				case c.want != nil && !errors.Is(err, c.want) || err != nil && (!strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "hunter2")):
					t.Errorf("%s: %v", what, err)
				case c.status == 503 && After(err) != time.Minute:
					t.Errorf("%s: again after %v", what, After(err))
				}
			}
			outliers, err := h.Outliers(t.Context(), "0a&target=all")
			check("outliers", len(outliers), err, url.Values{"instance": {"0a&target=all"}})
			if len(outliers) == 1 && (outliers[0].Target != "web" || outliers[0].Others != 41 || outliers[0].Class != 1) {
				t.Errorf("%+v", outliers)
			}
			builds, err := h.Delete(t.Context(), "web&x", "")
			check("delete", len(builds), err, url.Values{"target": {"web&x"}})
			builds, err = h.Delete(t.Context(), "web", "1f 0c")
			check("delete", len(builds), err, url.Values{"target": {"web"}, "build": {"1f 0c"}})
		})
	}
}

// TestDeletionIsNoQuestion: a redirect that turns a deletion into a question for builds deletes nothing, and is an error.
func TestDeletionIsNoQuestion(t *testing.T) {
	t.Parallel()
	h := serve(t, 0o600, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodDelete {
			http.Redirect(w, r, "/v1/builds/?"+r.URL.RawQuery, http.StatusFound)
			return
		}
		io.WriteString(w, `[{"target":"web","build":"1f0c"}]`)
	})
	if list, err := h.Delete(t.Context(), "web", ""); err == nil || len(list) > 0 || !strings.Contains(err.Error(), "redirects a DELETE to a GET") {
		t.Errorf("%v is said to be deleted: %v", list, err)
	}
}

// TestFanIn: the file of a build comes with its tag, and once. What is no tag is none, and what is too much or another
// answer is an error.
func TestFanIn(t *testing.T) {
	t.Parallel()
	of := Build{Target: "web", Build: "1f&0c", Unit: "cpu/nanoseconds"}
	for name, c := range map[string]struct {
		status      int
		file        string
		known, tag  string // of the request, and of the answer
		want, wants string // tag and file
		err         error  // nil and wants nothing: none
	}{
		"new": {200, "file", "", `"7-1"`, `"7-1"`, "file", nil}, "changed": {200, "file", `"6-1"`, `"7-1"`, `"7-1"`, "file", nil},
		"unchanged": {304, "", `"7-1"`, "", `"7-1"`, "", nil}, "no tag": {200, "file", "", "", "", "file", nil},
		"a long tag": {200, "file", "", strings.Repeat("t", 200), "", "file", nil}, "a foreign tag": {200, "file", "", "\"a b\"", "", "file", nil},
		"missing": {404, "hunter2", "", "", "", "", fs.ErrNotExist}, "refused": {403, "hunter2", "", "", "", "", ErrToken},
		"304 of nothing": {304, "", "", "", "", "", errors.ErrUnsupported},
		"huge":           {200, strings.Repeat("x", mostFanIn+1), "", "", "", "", errors.ErrUnsupported},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := serve(t, 0o600, func(w http.ResponseWriter, r *http.Request) {
				if q := r.URL.Query(); r.Method+r.URL.Path != "GET/v1/fanin" || q.Get("target") != "web" || q.Get("build") != "1f&0c" || q.Get("unit") != of.Unit || r.Header.Get("If-None-Match") != c.known {
					t.Errorf("%s %s %v", r.Method, r.URL, r.Header)
				}
				w.Header().Set("ETag", c.tag)
				w.WriteHeader(c.status)
				io.WriteString(w, c.file)
			})
			file, tag, err := h.FanIn(t.Context(), of, c.known)
			switch {
			case c.err == nil && (err != nil || string(file) != c.wants || tag != c.want || (file == nil) != (c.status == 304)):
				t.Errorf("%q, tag %q, error %v", file, tag, err)
			case c.err != nil && (err == nil || file != nil || strings.Contains(err.Error(), "hunter2") || !errors.Is(c.err, errors.ErrUnsupported) && !errors.Is(err, c.err)):
				t.Errorf("%d bytes, error %v", len(file), err)
			}
		})
	}
}

// TestFanInOf: keys go as JSON, and entries come as the hub says.
func TestFanInOf(t *testing.T) {
	t.Parallel()
	h := serve(t, 0o600, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.Method+r.URL.Path != "POST/v1/fanin" || r.URL.Query().Get("target") != "web" || string(body) != `{"methods":[{"method":"a"},{"method":"b","body":"7"}]}` {
			t.Errorf("%s %s %s", r.Method, r.URL, body)
		}
		io.WriteString(w, `{"methods": 9, "list": [{"Name": "a", "Samples": 3, "Other": 3}], "next": 1}`)
	})
	found, err := h.FanInOf(t.Context(), Build{Target: "web"}, []fleet.Wanted{{Method: "a"}, {Method: "b", Body: "7"}})
	if err != nil || found.Methods != 9 || found.Next != 1 || len(found.List) != 1 || found.List[0].Samples != 3 {
		t.Errorf("%+v, error %v", found, err)
	}
}
