package main

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ccmapd/ccmapd/internal/daemon"
)

// TestServeAnswers: a daemon that samples real programs answers commands as a file of the same
// profile does, and 'go tool pprof' by URL.
func TestServeAnswers(t *testing.T) {
	needEngine(t)
	t.Parallel()
	s := startServed(t, "")
	s.workload(t)
	s.listen(t)
	s.workload(t)
	s.await(t, "two programs are sampled", func(target daemon.TargetStatus) bool {
		return len(target.Processes) == 2 && target.Status.Samples >= 20
	})
	web := daemonAt(t, s.socket)
	pprof := exec.Command("go", "tool", "pprof", "-top", "-nodecount=5", web.URL+"/targets/web/profile.pb.gz?seconds=1")
	pprof.Env = append(os.Environ(), "PPROF_TMPDIR="+t.TempDir())
	if out, err := pprof.CombinedOutput(); err != nil || !strings.Contains(string(out), "flat%") {
		t.Errorf("go tool pprof: %v\n%s", err, out)
	}
	s.standStill(t, web.URL)

	file := filepath.Join(t.TempDir(), "saved.xml")
	if got := ccmapdAt(t, s.socket, "convert", "@web", file); got.code != exitOK {
		t.Fatal(got.stderr)
	}
	for _, args := range [][]string{{"top", "@web"}, {"top", "--recent", "--json", "@web"}, {"sites", "--json", "@web"}, {"contexts", "@web", "--match", "."}} {
		got := ccmapdAt(t, s.socket, args...)
		for i, arg := range args {
			args[i] = strings.ReplaceAll(arg, "@web", file)
		}
		want := ccmapdAt(t, s.socket, args...)
		if diff := cmp.Diff(strings.ReplaceAll(want.stdout, file, "@web"), got.stdout); diff != "" || got.code != exitOK {
			t.Errorf("%q of a target exits with %d: %s\n%s", args, got.code, got.stderr, diff)
		}
	}
	if got := ccmapdAt(t, s.socket, "overlap", "@web", file); got.code != exitOK || !strings.Contains(got.stdout, "contexts   100.0%") {
		t.Errorf("overlap exits with %d\n%s%s", got.code, got.stdout, got.stderr)
	}
}

// standStill pauses the target, and waits until its profile does not change any more.
func (s *servedDaemon) standStill(t *testing.T, daemonURL string) {
	t.Helper()
	answer, err := http.Post(daemonURL+"/v1/targets/web/pause", "", nil)
	if err != nil || answer.StatusCode != http.StatusAccepted {
		t.Fatal(answer, err)
	}
	answer.Body.Close()
	var last string
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		got := ccmapdAt(t, s.socket, "top", "--json", "@web")
		if got.stdout == last && strings.Contains(last, `"ended": "stopped: paused"`) {
			return
		}
		last = got.stdout
	}
	t.Fatalf("the profile of a paused target goes on: %s", last)
}

// daemonAt serves a daemon's socket at a URL.
func daemonAt(t *testing.T, socket string) *httptest.Server {
	t.Helper()
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: "ccmapd"})
	proxy.Transport = &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}
	server := httptest.NewServer(proxy)
	t.Cleanup(server.Close)
	return server
}
