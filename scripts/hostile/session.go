package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ccmapd/ccmapd/export"
)

// session is a running ccmapd: attached to a process, or a daemon.
type session struct {
	cmd     *exec.Cmd
	file    string        // the written profile
	began   time.Time     // start
	samples chan struct{} // closed when it samples or listens, or has ended
	ended   chan struct{} // closed when it has ended
	stdout  capped        // complete when it has ended

	mu     sync.Mutex
	stderr capped // guarded by mu
}

// attach starts ccmapd on a process, through the command before if that is not "". The
// profile goes to a file whose folder also has the temporary files.
func (h *hostile) attach(ctx context.Context, before string, pid int, file string, flags ...string) (*session, error) {
	args := append(strings.Fields(before), h.Ccmapd, "attach", strconv.Itoa(pid), "--json", "--max-host-overhead=0", "-o", file)
	s := &session{file: file}
	return s, s.start(ctx, filepath.Dir(file), "Sampling ", append(args, flags...))
}

// start runs a command in a folder. A line that begins with ready says that it is ready.
func (s *session) start(ctx context.Context, folder, ready string, args []string) error {
	s.samples, s.ended, s.began = make(chan struct{}), make(chan struct{}), time.Now()
	s.cmd = exec.CommandContext(ctx, args[0], args[1:]...)
	s.cmd.Dir = folder
	s.cmd.Env = append(s.cmd.Environ(), "TMPDIR="+s.cmd.Dir)
	s.cmd.Stdout = &s.stdout
	out, err := s.cmd.StderrPipe()
	if err == nil {
		err = s.cmd.Start()
	}
	if err != nil {
		return fmt.Errorf("start ccmapd: %w", err)
	}
	go s.follow(out, ready)
	return nil
}

// follow reads ccmapd's output, and waits for its end.
func (s *session) follow(out io.Reader, ready string) {
	defer close(s.ended)
	announced := false
	for lines := bufio.NewReader(out); ; {
		line, err := lines.ReadString('\n')
		s.mu.Lock()
		io.WriteString(&s.stderr, line)
		s.mu.Unlock()
		if strings.HasPrefix(line, ready) && !announced {
			announced = true
			close(s.samples)
		}
		if err != nil {
			break
		}
	}
	s.cmd.Wait() // its state shows how it ended
	if !announced {
		close(s.samples)
	}
}

// says returns ccmapd's output so far.
func (s *session) says() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stderr.String()
}

func (s *session) signal(number syscall.Signal) { s.cmd.Process.Signal(number) } // it may have ended

// kill ends ccmapd at once, and returns when it has ended.
func (s *session) kill() {
	s.signal(unix.SIGKILL)
	<-s.ended
}

// end waits for the end of ccmapd as exit does. An unreadable profile is an error.
func (s *session) end() (time.Duration, error) {
	took, err := s.exit()
	if err == nil {
		_, _, err = export.ReadFile(s.file, export.ReadOptions{})
	}
	return took, err
}

// exit waits for the end of ccmapd, at most for longestEnd, and returns the time of the
// wait. A trace of the Go runtime is an error.
func (s *session) exit() (time.Duration, error) {
	began := time.Now()
	select {
	case <-s.ended:
	case <-time.After(longestEnd):
		s.signal(unix.SIGCONT)
		s.kill()
		return longestEnd, fmt.Errorf("ccmapd did not end within %v\n%s", longestEnd, tail(s.says()))
	}
	took := time.Since(began)
	o := outcome{code: s.cmd.ProcessState.ExitCode(), stderr: s.says()}
	if o.panicked() || o.code < 0 {
		return took, fmt.Errorf("ccmapd: %s\n%s", o.how(), tail(o.stderr))
	}
	if o.code != 0 {
		return took, fmt.Errorf("%w %d\n%s", errStatus, o.code, tail(o.stderr))
	}
	return took, nil
}

// errStatus says that ccmapd ended with an error of its own.
var errStatus = errors.New("ccmapd ended with status")

// longestEnd bounds the time that ccmapd takes to end. Only a hang takes longer, even on
// a busy machine.
const longestEnd = time.Minute

// leftovers returns the names in a folder, except one.
func leftovers(folder, but string) ([]string, error) {
	names, err := os.ReadDir(folder)
	var all []string
	for _, name := range names {
		if name.Name() != but {
			all = append(all, name.Name())
		}
	}
	return all, err
}
