package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// computer is the running program of testdata/computer: it computes answers and checks
// them.
type computer struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Scanner
	last atRest
}

// atRest is the computer's report while its tasks rest.
type atRest struct {
	Answers     int64         `json:"answers"`
	Wrong       int64         `json:"wrong"`
	Signals     int64         `json:"signals"`
	Descriptors int           `json:"descriptors"`
	CPU         time.Duration `json:"cpu"`
}

// buildComputer builds the program and its plugin.
func (h *hostile) buildComputer(ctx context.Context) error {
	const source = "./scripts/hostile/testdata/computer"
	_, err1 := h.build(ctx, "computer", source)
	_, err2 := h.build(ctx, "plugin.so", source+"/plugin", "-buildmode=plugin")
	return errors.Join(err1, err2)
}

// compute starts the program on some tasks, and returns when it is ready.
func (h *hostile) compute(ctx context.Context, tasks string, more ...string) (*computer, error) {
	return h.computeBy(ctx, slices.Concat([]string{h.Path("computer"), tasks, h.Path("plugin.so")}, more))
}

// computeBy starts the program by a command.
func (h *hostile) computeBy(ctx context.Context, command []string) (*computer, error) {
	c := &computer{cmd: exec.CommandContext(ctx, command[0], command[1:]...)}
	c.cmd.Stderr = h.Log
	in, err1 := c.cmd.StdinPipe()
	out, err2 := c.cmd.StdoutPipe()
	if err := errors.Join(err1, err2, c.cmd.Start()); err != nil {
		return nil, fmt.Errorf("start computer: %w", err)
	}
	c.in, c.out = in, bufio.NewScanner(out)
	if !c.out.Scan() {
		return nil, fmt.Errorf("start computer: %w", errors.Join(c.cmd.Wait(), c.out.Err()))
	}
	return c, nil
}

func (c *computer) pid() int { return c.cmd.Process.Pid }

// ask lets the computer's tasks rest, and returns its report.
func (c *computer) ask() (atRest, error) {
	if err := c.tell(""); err != nil {
		return atRest{}, err
	}
	return c.answer()
}

// tell sends a line to the computer.
func (c *computer) tell(line string) error {
	if _, err := io.WriteString(c.in, line+"\n"); err != nil {
		return fmt.Errorf("ask computer: %w", err)
	}
	return nil
}

// answer reads the computer's report at rest.
func (c *computer) answer() (atRest, error) {
	if !c.out.Scan() {
		return atRest{}, fmt.Errorf("computer is gone: %w", errors.Join(io.ErrUnexpectedEOF, c.out.Err()))
	}
	err := json.Unmarshal(c.out.Bytes(), &c.last)
	return c.last, err
}

// stop ends the computer. It is not an error if the computer has ended.
func (c *computer) stop() {
	c.cmd.Process.Kill()
	c.in.Close()
	c.cmd.Wait()
}

// threadsOf returns the threads of a process.
func threadsOf(pid int) []int {
	names, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid)) // none if it has ended
	var all []int
	for _, name := range names {
		if tid, err := strconv.Atoi(name.Name()); err == nil {
			all = append(all, tid)
		}
	}
	return all
}

// held returns the number of a process's threads that are stopped or traced.
func held(pid int) int {
	n := 0
	for _, tid := range threadsOf(pid) {
		stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/stat", pid, tid))
		_, state, _ := bytes.Cut(stat, []byte(") "))
		status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/status", pid, tid))
		if len(state) > 0 && (state[0] == 'T' || state[0] == 't') || traced.Match(status) {
			n++
		}
	}
	return n
}

var traced = regexp.MustCompile(`(?m)^TracerPid:\s*[1-9]`)

const (
	// debugRegisters is the number of breakpoints that a thread of amd64 has room for.
	debugRegisters = 4
	// breakpointWrite is HW_BREAKPOINT_W of linux/hw_breakpoint.h.
	breakpointWrite = 2
)

// breakpoints returns the number of debug registers that a process's threads have lost to
// breakpoints. A breakpoint of perf_event_open is in no file of /proc, and ptrace does
// not show it. But while it exists, fewer others can be set.
func breakpoints(pid int) (int, error) {
	usual, err := freeRegisters(os.Getpid()) // but for those that other programs watch CPUs with
	if err != nil {
		return 0, err
	}
	n := 0
	for _, tid := range threadsOf(pid) {
		free, err := freeRegisters(tid)
		switch {
		case errors.Is(err, unix.ESRCH): // the thread has ended
		case err != nil:
			return 0, err
		default:
			n += max(usual-free, 0)
		}
	}
	return n, nil
}

// freeRegisters returns the number of breakpoints that can be set on a thread.
func freeRegisters(tid int) (int, error) {
	for n := range debugRegisters {
		fd, err := setBreakpoint(tid)
		switch {
		case errors.Is(err, unix.ENOSPC):
			return n, nil
		case err != nil:
			return n, err
		}
		defer unix.Close(fd)
	}
	return debugRegisters, nil
}

// setBreakpoint sets a breakpoint on a thread, at an unused address. It is not enabled.
func setBreakpoint(tid int) (int, error) {
	fd, err := unix.PerfEventOpen(&unix.PerfEventAttr{
		Type: unix.PERF_TYPE_BREAKPOINT, Size: uint32(unsafe.Sizeof(unix.PerfEventAttr{})),
		Bp_type: breakpointWrite, Ext1: 8, Ext2: 8,
		Bits: unix.PerfBitDisabled | unix.PerfBitExcludeKernel | unix.PerfBitExcludeHv,
	}, tid, -1, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if err != nil {
		return -1, fmt.Errorf("set a breakpoint on thread %d: %w", tid, err)
	}
	return fd, nil
}

// processesOf returns the processes that run an executable.
func processesOf(executable string) []int {
	links, _ := filepath.Glob("/proc/[0-9]*/exe")
	var all []int
	for _, link := range links {
		pid, err1 := strconv.Atoi(filepath.Base(filepath.Dir(link)))
		path, err2 := os.Readlink(link)
		if err1 == nil && err2 == nil && path == executable {
			all = append(all, pid)
		}
	}
	return all
}
