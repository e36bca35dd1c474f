package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/internal/privilege"
	"github.com/ccmapd/ccmapd/internal/profiletest"
)

// serveProfile serves a profile on a socket as a daemon does, and writes it to a file.
func serveProfile(t *testing.T) (socket, file string) {
	t.Helper()
	dir := t.TempDir()
	socket, file = filepath.Join(dir, "s"), filepath.Join(dir, "web.json")
	if err := export.WriteFile(file, profiletest.Thicket(1).Snapshot()); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, file) })}
	go server.Serve(l)
	t.Cleanup(func() { server.Close() })
	return socket, file
}

// ccmapdAt runs the command as a process of its own, which asks the daemon on a socket.
func ccmapdAt(t *testing.T, socket string, args ...string) result {
	t.Helper()
	cmd := exec.Command("ccmapd", args...)
	cmd.Dir, cmd.Env = t.TempDir(), append(os.Environ(), "CCMAPD_SOCKET="+socket)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.Run() // the exit code is part of the result
	return result{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// TestReadsFromDaemon: every command that reads a file reads the same from a daemon, though it
// cannot connect while it decodes.
func TestReadsFromDaemon(t *testing.T) {
	t.Parallel()
	socket, file := serveProfile(t)
	other := filepath.Join(t.TempDir(), "other.json")
	if err := export.WriteFile(other, profiletest.Thicket(2).Snapshot()); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"top", "@web"}, {"top", "--json", "@web"}, {"flame", "--json", "@web"}, {"sites", "@web"}, {"receivers", "@web"}, {"points", "@web"},
		{"contexts", "@web", "--match", "^a$"}, {"query", "@web", "--match", "^a$"},
		{"overlap", "@web", other}, {"overlap", "@web", "@web"}, {"diff", "--all", other, "@web"},
		{"convert", "--to", "xml", "@web", "-"}, {"merge", "--to", "folded", "-o", "-", "@web", "@web=2", other},
	} {
		got := ccmapdAt(t, socket, args...)
		for i, arg := range args {
			args[i] = strings.ReplaceAll(arg, "@web", file)
		}
		want := ccmapdAt(t, socket, args...)
		if name := strings.ReplaceAll(want.stdout, file, "@web"); want.code != 0 || strings.ReplaceAll(got.stdout, file, "@web") != name {
			t.Errorf("%q exits with %d, and prints\n%s%s\nof a file\n%s%s", args, got.code, got.stdout, got.stderr, name, want.stderr)
		}
	}
}

// TestNoDaemon: where no daemon answers, the error says where it was looked for, and what to do.
func TestNoDaemon(t *testing.T) {
	t.Parallel()
	none := filepath.Join(t.TempDir(), "none")
	got := ccmapdAt(t, none, "top", "@web")
	want := "ccmapd: @web: no daemon answers on " + none + "\n  Start one with 'ccmapd serve'"
	if got.code != exitFailed || !strings.HasPrefix(got.stderr, want) {
		t.Errorf("exit code %d, %s", got.code, got.stderr)
	}
	if got := ccmapdAt(t, none, "targets"); got.code != exitFailed || !strings.Contains(got.stderr, "no daemon answers") || strings.Contains(got.stderr, "A file") {
		t.Errorf("targets takes no file: exit code %d, %s", got.code, got.stderr)
	}
	list := filepath.Join(t.TempDir(), "list")
	if err := os.WriteFile(list, []byte("@web\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := ccmapdAt(t, none, "merge", "-o", "-", "--to", "xml", "--files-from", list); got.code != exitUsage || !strings.Contains(got.stderr, "name it on the command line") {
		t.Errorf("exit code %d, %s", got.code, got.stderr)
	}
}

// TestFetchIsConfined looks at a command that waits for a daemon, with no capability but for
// files, and at one that waits for standard input after that, when it cannot connect any more.
func TestFetchIsConfined(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	cmd := exec.Command("ccmapd", "overlap", "@web", "-")
	cmd.Env = append(os.Environ(), "CCMAPD_SOCKET="+socket)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	start(t, cmd)
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	awaitStatus(t, cmd.Process.Pid, "NoNewPrivs", "1")
	awaitStatus(t, cmd.Process.Pid, "CapPrm", fmt.Sprintf("%016x", permittedHere(t)&forFiles))
	if _, err := http.ReadRequest(bufio.NewReader(c)); err != nil {
		t.Fatal(err)
	}
	io.WriteString(c, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nmain;work 1\n")
	c.Close()
	if privilege.HasSeccomp() {
		awaitStatus(t, cmd.Process.Pid, "Seccomp", "2")
	}
}
