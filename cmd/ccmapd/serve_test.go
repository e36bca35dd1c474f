package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/cmd/ccmapd/internal/demo"
	"github.com/ccmapd/ccmapd/daemon/client"
	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/internal/daemon"
	"github.com/ccmapd/ccmapd/internal/programtest"
	"github.com/ccmapd/ccmapd/internal/store"
)

// servedDaemon is a daemon with a socket, and a target for the programs of a test.
type servedDaemon struct {
	*exec.Cmd
	socket, store, program string
}

// startServed starts ccmapd serve with a target for copies of this program.
func startServed(t *testing.T, more string) *servedDaemon {
	t.Helper()
	dir := programtest.PublicDir(t, 0o700)
	ccmapd, err := exec.LookPath("ccmapd")
	if err != nil {
		t.Fatal(err)
	}
	s := &servedDaemon{socket: filepath.Join(dir, "s.sock"), store: filepath.Join(dir, "store"), program: programtest.Copy(t, ccmapd, "ccmapd")}
	file := filepath.Join(dir, "ccmapd.toml")
	text := fmt.Sprintf("[listen]\nsocket = %q\ngroup = \"\"\n[store]\nfiles = true\ndir = %q\nevery = \"1s\"\n[[target]]\nname = \"web\"\nmatch = { exe = %q }\n%s", s.socket, s.store, s.program, more)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s.Cmd = exec.Command(ccmapd, "serve", "--config", file)
	s.Env = append(os.Environ(), "CCMAPD_SOCKET="+s.socket)
	return s
}

// listen starts the daemon, and waits until it answers.
func (s *servedDaemon) listen(t *testing.T) {
	t.Helper()
	lines := startWithLines(t, s.Cmd)
	waitForLine(t, lines, "Listening on "+s.socket)
	go func(lines *bufio.Scanner) {
		for lines.Scan() { // or the daemon would wait for a reader
		}
	}(lines)
}

// workload starts a program that the target fits. It rests for most of the time.
func (s *servedDaemon) workload(t *testing.T) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(s.program, demo.Command, "-rest", "5ms")
	in, err := cmd.StdinPipe() // it ends with its input
	if err != nil {
		t.Fatal(err)
	}
	start(t, cmd)
	t.Cleanup(func() { in.Close() })
	return cmd
}

// ask runs a command that asks the daemon.
func (s *servedDaemon) ask(t *testing.T, args ...string) (out string, err error) {
	t.Helper()
	cmd := exec.Command(s.Path, args...)
	cmd.Env = s.Env
	cmd.Stderr = io.Discard
	text, err := cmd.Output()
	return string(text), err
}

// await waits until the target "web" is as wanted.
func (s *servedDaemon) await(t *testing.T, what string, is func(daemon.TargetStatus) bool) daemon.TargetStatus {
	t.Helper()
	return s.awaitTarget(t, "web", what, is)
}

func (s *servedDaemon) awaitTarget(t *testing.T, name, what string, is func(daemon.TargetStatus) bool) daemon.TargetStatus {
	t.Helper()
	var list targetList
	var err error
	asked := client.Daemon{Sockets: []string{s.socket}}
	for deadline := time.Now().Add(3 * time.Minute); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		list = targetList{}
		if err = asked.Get(t.Context(), &list, "targets"); err != nil {
			continue
		}
		if i := slices.IndexFunc(list.Targets, func(s daemon.TargetStatus) bool { return s.Name == name && is(s) }); i >= 0 {
			return list.Targets[i]
		}
	}
	t.Fatalf("%s is awaited in vain: %+v, %v", what, list, err)
	return daemon.TargetStatus{}
}

// TestServe: the daemon finds programs that were started before and after it, goes on after a
// restart, answers commands, reloads at SIGHUP, and keeps all that was counted at SIGTERM.
func TestServe(t *testing.T) {
	t.Parallel()
	needEngine(t)
	s := startServed(t, "")
	before := s.workload(t)
	s.listen(t)
	s.workload(t)
	s.await(t, "two sampled processes", func(st daemon.TargetStatus) bool {
		return len(st.Processes) == 2 && st.Processes[0].Status.Samples > 0 && st.Processes[1].Status.Samples > 0
	})
	s.await(t, "samples of the workload itself", func(daemon.TargetStatus) bool {
		out, err := s.ask(t, "top", "@web", "-n", "0")
		return err == nil && strings.Contains(out, "demo.")
	})
	before.Process.Kill()
	s.await(t, "a restart", func(st daemon.TargetStatus) bool { return st.Restarts == 1 })
	s.workload(t)
	after := s.await(t, "the next process", func(st daemon.TargetStatus) bool {
		return len(st.Processes) == 2 && st.Processes[1].Status.Samples > 0
	})
	if err := s.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	s.await(t, "more samples after SIGHUP", func(st daemon.TargetStatus) bool {
		return len(st.Processes) == 2 && st.Processes[0].PID == after.Processes[0].PID && st.Status.Samples > after.Status.Samples
	})
	if err := s.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := s.Wait(); err != nil {
		t.Errorf("serve ended with %v", err)
	}
	samples := samplesIn(t, s.store, "web")
	if samples < int64(after.Status.Samples) {
		t.Errorf("the store has %d samples, and %d were taken", samples, after.Status.Samples)
	}
	if _, err := os.Lstat(s.socket); !os.IsNotExist(err) {
		t.Errorf("the socket is still there: %v", err)
	}
}

