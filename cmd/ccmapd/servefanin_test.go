package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/cmd/ccmapd/internal/demo"
	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/internal/daemon"
	"github.com/ccmapd/ccmapd/internal/fanin"
	"github.com/ccmapd/ccmapd/internal/programtest"
)

// fansHub is a hub that takes what it is sent, and says of fan-in what it is told to. mu guards the rest.
type fansHub struct {
	*httptest.Server
	mu   sync.Mutex
	file []byte // nil: it does not know the build
	tag  string
	sent int // files
}

func newFansHub(t *testing.T) *fansHub {
	h := new(fansHub)
	h.Server = httptest.NewServer(h)
	t.Cleanup(h.Close)
	return h
}

func (h *fansHub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch what := r.Method + " " + r.URL.Path; {
	case what == "POST /v1/contributions":
		io.Copy(io.Discard, r.Body)
		w.WriteHeader(http.StatusNoContent)
	case what != "GET /v1/fanin" || h.file == nil:
		w.WriteHeader(http.StatusNotFound)
	case r.Header.Get("If-None-Match") == h.tag:
		w.WriteHeader(http.StatusNotModified)
	default:
		h.sent++
		w.Header().Set("ETag", h.tag)
		w.Write(h.file)
	}
}

func (h *fansHub) says(tag string, file []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tag, h.file = tag, file
}

// fanIn returns what the daemon says of the fan-in that it keeps.
func (s *servedDaemon) fanIn(t *testing.T) daemon.FanInOfFleet {
	t.Helper()
	out, _ := s.ask(t, "status", "--json")
	var is struct{ Hub *daemon.Sending }
	if err := json.Unmarshal([]byte(out), &is); err != nil || is.Hub == nil || is.Hub.FanIn == nil {
		return daemon.FanInOfFleet{}
	}
	return *is.Hub.FanIn
}

// awaitFanIn waits until what is kept is as wanted.
func (s *servedDaemon) awaitFanIn(t *testing.T, what string, is func(daemon.FanInOfFleet) bool) {
	t.Helper()
	s.await(t, what, func(daemon.TargetStatus) bool { return is(s.fanIn(t)) })
}

