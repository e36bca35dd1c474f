package sources

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestRead: paths of profiles lead to files of the directory, and to nothing else.
func TestRead(t *testing.T) {
	t.Parallel()
	above := t.TempDir()
	dir := filepath.Join(above, "proj")
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(above, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("secret.go", "secret")
	write("other/pkg/a.go", "other")
	write("proj/main.go", "main")
	write("proj/pkg/a.go", "a")
	write("proj/pkg/doc.go", "doc")
	write("proj/large.go", strings.Repeat("x", mostBytes+1))
	for link, to := range map[string]string{"link.go": "../secret.go", "whole": "/", "up": ".."} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mkfifo(filepath.Join(dir, "pipe.go"), 0o644); err != nil {
		t.Fatal(err)
	}
	d, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	server := d.Handler(http.NotFoundHandler())
	for file, want := range map[string]string{
		"main.go": "main", "pkg/a.go": "a", "/home/me/build/proj/pkg/a.go": "a", "github.com/me/proj/pkg/a.go": "a",
		"/elsewhere/proj/main.go": "main", "C:/src/proj/main.go": "main", "./pkg/../pkg/a.go": "a", "/../../proj/pkg/a.go": "a",
		"": "", "/": "", "pkg": "", "none.go": "", "/other/main.go": "", "/usr/lib/go/src/net/doc.go": "",
		"../secret.go": "", "../../proj/../secret.go": "", "link.go": "", "whole/etc/passwd": "", "/whole/etc/passwd": "", "up/secret.go": "",
		"../other/pkg/a.go": "a", "pipe.go": "", "large.go": "", "main.go\x00": "", "/proc/self/environ": "", "/dev/zero": "",
		strings.Repeat("a/", mostPath) + "main.go": "", strings.Repeat("../", 100) + "etc/passwd": "",
	} {
		w := httptest.NewRecorder()
		server.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/v1/source?file="+url.QueryEscape(file), nil))
		var a answerJSON
		if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(a.Lines, "\n"); got != want {
			t.Errorf("%.60q: %.60q, want %q", file, got, want)
		}
	}
	w := httptest.NewRecorder()
	if server.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/v1/source?file=main.go", nil)); w.Code == http.StatusOK {
		t.Error("POST is answered")
	}
}

// TestOpenNothing: what is no directory is an error, and without one all is passed on.
func TestOpenNothing(t *testing.T) {
	t.Parallel()
	if _, err := Open(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a directory that is missing is opened")
	}
	var d *Dir
	w := httptest.NewRecorder()
	d.Handler(http.NotFoundHandler()).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/v1/source?file=a", nil))
	if w.Code != http.StatusNotFound {
		t.Error(w.Code)
	}
}
