package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/internal/programtest"
	"github.com/ccmapd/ccmapd/internal/testrun"
)

// asFastHub has the test's program be a hub, for whose sums an hour passes each second.
const asFastHub = "CCMAPD_TEST_AS_FAST_HUB"

func fastHub() int {
	s, err := parse(os.Args[1:], os.Stderr)
	if err == nil {
		begin := time.Now()
		s.hub.Now = func() time.Time { return begin.Add(3600 * time.Since(begin)) }
		err = serve(s, os.Stdout, slog.New(slog.NewTextHandler(os.Stderr, nil)))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// request asks the hub with a token, and returns the status.
func request(t *testing.T, method, url, token string, body []byte) int {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	return answer.StatusCode
}

// outlierEvents returns the texts of the events about outliers, as the command prints them.
func (m *machine) outlierEvents(t *testing.T) (texts []string) {
	t.Helper()
	cmd := exec.Command(m.ccmapd, "events", "--json")
	cmd.Env = append(os.Environ(), "CCMAPD_SOCKET="+m.dir+"/s.sock")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		var e struct{ Kind, Target, Text string }
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		if e.Kind == "outlier" {
			texts = append(texts, e.Target+": "+e.Text)
		}
	}
	return texts
}

// TestLoopOutlier: a real daemon learns from a real hub that its program differs from those of twelve other instances of
// the build, which are simulated, and that it does no more when the build is deleted.
func TestLoopOutlier(t *testing.T) {
	t.Parallel()
	ccmapd := daemonProgram(t)
	if text, err := exec.Command(ccmapd, "doctor").CombinedOutput(); err != nil {
		testrun.Lacks(t, "no engine is permitted: %s", text)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := programtest.PublicDir(t, 0o700)
	sum := func(token string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(token))) }
	tokens := fmt.Sprintf("write %s * web\nread %s - web\ndelete %s - web\n", sum("writer"), sum("reader"), sum("deleter"))
	if err := os.WriteFile(dir+"/tokens", []byte(tokens), 0o600); err != nil {
		t.Fatal(err)
	}
	hub := exec.Command(self, "--dir", dir+"/bucket", "--tokens", dir+"/tokens", "--listen", "127.0.0.1:0", "--window", "10ms", "--round", "300ms")
	hub.Env = append(os.Environ(), asFastHub+"=1")
	at := strings.TrimPrefix(started(t, hub, "ccmapd-hub listens at "), "ccmapd-hub listens at ")
	m := newMachine(t, ccmapd, at)
	m.work(t)

	var list []struct{ Build string }
	await(t, "the build of the daemon's program", func() bool {
		list = nil
		return json.NewDecoder(ask(t, at, "builds").Body).Decode(&list) == nil && len(list) == 1
	})
	usual := slices.Concat(slices.Repeat([]string{"main.parse"}, 200), slices.Repeat([]string{"main.render"}, 150), slices.Repeat([]string{"main.reply"}, 50))
	seq := 0
	await(t, "the event of the outlier", func() bool {
		seq++
		for i := range 12 {
			frame, _ := contributionOf(t, "web", list[0].Build, i+1, seq, usual...)
			if status := request(t, "POST", "http://"+at+"/v1/contributions", "writer", frame); status != http.StatusNoContent && status != http.StatusServiceUnavailable {
				t.Fatalf("contribution: status %d", status)
			}
		}
		texts := m.outlierEvents(t)
		return len(texts) > 0 && strings.HasPrefix(texts[len(texts)-1], "web: this machine differs from 1")
	})
	if status := request(t, "DELETE", "http://"+at+"/v1/builds?target=web", "deleter", nil); status != http.StatusOK {
		t.Fatalf("delete: status %d", status)
	}
	await(t, "the event of its end", func() bool {
		texts := m.outlierEvents(t)
		return strings.HasPrefix(texts[len(texts)-1], "web: this machine does not differ from the others of build ")
	})
}
