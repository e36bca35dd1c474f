package attach

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Errors that callers tell apart by errors.Is. Missing rights are os.ErrPermission.
var (
	ErrNoProcess = errors.New("no such process")
	ErrNotJVM    = errors.New("not a HotSpot JVM")
	ErrDisabled  = errors.New("the JVM takes no commands")
	ErrStarting  = errors.New("the JVM does not handle SIGQUIT: is it still starting?")
	ErrSilent    = errors.New("the JVM does not answer: is it stopped?")
	ErrAsleep    = errors.New("the JVM does not listen for commands yet, and it takes its user or CAP_KILL to wake it")
	ErrOthers    = errors.New("the JVM takes commands of its own user and of root alone")
	ErrUnsafe    = errors.New("unsafe")
	ErrTooLong   = errors.New("argument too long")
)

// Times, generous for a machine that is busy.
const (
	startUpTime = 2 * time.Second       // until the JVM handles SIGQUIT
	socketTime  = 6 * time.Second       // until its socket is there
	pollTime    = 10 * time.Millisecond // between two looks
)

// Target is a JVM that commands can be sent to.
type Target struct {
	pid     int
	pidfd   int
	root    int  // O_PATH, the target's root directory
	foreign bool // it is in another namespace of users
	status
}

// Open checks that a process is a JVM which takes commands. It sends none.
func Open(pid int) (*Target, error) {
	t := &Target{pid: pid, pidfd: -1, root: -1}
	if err := t.open(); err != nil {
		t.Close()
		return nil, err
	}
	return t, nil
}

func (t *Target) open() (err error) {
	if t.pidfd, err = unix.PidfdOpen(t.pid, 0); err != nil {
		return explain("open process", err)
	}
	if t.root, err = unix.Open(fmt.Sprintf("/proc/%d/root", t.pid), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
		if errors.Is(err, os.ErrPermission) {
			return fmt.Errorf("it belongs to another user: run ccmapd as its user, or as root: %w", unix.EACCES)
		}
		return explain("open root directory", err)
	}
	if t.status, err = readStatus(t.pid); err != nil {
		return err
	}
	t.foreign = isForeign(t.pid)
	if err := checkJVM(t.pid, t.root); err != nil {
		return err
	}
	return checkEnabled(t.pid)
}

// Close frees the target.
func (t *Target) Close() {
	for _, fd := range []int{t.pidfd, t.root} {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
	t.pidfd, t.root = -1, -1
}

// explain names what was tried, and makes errors of the kernel those of this package.
func explain(what string, err error) error {
	switch {
	case errors.Is(err, unix.ESRCH), errors.Is(err, unix.ENOENT):
		err = ErrNoProcess
	case errors.Is(err, unix.EPERM):
		err = unix.EACCES // both are os.ErrPermission
	}
	return fmt.Errorf("%s: %w", what, err)
}

// StatusError is an answer with a status that says no.
type StatusError struct {
	Status int
	Text   string // a foreign text
}

func (e *StatusError) Error() string {
	const most = 200
	text := e.Text
	if len(text) > most {
		text = text[:most] + "…"
	}
	return fmt.Sprintf("the JVM refuses with status %d: %q", e.Status, strings.TrimSpace(text))
}

// Command sends a command with at most three arguments, and returns the answer, a foreign text.
// Its error is a *StatusError if the JVM says no. That it says yes does not mean that the
// command has worked: read the answer.
func (t *Target) Command(ctx context.Context, timeout time.Duration, name string, arguments ...string) (string, error) {
	request, err := encode(name, arguments)
	if err != nil {
		return "", err
	}
	socket, err := t.connect(ctx)
	if err != nil {
		return "", err
	}
	defer socket.Close()
	if err := socket.SetDeadline(time.Now().Add(timeout)); err != nil {
		return "", fmt.Errorf("set deadline: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { socket.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	answer, err := exchange(socket, request)
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case errors.Is(err, os.ErrDeadlineExceeded):
		return "", fmt.Errorf("%w within %v", ErrSilent, timeout)
	}
	return answer, err
}

// Jcmd sends a diagnostic command, as 'jcmd PID LINE' does.
func (t *Target) Jcmd(ctx context.Context, timeout time.Duration, line string) (string, error) {
	return t.Command(ctx, timeout, "jcmd", line)
}

const (
	protocolVersion = "1"
	argumentsCount  = 3
	longestArgument = 1024 // the JVM closes the connection of a longer one, without a word
)

// encode encodes a request: its version, name and arguments, each with a NUL after it.
func encode(name string, arguments []string) ([]byte, error) {
	if len(arguments) > argumentsCount {
		return nil, fmt.Errorf("encode command: %d arguments, want %d at most", len(arguments), argumentsCount)
	}
	request := []byte(protocolVersion + "\x00")
	for _, word := range append([]string{name}, append(arguments, make([]string, argumentsCount-len(arguments))...)...) {
		if len(word) > longestArgument {
			return nil, fmt.Errorf("%w: %d bytes, more than %d", ErrTooLong, len(word), longestArgument)
		}
		if strings.Contains(word, "\x00") {
			return nil, errors.New("encode command: NUL in an argument")
		}
		request = append(append(request, word...), 0)
	}
	return request, nil
}

// longestAnswer is how many bytes of an answer are read. No command that we send has more.
const longestAnswer = 1 << 20

// exchange writes a request and reads the answer to its end.
func exchange(socket io.ReadWriter, request []byte) (string, error) {
	if _, err := socket.Write(request); err != nil {
		return "", fmt.Errorf("write command: %w", err)
	}
	answer, err := io.ReadAll(io.LimitReader(socket, longestAnswer+1))
	switch {
	case err != nil:
		return "", fmt.Errorf("read answer: %w", err)
	case len(answer) > longestAnswer:
		return "", fmt.Errorf("read answer: more than %d bytes", longestAnswer)
	}
	return decode(answer)
}

// decode decodes an answer: its status as a decimal number, a line break, and the text.
func decode(answer []byte) (string, error) {
	line, text, found := bytes.Cut(answer, []byte("\n"))
	status, ok := decimal(line)
	if !found || !ok {
		return "", fmt.Errorf("decode answer: no status in %q", answer[:min(len(answer), 40)])
	}
	if status != 0 {
		return "", &StatusError{status, string(text)}
	}
	return string(text), nil
}

// decimal parses the few digits of a status.
func decimal(line []byte) (v int, ok bool) {
	digits, negative := bytes.CutPrefix(line, []byte("-"))
	if len(digits) == 0 || len(digits) > 9 {
		return 0, false
	}
	for _, d := range digits {
		if d < '0' || d > '9' {
			return 0, false
		}
		v = 10*v + int(d-'0')
	}
	if negative {
		v = -v
	}
	return v, true
}
