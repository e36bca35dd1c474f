package systemd

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ccmapd/ccmapd/internal/testrun"
)

// takingOver is the variable by which the test binary becomes a service that takes over sockets.
const takingOver = "CCMAPD_TEST_TAKE_OVER"

func TestMain(m *testing.M) {
	if os.Getenv(takingOver) != "" {
		all, err := Listeners()
		fmt.Println(len(all), err)
		for _, l := range all {
			c, err := l.Accept()
			if err == nil {
				_, err = c.Write([]byte("taken over"))
				err = errors.Join(err, c.Close())
			}
			fmt.Println(err)
		}
		os.Exit(0)
	}
	os.Exit(testrun.Guard(m).Run())
}

// manager listens as a manager of services, and returns the way to its next message.
func manager(t *testing.T, name string) (next func() string) {
	t.Helper()
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetReadDeadline(time.Now().Add(time.Minute))
	return func() string {
		message := make([]byte, 1000)
		n, err := c.Read(message)
		if err != nil {
			t.Fatal(err)
		}
		return string(message[:n])
	}
}

// TestNotify: each message comes as the protocol has it, by a path and by an abstract name.
func TestNotify(t *testing.T) {
	for _, name := range []string{filepath.Join(t.TempDir(), "s"), fmt.Sprintf("@ccmapd-test-%d", os.Getpid())} {
		next := manager(t, name)
		t.Setenv("NOTIFY_SOCKET", name)
		t.Setenv("WATCHDOG_USEC", "30000000")
		n := NewNotifier()
		before := monotonic(t)
		if err := errors.Join(n.Ready("2 targets"), n.Alive(), n.Reloading(), n.Stopping()); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"READY=1\nSTATUS=2 targets", "WATCHDOG=1"} {
			if got := next(); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		}
		reloading, at, _ := strings.Cut(next(), "\nMONOTONIC_USEC=")
		if us, err := strconv.ParseInt(at, 10, 64); reloading != "RELOADING=1" || err != nil || us < before || us > monotonic(t) {
			t.Errorf("%s at %s, which is not between %d and now", reloading, at, before)
		}
		if got := next(); got != "STOPPING=1" {
			t.Errorf("got %q at the end", got)
		}
	}
}

func monotonic(t *testing.T) int64 {
	t.Helper()
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		t.Fatal(err)
	}
	return now.Nano() / 1000
}

// TestNobodyListens: without a manager nothing is sent, and a watchdog for another process is not fed. A
// manager that is gone is an error.
func TestNobodyListens(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "")
	if err := errors.Join(NewNotifier().Ready(""), Notifier{}.Alive()); err != nil {
		t.Error(err)
	}
	t.Setenv("NOTIFY_SOCKET", filepath.Join(t.TempDir(), "gone"))
	t.Setenv("WATCHDOG_USEC", "1")
	t.Setenv("WATCHDOG_PID", "1")
	if err := NewNotifier().Alive(); err != nil {
		t.Errorf("the watchdog of another process is fed: %v", err)
	}
	if err := NewNotifier().Stopping(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a manager that is gone: %v", err)
	}
}

// TestListeners: a service takes over the sockets that were opened for it, and no others.
func TestListeners(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	socket, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, "s"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	port, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer port.Close()
	for _, test := range []struct {
		listener interface{ File() (*os.File, error) }
		pid, fds string
		want     string
	}{
		{socket, "1", "1", "0 <nil>\n"},
		{socket, "$$", "x", "0 take over sockets: LISTEN_FDS is not a number up to 16\n"},
		{socket, "$$", "17", "0 take over sockets: LISTEN_FDS is not a number up to 16\n"},
		{socket, "$$", "2", "0 take over socket 4: "},
		{port, "$$", "1", "0 take over socket 3: it is not a Unix socket: a port is set by listen.tcp in the configuration\n"},
		{socket, "$$", "1", "1 <nil>\n<nil>\n"},
	} {
		file, err := test.listener.File()
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("sh", "-c", "LISTEN_PID="+test.pid+" LISTEN_FDS="+test.fds+` exec "$0"`, os.Args[0])
		cmd.Env = append(os.Environ(), takingOver+"=1")
		cmd.ExtraFiles = []*os.File{file}
		if strings.HasPrefix(test.want, "1 ") {
			c, err := net.Dial("unix", socket.Addr().String()) // it waits for the service
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
		}
		out, err := cmd.Output()
		if err != nil || !strings.HasPrefix(string(out), test.want) {
			t.Errorf("%+v: %v, %q", test, err, out)
		}
		file.Close()
	}
}
