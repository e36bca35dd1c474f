package main

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ccmapd/ccmapd/internal/daemon"
	"github.com/ccmapd/ccmapd/internal/programtest"
)

// aService is the user of the daemon as a service, and of no other test: the kernel bounds the rings
// of each user.
const aService = 65531

// TestService: with the user and the capabilities that the unit gives it, the daemon samples a process
// of root's. It tells the service manager when it works, reloads and stops, and that it is alive.
func TestService(t *testing.T) {
	t.Parallel()
	needEngine(t)
	needRoot(t)
	pid := startWorkloadAs(t, "/", nil)
	s := startServed(t, fmt.Sprintf("[[target]]\nname = \"roots\"\nmatch = { pid = %d }\n", pid))
	notify := filepath.Join(filepath.Dir(s.socket), "notify")
	next := serviceManager(t, notify)
	file := s.Args[len(s.Args)-1]
	s.asService(t, "NOTIFY_SOCKET="+notify, "WATCHDOG_USEC=30000000")
	s.listen(t)
	next(t, "READY=1\nSTATUS=Configured: 2 targets.")
	next(t, "WATCHDOG=1")
	s.awaitTarget(t, "roots", "samples of root's process", func(st daemon.TargetStatus) bool { return st.Status.Samples > 0 })

	good, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, reload := range []struct{ text, status string }{
		{"[", "STATUS=The last reload was refused: the log has the reason."},
		{string(good), "STATUS=Configured: 2 targets."},
	} {
		if err := os.WriteFile(file, []byte(reload.text), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := s.Process.Signal(unix.SIGHUP); err != nil {
			t.Fatal(err)
		}
		next(t, "RELOADING=1\nMONOTONIC_USEC=")
		next(t, "READY=1\n"+reload.status)
	}
	if err := s.Process.Signal(unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	next(t, "STOPPING=1")
	if err := s.Wait(); err != nil {
		t.Errorf("serve ended with %v", err)
	}
}

// asService gives the daemon the user and the capabilities of the unit.
func (s *servedDaemon) asService(t *testing.T, env ...string) {
	t.Helper()
	s.asUser(t, aService, []uintptr{unix.CAP_BPF, unix.CAP_PERFMON, unix.CAP_SYS_PTRACE}, env...)
}

// asUser gives the daemon a user and capabilities.
func (s *servedDaemon) asUser(t *testing.T, user uint32, capabilities []uintptr, env ...string) {
	t.Helper()
	ccmapd, dir := programtest.Copy(t, s.Path, "ccmapd"), filepath.Dir(s.socket)
	for _, err := range []error{os.Chmod(dir, 0o755), os.Chown(dir, int(user), int(user)), os.Chmod(s.Args[len(s.Args)-1], 0o644)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	s.Cmd = exec.Command(ccmapd, s.Args[1:]...)
	s.Env = append(append(os.Environ(), "CCMAPD_SOCKET="+s.socket), env...)
	s.SysProcAttr = &syscall.SysProcAttr{
		Credential:  &syscall.Credential{Uid: user, Gid: user, Groups: []uint32{user}},
		AmbientCaps: capabilities,
	}
}

// aServer is the user of a program that serves its own profiles, and of no other test.
const aServer = 65529

// TestServiceFindsEndpoint: as a service the daemon finds where a program of another user serves its own profiles,
// though it may not list the program's descriptors. It does not ask root's programs, and says so.
func TestServiceFindsEndpoint(t *testing.T) {
	t.Parallel()
	needRoot(t)
	server := func(who *syscall.Credential) int {
		cmd := exec.Command(programtest.Copy(t, os.Args[0], servesName))
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: who}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		start(t, cmd)
		if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
			t.Fatalf("%s says %q, %v", servesName, line, err)
		}
		return cmd.Process.Pid
	}
	const target = "[[target]]\nname = %q\nmatch = { pid = %d }\nengine = \"pprofhttp\"\n"
	users := server(&syscall.Credential{Uid: aServer, Gid: aServer, Groups: []uint32{aServer}})
	s := startServed(t, fmt.Sprintf(target, "users", users)+fmt.Sprintf(target, "roots", server(nil)))
	s.asService(t)
	s.listen(t)
	s.awaitTarget(t, "users", "profiles of a user's program", func(st daemon.TargetStatus) bool { return st.Status.Samples > 0 })
	roots := s.awaitTarget(t, "roots", "the refusal of a program of root", func(st daemon.TargetStatus) bool {
		return len(st.Processes) == 1 && st.Processes[0].State == daemon.Refused
	})
	if why := roots.Processes[0].Reason; !strings.Contains(why, "are hidden") || !strings.Contains(why, "URL") {
		t.Errorf("the reason: %s", why)
	}
}

// serviceManager listens for messages of a service, and takes them at once: the kernel keeps a few, and
// the service drops the rest. next waits for one that begins as given.
func serviceManager(t *testing.T, name string) (next func(t *testing.T, prefix string)) {
	t.Helper()
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	if err == nil {
		err = os.Chmod(name, 0o777)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	messages := make(chan string, 10_000)
	go func() {
		for message := make([]byte, 1000); ; {
			n, err := c.Read(message)
			if err != nil {
				return
			}
			messages <- string(message[:n])
		}
	}()
	return func(t *testing.T, prefix string) {
		t.Helper()
		late := time.After(3 * time.Minute)
		var heard []string
		for {
			select {
			case message := <-messages:
				if strings.HasPrefix(message, prefix) {
					return
				}
				heard = append(heard, message)
			case <-late:
				t.Fatalf("%q is awaited in vain, heard %q", prefix, heard)
			}
		}
	}
}

// TestSocketActivation: the daemon answers on a socket that was opened for it, and leaves it there.
func TestSocketActivation(t *testing.T) {
	t.Parallel()
	s := startServed(t, "")
	opened := filepath.Join(filepath.Dir(s.socket), "opened.sock")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: opened, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	f, err := l.File()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s.Env = append(s.Env, "CCMAPD_SOCKET="+opened)
	activated := exec.Command("sh", append([]string{"-c", `LISTEN_PID=$$ LISTEN_FDS=1 exec "$@"`, "sh", s.Path}, s.Args[1:]...)...)
	activated.Env, activated.ExtraFiles = s.Env, []*os.File{f}
	lines := startWithLines(t, activated)
	waitForLine(t, lines, "Listening on "+opened)
	go func(lines *bufio.Scanner) {
		for lines.Scan() { // or the daemon would wait for a reader
		}
	}(lines)
	if out, err := s.ask(t, "targets"); err != nil || !strings.Contains(out, "web") {
		t.Errorf("targets: %v\n%s", err, out)
	}
	if _, err := os.Lstat(s.socket); !os.IsNotExist(err) {
		t.Errorf("it has made a socket of its own: %v", err)
	}
	if err := activated.Process.Signal(unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := activated.Wait(); err != nil {
		t.Errorf("serve ended with %v", err)
	}
	if _, err := os.Lstat(opened); err != nil {
		t.Errorf("the socket of the service manager: %v", err)
	}
}
