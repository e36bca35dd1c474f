// Package systemd speaks with the manager of services that has started this process: it tells how
// the service is (sd_notify(3)), and takes over sockets that were opened for it
// (sd_listen_fds(3)). Nothing here needs systemd: other managers use the same environment.
package systemd

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// Notifier tells the manager the state of this service. The zero Notifier does nothing. Any
// goroutine may call its methods.
type Notifier struct {
	socket  string // "": no manager listens
	watched bool   // the manager restarts a service that is not alive
}

// sendTime bounds the wait for a manager that does not read.
const sendTime = time.Second

// NewNotifier returns a notifier for the manager that the environment names.
func NewNotifier() Notifier {
	n := Notifier{socket: os.Getenv("NOTIFY_SOCKET")}
	pid, hasPID := os.LookupEnv("WATCHDOG_PID")
	n.watched = os.Getenv("WATCHDOG_USEC") != "" && (!hasPID || pid == strconv.Itoa(os.Getpid()))
	return n
}

// Ready tells that the service does its work, after its start or a reload. The status is for people,
// one line.
func (n Notifier) Ready(status string) error { return n.send("READY=1\nSTATUS=" + status) }

// Reloading tells that the service loads its configuration. Ready must follow.
func (n Notifier) Reloading() error {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return fmt.Errorf("read clock: %w", err)
	}
	return n.send(fmt.Sprintf("RELOADING=1\nMONOTONIC_USEC=%d", now.Nano()/int64(time.Microsecond)))
}

// Stopping tells that the service ends.
func (n Notifier) Stopping() error { return n.send("STOPPING=1") }

// Alive keeps a watchdog of the manager from ending the service.
func (n Notifier) Alive() error {
	if !n.watched {
		return nil
	}
	return n.send("WATCHDOG=1")
}

// send sends one message. A name that begins with "@" is of an abstract socket, as in package net.
func (n Notifier) send(state string) error {
	if n.socket == "" {
		return nil
	}
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: n.socket, Net: "unixgram"})
	if err != nil {
		return fmt.Errorf("notify service manager: %w", err)
	}
	defer c.Close()
	c.SetWriteDeadline(time.Now().Add(sendTime))
	if _, err := c.Write([]byte(state)); err != nil {
		return fmt.Errorf("notify service manager: %w", err)
	}
	return nil
}

const (
	// firstSocket is the descriptor of the first socket (SD_LISTEN_FDS_START of sd-daemon.h).
	firstSocket = 3
	mostSockets = 16
)

// Listeners returns the sockets that the manager has opened for this process. All must be Unix
// sockets that listen for streams. The manager has made them and removes them.
func Listeners() ([]net.Listener, error) {
	if os.Getenv("LISTEN_PID") != strconv.Itoa(os.Getpid()) {
		return nil, nil
	}
	n, err := strconv.Atoi(os.Getenv("LISTEN_FDS"))
	if err != nil || n < 0 || n > mostSockets {
		return nil, fmt.Errorf("take over sockets: LISTEN_FDS is not a number up to %d", mostSockets)
	}
	var all []net.Listener
	for fd := firstSocket; fd < firstSocket+n; fd++ {
		l, err := listener(fd)
		if err != nil {
			for _, l := range all {
				l.Close()
			}
			return nil, fmt.Errorf("take over socket %d: %w", fd, err)
		}
		all = append(all, l)
	}
	return all, nil
}

// listener takes over a descriptor.
func listener(fd int) (net.Listener, error) {
	unix.CloseOnExec(fd)
	f := os.NewFile(uintptr(fd), "socket")
	defer f.Close() // the listener has a copy
	l, err := net.FileListener(f)
	if err != nil {
		return nil, err
	}
	if _, ok := l.(*net.UnixListener); !ok {
		l.Close()
		return nil, errors.New("it is not a Unix socket: a port is set by listen.tcp in the configuration")
	}
	return l, nil
}
