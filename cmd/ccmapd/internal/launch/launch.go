// Package launch starts programs so that they can be sampled from their first function on:
// a started program waits, by ptrace(2), until the caller has attached to it.
package launch

import (
	"debug/buildinfo"
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// Program is a program that was started and waits to be attached to. Its code is loaded and
// relocated, and nothing of it has run, or next to nothing.
//
// Only the goroutine that started it may call its methods. That goroutine keeps its thread
// until Release or Kill: ptrace(2) takes requests of that thread only.
type Program struct {
	Cmd  *exec.Cmd
	Held bool // false: it runs, by StartFreely or because ptrace is not permitted
}

// EndedError says that a program ended by itself while it was loaded, as the dynamic loader
// ends it if a library is missing.
type EndedError struct{ Status syscall.WaitStatus }

func (EndedError) Error() string { return "program ended while it was loaded" }

// ExitCode returns the exit code of a program that has ended with err or, as shells do, 128
// and the number of the signal that ended it. For other errors, ended is false.
func ExitCode(err error) (code int, ended bool) {
	var end EndedError
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		end.Status = exit.Sys().(syscall.WaitStatus)
	} else if !errors.As(err, &end) {
		return 0, false
	}
	if end.Status.Signaled() {
		return 128 + int(end.Status.Signal()), true
	}
	return end.Status.ExitStatus(), true
}

// Start starts the program that command returns. Command is called again if ptrace is not
// permitted.
func Start(command func() *exec.Cmd) (*Program, error) {
	runtime.LockOSThread()
	p := &Program{Cmd: command(), Held: true}
	// If ccmapd is killed before the program asks to be traced, init would trace the
	// program and leave it stopped for good. So the program dies with this thread.
	p.Cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true, Pdeathsig: unix.SIGKILL}
	err := p.Cmd.Start()
	switch {
	case err == nil:
		return p, p.passLoader()
	case !errors.Is(err, unix.EPERM):
		runtime.UnlockOSThread()
		return nil, err
	}
	runtime.UnlockOSThread()
	return StartFreely(command)
}

// StartFreely starts a program that runs at once.
func StartFreely(command func() *exec.Cmd) (*Program, error) {
	p := &Program{Cmd: command()}
	return p, p.Cmd.Start()
}

// passLoader lets the program go on until it can be attached to. If that fails, the program
// has ended, or passLoader ends it.
func (p *Program) passLoader() error {
	err := p.leaveLoader()
	if err == nil {
		return nil
	}
	if errors.As(err, new(EndedError)) {
		runtime.UnlockOSThread()
		return err
	}
	return errors.Join(err, p.Kill())
}

// leaveLoader lets a Go program go from its exec to the first system call that is not made
// by the dynamic loader. Before that, the pointers of a position-independent program, and
// of its symbol table, are not relocated. The loader relocates before it calls any
// constructor or the entry point (tested with glibc 2.36). Other programs stay at their
// first system call: nothing reads their symbols, and with musl, whose loader is its C
// library, they would go to their end.
func (p *Program) leaveLoader() error {
	pid := p.Cmd.Process.Pid
	if err := p.waitForStop(); err != nil {
		return err
	}
	if err := unix.PtraceSetOptions(pid, unix.PTRACE_O_TRACESYSGOOD); err != nil {
		return fmt.Errorf("set ptrace options: %w", err)
	}
	if err := p.outlive(); err != nil {
		return err
	}
	if _, err := buildinfo.ReadFile(fmt.Sprintf("/proc/%d/exe", pid)); err != nil {
		return nil
	}
	for {
		if err := p.toSystemCall(); err != nil {
			return err
		}
		inLoader, err := callsFromLoader(pid)
		if err != nil || !inLoader {
			return err
		}
	}
}

// outlive lets the program go to its first system call, and makes it call
// prctl(PR_SET_PDEATHSIG, 0) instead, after which it outlives this thread. Then it puts the
// program back to where it was, so that it makes its own call.
func (p *Program) outlive() error {
	if err := p.toSystemCall(); err != nil {
		return err
	}
	pid := p.Cmd.Process.Pid
	var own unix.PtraceRegs
	if err := unix.PtraceGetRegs(pid, &own); err != nil {
		return fmt.Errorf("read registers: %w", err)
	}
	other := callingPrctl(own)
	if err := unix.PtraceSetRegs(pid, &other); err != nil {
		return fmt.Errorf("write registers: %w", err)
	}
	if err := p.toSystemCall(); err != nil { // to its end
		return err
	}
	again(&own)
	if err := unix.PtraceSetRegs(pid, &own); err != nil {
		return fmt.Errorf("write registers: %w", err)
	}
	return nil
}

// toSystemCall lets the program run to the beginning of its next system call, or to the
// end of the call that it is in.
func (p *Program) toSystemCall() error {
	if err := unix.PtraceSyscall(p.Cmd.Process.Pid, 0); err != nil {
		return fmt.Errorf("continue program: %w", err)
	}
	return p.waitForStop()
}

// waitForStop waits until the program stops at its exec or at a system call. It passes
// signals on. If the program has ended, the error is an EndedError.
func (p *Program) waitForStop() error {
	pid := p.Cmd.Process.Pid
	for {
		var status unix.WaitStatus
		_, err := unix.Wait4(pid, &status, unix.WALL, nil)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return fmt.Errorf("wait for program: %w", err)
		case !status.Stopped():
			return EndedError{syscall.WaitStatus(status)}
		case status.StopSignal()&^0x80 == unix.SIGTRAP:
			return nil
		}
		if err := unix.PtraceSyscall(pid, int(status.StopSignal())); err != nil {
			return fmt.Errorf("continue program: %w", err)
		}
	}
}

// Release lets the program run.
func (p *Program) Release() error {
	if !p.Held {
		return nil
	}
	defer runtime.UnlockOSThread()
	if err := unix.PtraceDetach(p.Cmd.Process.Pid); err != nil {
		return fmt.Errorf("let program run: %w", err)
	}
	return nil
}

// Kill ends the program before it has run.
func (p *Program) Kill() error {
	defer runtime.UnlockOSThread()
	if err := p.Cmd.Process.Kill(); err != nil {
		return fmt.Errorf("kill program: %w", err)
	}
	if err := p.Cmd.Wait(); !errors.As(err, new(*exec.ExitError)) {
		return err
	}
	return nil
}
