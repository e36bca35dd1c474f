package api

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/ccmapd/ccmapd/internal/daemon"
	"github.com/ccmapd/ccmapd/internal/programtest"
	"github.com/ccmapd/ccmapd/sampler/engine"
)

// lockedText is a log that may be read while it is written.
type lockedText struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lockedText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lockedText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// TestAudit: the log says who has done what. A client that may not has done nothing.
func TestAudit(t *testing.T) {
	t.Parallel()
	own := os.Getpid()
	f := newFake()
	f.attached = daemon.TargetStatus{Name: "new", Owners: ownedBy(0)}
	var log lockedText
	s := newServer(t, f, Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	s.doctors.diagnose = func(context.Context, int) engine.Report { return engine.Report{} }
	root := peer{known: true, reads: true, master: true, gid: 7, pid: 4711}
	const who = " uid=0 gid=7 client=4711 user=root\n"
	for _, test := range []struct {
		request, body, want string
	}{
		{"POST /v1/targets", fmt.Sprintf(`{"pid": %d}`, own), fmt.Sprint(`msg="a client has attached" target=new pid=`, own, who)},
		{"DELETE /v1/targets/new", "", `msg="a client has detached" target=new` + who},
		{"POST /v1/targets/web/pause", "", `msg="a client has changed a target" target=web action=pause` + who},
		{"POST /v1/reload", "", `msg="a client reloads the configuration" loaded=true` + who},
		{fmt.Sprint("GET /v1/doctor?pid=", own), "", fmt.Sprint(`msg="a client asks doctor about a process" pid=`, own, who)},
		{fmt.Sprint("GET /v1/doctor?pid=", own), "", ""}, // it was made
		{"POST /v1/targets/web/x\x1b", "", ""},
		{"GET /v1/targets", "", ""},
	} {
		before := len(log.String())
		method, path, _ := strings.Cut(test.request, " ")
		r := httptest.NewRequest(method, strings.ReplaceAll(path, "\x1b", "%1b"), strings.NewReader(test.body))
		w := ask(s, root, r)
		if text := log.String()[before:]; test.want == "" && text != "" || !strings.HasSuffix(text, test.want) || strings.Count(text, "\n") > 1 {
			t.Errorf("%s: %d, %q, want %q", test.request, w.Code, text, test.want)
		}
	}
	before := len(log.String())
	ask(s, userOf(4242), httptest.NewRequest("POST", "/v1/reload", nil))
	ask(s, onTCP, httptest.NewRequest("DELETE", "/v1/targets/web", nil))
	if text := log.String()[before:]; strings.Contains(text, "a client") {
		t.Errorf("clients that may not: %s", text)
	}
	f.attach = func(context.Context) error { return errors.New("refused: \x1b]0;x\n") }
	ask(s, root, httptest.NewRequest("POST", "/v1/targets", strings.NewReader(`{"pid": 1}`)))
	if text := log.String(); !strings.Contains(text, `msg="a client could not attach" pid=1 error="refused: \x1b]0;x\n"`+who) || strings.Contains(text, "\x1b") {
		t.Errorf("an attempt: %q", text)
	}
}

// TestAuditOfSocket: the kernel says who the client is, and one client's lines are bounded.
func TestAuditOfSocket(t *testing.T) {
	t.Parallel()
	needRoot(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	f, child := newFake(), exec.Command("sleep", "600")
	child.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { child.Process.Kill(); child.Wait() })
	f.attach = func(context.Context) error { return errors.New("not now") }
	var log lockedText
	socket := filepath.Join(programtest.PublicDir(t, 0o755), "s")
	s := newServer(t, f, Options{Socket: socket, Open: true, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	listenAndServe(t, s)
	attach := fmt.Sprintf(`POST /v1/targets {"pid":%d}`, child.Process.Pid)
	program := programtest.Copy(t, self, "client")
	askAsUser(t, program, nobody, nobody, socket, attach)
	line := fmt.Sprintf(`msg="a client could not attach" pid=%d error="not now" uid=%d gid=%d client=`, child.Process.Pid, nobody, nobody)
	if text := log.String(); !strings.Contains(text, line) {
		t.Errorf("the log has %s, want %s", text, line)
	}
	var many []string
	for range 3 * auditBurst {
		many = append(many, attach)
	}
	askAsUser(t, program, nobody, nobody, socket, many...)
	askAsUser(t, program, 0, 0, socket, "POST /v1/reload")
	s.audit.Flush()
	text := log.String()
	if n := strings.Count(text, "could not attach"); n < auditBurst || n >= 3*auditBurst || !strings.Contains(text, `left out: too many" of=65534 lines=`) || !strings.Contains(text, "reloads the configuration") {
		t.Errorf("%d lines: %s", n, text)
	}
}