// samplesIn returns the samples that a store has of a target, in files and in the log.
func samplesIn(t *testing.T, dir, target string) (samples int64) {
	t.Helper()
	r, err := store.NewReader(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range r.List(store.Filter{Target: target, Running: true}).Entries {
		if e.Kind == store.KindBest {
			continue
		}
		m, err := r.Read(e)
		if errors.Is(err, fs.ErrNotExist) {
			return samplesIn(t, dir, target) // it was filed meanwhile
		}
		if err != nil {
			t.Fatal(err)
		}
		samples += m.Snapshot().Total().Samples
	}
	return samples
}

// TestServeGoesOn: a daemon goes on where one was that was killed: its first answer about each target has all that the
// log had, its processes go on in the same profile, and stored profiles can be named beside live ones.
func TestServeGoesOn(t *testing.T) {
	t.Parallel()
	needEngine(t)
	names, more, programs := []string{"web", "a", "b"}, "", make(map[string]string)
	for _, name := range names[1:] {
		self, err := exec.LookPath("ccmapd")
		if err != nil {
			t.Fatal(err)
		}
		programs[name] = programtest.Copy(t, self, "ccmapd")
		more += fmt.Sprintf("[[target]]\nname = %q\nmatch = { exe = %q }\n", name, programs[name])
	}
	s := startServed(t, more)
	programs["web"] = s.program
	s.listen(t)
	for _, name := range names {
		of := *s
		of.program = programs[name]
		of.workload(t)
	}
	logged := s.awaitLogged(t, names)
	next := s.killed(t)
	first := make(map[string]int64)
	for _, name := range names {
		m, err := (&client.Reader{Sockets: []string{s.socket}}).Read(t.Context(), "@"+name, export.ReadOptions{})
		if err != nil {
			t.Errorf("the first answer about %s: %v", name, err)
			continue
		}
		if first[name] = m.Snapshot().Total().Samples; first[name] < logged[name] {
			t.Errorf("%s: the first answer has %d samples, and the log had %d", name, first[name], logged[name])
		}
	}
	next.await(t, "that the process goes on", func(st daemon.TargetStatus) bool { return st.State == daemon.Sampling && st.Status.Samples > 20 })
	if out, err := next.ask(t, "rotate", "@web"); err != nil {
		t.Fatalf("rotate: %v\n%s", err, out)
	}
	for _, args := range [][]string{{"diff", "@best:web", "@web"}, {"top", "@period:web"}, {"top", "@recent:web"}, {"overlap", "@best:web", "@build:web"}} {
		if out, err := next.ask(t, args...); err != nil {
			t.Errorf("%q: %v\n%s", args, err, out)
		}
	}
	if out, err := next.ask(t, "top", "@web", "--with-stored"); err != nil || !strings.Contains(out, "@web and what is stored of its build, since ") {
		t.Errorf("with what is stored: %v\n%s", err, out)
	}
	if n := samplesIn(t, s.store, "web"); n <= first["web"] {
		t.Errorf("the store has %d samples of a process that goes on, and had %d", n, first["web"])
	}
}

// awaitLogged waits until the store has some samples of each target, and returns how many.
func (s *servedDaemon) awaitLogged(t *testing.T, names []string) map[string]int64 {
	t.Helper()
	logged := make(map[string]int64)
	for deadline := time.Now().Add(3 * time.Minute); len(logged) < len(names); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("nothing is logged: %v", logged)
		}
		for _, name := range names {
			if n := samplesIn(t, s.store, name); n >= 20 {
				logged[name] = n
			}
		}
	}
	return logged
}

// killed kills the daemon, and starts the next one.
func (s *servedDaemon) killed(t *testing.T) *servedDaemon {
	t.Helper()
	if err := s.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	s.Wait()
	next := *s
	next.Cmd = exec.Command(s.Path, s.Args[1:]...)
	next.Env, next.SysProcAttr = s.Env, s.SysProcAttr
	next.listen(t)
	return &next
}

