package served

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// serve starts a server, and returns the way to it, with a token.
func serve(t *testing.T, answer http.HandlerFunc) *Server {
	t.Helper()
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	base, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("hunter2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := New(base.JoinPath("below"), Options{Credentials: Credentials{BearerFile: token, Private: true}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// TestDelete: what is named goes to the server as it was given, without a body, and with the token.
func TestDelete(t *testing.T) {
	t.Parallel()
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if r.Method != http.MethodDelete || r.RequestURI != "/below/a%2Fb/..%3F?x=1&y=%2F" || len(body) > 0 || err != nil ||
			r.Header.Get("Authorization") != "Bearer hunter2" || r.Header.Get("Accept-Encoding") != "" {
			t.Errorf("%s %s %v, %d bytes, %v", r.Method, r.RequestURI, r.Header, len(body), err)
		}
		w.WriteHeader(http.StatusTeapot)
	})
	answer, err := s.Delete(t.Context(), "x=1&y=%2F", "a/b", "..?")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusTeapot {
		t.Errorf("status %d", answer.StatusCode)
	}
}

// TestRedirects: a redirect is followed within the server, if what was to be done stays what it is.
func TestRedirects(t *testing.T) {
	t.Parallel()
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { t.Errorf("%s %s went elsewhere", r.Method, r.URL) }))
	defer elsewhere.Close()
	for _, test := range []struct {
		status     int
		to         string
		gets, does bool // a GET is followed; a DELETE or a POST is
	}{
		{http.StatusFound, "/done", true, false},
		{http.StatusSeeOther, "/done", true, false},
		{http.StatusMovedPermanently, "/done", true, false},
		{http.StatusTemporaryRedirect, "/done", true, true},
		{http.StatusPermanentRedirect, "/done", true, true},
		{http.StatusTemporaryRedirect, "/below/again", false, false},
		{http.StatusTemporaryRedirect, elsewhere.URL + "/done", false, false},
	} {
		s := serve(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/done" {
				http.Redirect(w, r, test.to, test.status)
				return
			}
			io.WriteString(w, r.Method)
		})
		for method, do := range map[string]func() (*http.Response, error){
			http.MethodGet:    func() (*http.Response, error) { return s.Get(t.Context(), "", "", "first") },
			http.MethodDelete: func() (*http.Response, error) { return s.Delete(t.Context(), "", "first") },
			http.MethodPost:   func() (*http.Response, error) { return s.Post(t.Context(), []byte("body"), "", "first") },
		} {
			want := test.does || test.gets && method == http.MethodGet
			answer, err := do()
			if (err == nil) != want || err != nil && (!errors.Is(err, ErrRedirect) || strings.Contains(err.Error(), "hunter2")) {
				t.Errorf("%s, %d to %s: %v", method, test.status, test.to, err)
			}
			if answer == nil || err != nil {
				continue
			}
			text, _ := io.ReadAll(answer.Body)
			answer.Body.Close()
			if string(text) != method {
				t.Errorf("%s became %s", method, text)
			}
		}
	}
}
