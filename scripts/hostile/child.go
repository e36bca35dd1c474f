package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// limits bound a command, so that a successful attack hurts nothing else.
type limits struct {
	memory uint64        // address space (RLIMIT_AS), bytes; 0: no limit. A Go program reserves about 1.5 GiB that it does not use
	time   time.Duration // then the command is killed; 0: no limit
	stdin  io.Reader
	env    []string // in addition to the environment
}

// outcome is the result of a command.
type outcome struct {
	code     int // exit status; -1: a signal ended it
	signal   syscall.Signal
	timedOut bool // killed at the end of its time
	took     time.Duration
	cpu      time.Duration // CPU time: other load on the machine hardly changes it
	rss      uint64        // most resident memory, bytes; at least the memory of this program, its parent
	stdout   string        // the first mostSaid bytes
	stderr   string
}

// mostSaid bounds the output that is kept.
const mostSaid = 1 << 20

// child runs a command within limits. A failure of the command is an outcome. An error
// means that the command could not be run.
func (h *hostile) child(ctx context.Context, l limits, command ...string) (outcome, error) {
	if l.time > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, l.time)
		defer cancel()
	}
	if l.memory > 0 {
		command = append([]string{"prlimit", "--core=0", "--as=" + strconv.FormatUint(l.memory, 10)}, command...)
	}
	var stdout, stderr capped
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = l.stdin, &stdout, &stderr
	cmd.Env = append(cmd.Environ(), l.env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) } // descendants, too
	cmd.WaitDelay = time.Second                                                          // for descendants in another group
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return outcome{}, fmt.Errorf("start %s: %w", command[0], err)
	}
	err := cmd.Wait()
	o := outcome{
		code: cmd.ProcessState.ExitCode(), took: time.Since(began),
		cpu:      cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(),
		timedOut: errors.Is(ctx.Err(), context.DeadlineExceeded),
		stdout:   stdout.String(), stderr: stderr.String(),
	}
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		o.signal = status.Signal()
	}
	if usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		o.rss = uint64(usage.Maxrss) << 10
	}
	var ended *exec.ExitError
	if err != nil && !errors.As(err, &ended) && !o.timedOut && !errors.Is(err, exec.ErrWaitDelay) {
		return o, fmt.Errorf("run %s: %w", command[0], err)
	}
	return o, nil
}

// how describes the command's end in a few words.
func (o outcome) how() string {
	switch {
	case o.timedOut:
		return "ran out of time"
	case o.signal != 0:
		return "killed by " + o.signal.String()
	case o.code != 0:
		return "error, status " + strconv.Itoa(o.code)
	}
	return "ended well"
}

// panicked reports whether the command ended with a trace of the Go runtime.
func (o outcome) panicked() bool {
	return o.code == 2 && (strings.Contains(o.stderr, "\ngoroutine ") || strings.Contains(o.stderr, "fatal error: "))
}

// capped keeps the first bytes written to it.
type capped struct{ bytes.Buffer }

func (c *capped) Write(p []byte) (int, error) {
	c.Buffer.Write(p[:max(0, min(len(p), mostSaid-c.Len()))])
	return len(p), nil
}

// tail returns the end of a command's output, with the reason of its failure.
func tail(said string) string {
	const most = 2000
	return said[max(0, len(said)-most):]
}