// TestServeHost: the whole host is a target beside one of its programs, whose samples are in both.
func TestServeHost(t *testing.T) {
	t.Parallel()
	needEngine(t)
	s := startServed(t, "[[target]]\nname = \"host\"\nmatch = { host = true }\n")
	if out, err := s.ask(t, "serve", "--check", "--config", s.Args[len(s.Args)-1]); err != nil || !strings.Contains(out, "all processes of this machine") {
		t.Errorf("serve --check: %v\n%s", err, out)
	}
	s.listen(t)
	s.workload(t)
	s.await(t, "samples", func(st daemon.TargetStatus) bool { return st.Status.Samples > 0 })
	host := s.awaitTarget(t, "host", "samples", func(st daemon.TargetStatus) bool { return st.State == daemon.Sampling && st.Status.Samples > 0 })
	if len(host.Processes) != 1 || host.Processes[0].PID != 0 || host.Rule != "the whole host" {
		t.Errorf("%+v", host)
	}
	out, err := "", error(nil)
	for deadline := time.Now().Add(3 * time.Minute); !strings.Contains(out, "cmd/ccmapd/internal/demo.") || !strings.Contains(out, "[process ccmapd]"); time.Sleep(250 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("no stacks of the workload: %v\n%s", err, out)
		}
		out, err = s.ask(t, "top", "-n", "0", "@host")
	}
	if out, err := s.ask(t, "targets", "-v"); err != nil || !strings.Contains(out, "host: the whole host") {
		t.Errorf("targets: %v\n%s", err, out)
	}
}

// TestServeEndpoint: the daemon follows a program that serves its profiles, and tells its secret to
// nobody else.
func TestServeEndpoint(t *testing.T) {
	t.Parallel()
	server := serveOwnProfile(t)
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := startServed(t, "")
	file := s.Args[len(s.Args)-1]
	text := fmt.Sprintf("[listen]\nsocket = %q\ngroup = \"\"\n[[target]]\nname = \"billing\"\nmatch.url = %q\nauth.bearer_file = %q\n", s.socket, server.URL, token)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := s.ask(t, "serve", "--check", "--config", file); err != nil || !strings.Contains(out, server.URL) {
		t.Errorf("serve --check: %v\n%s", err, out)
	}
	s.listen(t)
	s.awaitTarget(t, "billing", "a profile", func(st daemon.TargetStatus) bool { return st.State == daemon.Sampling && st.Status.Samples > 0 })
	if out, err := s.ask(t, "top", "@billing"); err != nil || !strings.Contains(out, "main.main") {
		t.Errorf("top @billing: %v\n%s", err, out)
	}
	out, err := s.ask(t, "targets", "-v")
	if err != nil || !strings.Contains(out, "billing: url "+server.URL) || strings.Contains(out, "secret") {
		t.Errorf("targets: %v\n%s", err, out)
	}
	server.CloseClientConnections()
	server.Close()
	s.awaitTarget(t, "billing", "that nothing answers", func(st daemon.TargetStatus) bool { return st.State == daemon.Waiting && st.Cure != "" })
}

// TestServeCheck: a file is checked before anything is sampled, and a wrong one is an error.
func TestServeCheck(t *testing.T) {
	t.Parallel()
	s := startServed(t, "")
	file := s.Args[len(s.Args)-1]
	if out, err := s.ask(t, "serve", "--check", "--config", file); err != nil || out != "The configuration is valid. No process fits a target now.\n" {
		t.Errorf("%v: %q", err, out)
	}
	for _, more := range []string{"engine = 1\n", "[[target]]\nname = \"b\"\nmax = 1\nmatch.host = true\n", "[listen]\n"} {
		bad := startServed(t, more)
		if out, err := bad.ask(t, "serve", "--check", "--config", bad.Args[len(bad.Args)-1]); err == nil || out != "" {
			t.Errorf("%q was accepted: %s", more, out)
		}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text = []byte(strings.Replace(string(text), "[listen]", "[listen]\ntcp = \"0.0.0.0:7070\"\nweb_config = \"/none.yml\"", 1))
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := ccmapdAt(t, s.socket, "serve", "--check", "--config", file); got.code != exitFailed || !strings.Contains(got.stderr, "listen.web_config: open /none.yml: no such file") {
		t.Errorf("without its web_config: %+v", got)
	}
	if _, err := os.Stat(s.store); !os.IsNotExist(err) {
		t.Errorf("a check has made files: %v", err)
	}
}