// fleetOf returns what a fleet may know: a profile many times over, and a method that it has not.
func fleetOf(t *testing.T, profile string) []byte {
	t.Helper()
	one, _, err := export.Read(strings.NewReader(profile), export.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	all := ccmap.New(ccmap.Options{})
	for range 2000 {
		if err := all.Merge(one.Snapshot()); err != nil {
			t.Fatal(err)
		}
	}
	names := all.Names()
	secret := ccmap.Frame{Method: names.Intern(ccmap.Method{Name: "main.secret", Body: 7})}
	all.Fold(&ccmap.Sample{Frames: []ccmap.Frame{{Method: names.Intern(ccmap.Method{Name: "main.other", Body: 8})}, secret}, Weight: 1, Fresh: ccmap.FreshUnknown})
	return fanin.Encode(fanin.Of(all.Snapshot()))
}

// TestServeFanIn: a real daemon gets from a hub from where methods are called, and once. Root sees all of it, the user of
// the program the methods of that program, and another user nothing. A hub that lies changes nothing, and a daemon that
// begins without the hub still has it.
func TestServeFanIn(t *testing.T) {
	t.Parallel()
	needEngine(t)
	needRoot(t)
	hub := newFansHub(t)
	token := filepath.Join(programtest.PublicDir(t, 0o700), "token")
	if err := os.WriteFile(token, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := startServed(t, fmt.Sprintf("[hub]\nurl = %q\ntoken_file = %q\nread_token_file = %q\nevery = \"1s\"\n", hub.URL, token, token))
	openToAll(t, s)
	ofUser := &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	work := exec.Command(s.program, demo.Command, "-rest", "2ms")
	work.SysProcAttr = ofUser
	in, err := work.StdinPipe() // it ends with its input
	if err != nil {
		t.Fatal(err)
	}
	start(t, work)
	t.Cleanup(func() { in.Close() })
	s.listen(t)
	s.await(t, "samples", func(st daemon.TargetStatus) bool { return st.Status.Samples > 50 })
	profile, err := s.ask(t, "convert", "@web", "-", "--to", "json")
	if err != nil {
		t.Fatal(err)
	}
	whole := fleetOf(t, profile)
	list, err := fanin.Read(whole)
	if err != nil {
		t.Fatal(err)
	}
	hub.says(`"1"`, whole)
	s.awaitFanIn(t, "fan-in of the fleet", func(is daemon.FanInOfFleet) bool {
		return is.Fetched == 1 && is.Unchanged >= 2 && is.Methods == len(list) && is.Created == len(list)
	})
	ccmapd := programtest.Copy(t, s.Path, "ccmapd")
	s.checkFanIn(t, ccmapd, len(list))

	for i, lie := range [][]byte{bytes.Repeat([]byte("x"), 9<<20), whole[:len(whole)-1], []byte("<html>")} {
		before := s.fanIn(t)
		hub.says(fmt.Sprint(i+2), lie)
		s.awaitFanIn(t, "a lie that is found out", func(is daemon.FanInOfFleet) bool {
			return is.Failures > before.Failures && is.Reason != "" && is.Methods == len(list) && is.Fetched == 1
		})
	}
	for args, want := range map[string]string{"status": fmt.Sprintf("Fan-in of the fleet: %d methods of 1 program.", len(list)), "doctor @": "no fan-in of the fleet: GET " + hub.URL} {
		out, _ := s.ask(t, strings.Fields(args)...)
		if out = strings.Join(strings.Fields(out), " "); !strings.Contains(out, want) || !strings.Contains(out, "damaged file of fan-in") {
			t.Errorf("ccmapd %s: %s", args, out)
		}
	}
	hub.Close()
	if err := s.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := s.Wait(); err != nil {
		t.Errorf("serve ended with %v", err)
	}
	again := exec.Command(s.Path, s.Args[1:]...)
	again.Env = s.Env
	s.Cmd = again
	s.listen(t)
	s.await(t, "samples after the restart", func(st daemon.TargetStatus) bool { return len(st.Processes) == 1 && st.Status.Samples > 0 })
	s.checkFanIn(t, ccmapd, len(list))
	hub.mu.Lock()
	defer hub.mu.Unlock()
	if hub.sent == 0 || hub.sent > 200 {
		t.Errorf("the hub has sent %d files", hub.sent)
	}
}

// isKnownMore reports whether the fleet knows more of an own method.
func isKnownMore(m fanInMethod) bool {
	return m.From == "shared" && m.Places > 0 && m.OwnSamples != nil
}

// checkFanIn asks as root, as the user of the program, and as another one.
func (s *servedDaemon) checkFanIn(t *testing.T, ccmapd string, methods int) {
	t.Helper()
	as := func(uid uint32, args ...string) (string, error) {
		ask := exec.Command(ccmapd, args...)
		ask.Dir, ask.Env = "/", s.Env
		ask.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
		out, err := ask.CombinedOutput()
		return string(out), err
	}
	for uid, sees := range map[uint32]bool{0: true, nobody: false} {
		var answer fanInAnswer
		var out string
		var err error
		s.await(t, "samples of code that the fleet has", func(daemon.TargetStatus) bool { // a busy machine tells late which code was sampled
			answer = fanInAnswer{}
			out, err = as(uid, "fanin", "@web", "--json", "-n", "0")
			return json.Unmarshal([]byte(out), &answer) != nil || slices.ContainsFunc(answer.Methods, isKnownMore)
		})
		if json.Unmarshal([]byte(out), &answer) != nil || err != nil || answer.Shared == nil || strings.Contains(out, "main.secret") != sees {
			t.Fatalf("user %d: %v, %.2000s", uid, err, out)
		}
		if n := answer.Shared.Methods; sees != (n == methods) || n == 0 {
			t.Errorf("user %d is told of %d methods of %d", uid, n, methods)
		}
		i := slices.IndexFunc(answer.Methods, isKnownMore)
		if i < 0 {
			t.Fatalf("user %d: of no own method the fleet knows more: %.2000s", uid, out)
		}
		if out, err := as(uid, "contexts", "@web", answer.Methods[i].Method); err != nil || !strings.Contains(out, "in the whole fleet") {
			t.Errorf("user %d, %s: %v, %s", uid, answer.Methods[i].Method, err, out)
		}
	}
	if out, err := as(aStoreUser, "fanin", "@web"); err == nil || strings.Contains(out, "fleet") {
		t.Errorf("another user: %v, %s", err, out)
	}
}
