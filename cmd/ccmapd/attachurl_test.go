package main

import (
	"bytes"
	"compress/gzip"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/internal/profiletest"
)

// serveOwnProfile serves the same profile again and again.
func serveOwnProfile(t *testing.T) *httptest.Server {
	t.Helper()
	var profile bytes.Buffer
	z := gzip.NewWriter(&profile)
	if err := errors.Join(export.Write(z, export.Pprof, profiletest.Blind("", 0).Snapshot()), z.Close()); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/debug/pprof/profile" && r.Header.Get("Authorization") == "Bearer secret":
			w.Write(profile.Bytes())
		case r.Header.Get("Authorization") != "Bearer secret":
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	t.Cleanup(server.Close)
	return server
}

// TestAttachURL: the profiles of a server become one file, and the report says what they lack.
func TestAttachURL(t *testing.T) {
	t.Parallel()
	server := serveOwnProfile(t)
	dir := t.TempDir()
	token, out := filepath.Join(dir, "token"), filepath.Join(dir, "out.json")
	if err := os.WriteFile(token, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := runEngines(t, nil, "attach", server.URL, "--bearer-file", token, "-d", "4s", "-o", out)
	if r.code != exitOK || !strings.Contains(r.stderr, "by pprofhttp (its own profiler, over HTTP)") || !strings.Contains(r.stderr, "receivers are not known") ||
		!strings.Contains(r.stdout, "main.main") || !strings.Contains(r.stdout, "because a pprof endpoint tells no calls") {
		t.Errorf("%+v", r)
	}
	m, _, err := export.ReadFile(out, export.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s := m.Snapshot()
	if n := s.Total().Samples; n != 50 || s.Meta().Engine != "pprofhttp" {
		t.Errorf("%d samples by engine %q", n, s.Meta().Engine)
	}
}

// TestAttachURLRefusals: flags that do not apply, and servers that refuse.
func TestAttachURLRefusals(t *testing.T) {
	t.Parallel()
	server := serveOwnProfile(t)
	for args, want := range map[string]result{
		server.URL + " --interval 1ms":   {exitUsage, "", "--interval does not apply to a URL: the program's own profiler samples it"},
		server.URL + " --hits 7":         {exitUsage, "", "--hits does not apply to a URL: the program decides which calls its profiles have"},
		server.URL + " --max-overhead 3": {exitUsage, "", "decides what sampling costs"},
		server.URL + " --labels=false":   {exitUsage, "", "convert --labels=false"},
		server.URL + " -o web-%p.pb.gz":  {exitUsage, "", "which a URL has not"},
		server.URL:                       {exitPermission, "", "--bearer-file or --basic-file names the credentials"},
		"http://127.0.0.1:1":             {exitNoTarget, "", "import net/http/pprof"},
		"1 --bearer-file token":          {exitUsage, "", "--bearer-file is for a URL, not for a process"},
		"1 --ca-file ca.pem":             {exitUsage, "", "--ca-file is for a URL, not for a process"},
	} {
		r := runEngines(t, nil, append([]string{"attach"}, strings.Fields(args)...)...)
		if r.code != want.code || !strings.Contains(r.stderr, want.stderr) {
			t.Errorf("attach %s: %+v, want %+v", args, r, want)
		}
	}
}

// TestNameOfURL: without -o, the host names the file.
func TestNameOfURL(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"http://web.example:6060/debug/pprof": "ccmapd-web.example-6060.pb.gz",
		"https://[::1]:6060":                  "ccmapd----1--6060.pb.gz",
		"http://../../etc":                    "ccmapd-...pb.gz",
	} {
		f := newSamplingFlags(nil)
		cmd := newAttachCmd(&environment{}).Command
		if err := f.forURL(cmd, address); err != nil || len(f.outputs) != 1 || f.outputs[0] != want {
			t.Errorf("%s: %q, %v", address, f.outputs, err)
		}
	}
}

// TestAttachURLWithoutProfiles: where no request succeeds, attach fails, in time and also with -q, and writes nothing.
func TestAttachURLWithoutProfiles(t *testing.T) {
	t.Parallel()
	for name, answers := range map[string]http.HandlerFunc{
		"busy": func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/debug/pprof/profile" {
				http.Error(w, "cpu profiling already in use", http.StatusInternalServerError)
			}
		},
		"hangs": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"hangs at profiles": func(_ http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/debug/pprof/profile" {
				<-r.Context().Done()
			}
		},
		"slow": func(_ http.ResponseWriter, _ *http.Request) { time.Sleep(700 * time.Millisecond) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(answers)
			defer server.Close()
			out, began := filepath.Join(t.TempDir(), "out.pb.gz"), time.Now()
			r := runEngines(t, nil, "attach", server.URL, "-q", "-d", "2s", "-o", out)
			if took := time.Since(began); took > 8*time.Second {
				t.Errorf("2 s took %v", took)
			}
			if r.code != exitFailed || !strings.Contains(r.stderr, "ccmapd: ") || r.stdout != "" {
				t.Errorf("%+v", r)
			}
			if _, err := os.Stat(out); err == nil {
				t.Error("an empty profile was written")
			}
		})
	}
}
