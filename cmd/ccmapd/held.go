package main

import (
	"debug/buildinfo"
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// heldProgram is a program that has been started and waits to be attached to:
// its code is loaded and relocated, and none of it has run, or next to none.
//
// All of its methods are called by the goroutine that started it, which keeps
// its thread until release or kill: ptrace(2) takes requests of that thread only.
type heldProgram struct {
	cmd  *exec.Cmd
	held bool // false: it runs, because ptrace is not permitted
}

// startHeld starts the program that command returns.
func startHeld(command func() *exec.Cmd) (*heldProgram, error) {
	runtime.LockOSThread()
	p := &heldProgram{cmd: command(), held: true}
	// If ccmapd is killed before the program asks to be traced, init would trace
	// the program and leave it stopped for good: so it dies with this thread.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true, Pdeathsig: unix.SIGKILL}
	err := p.cmd.Start()
	switch {
	case err == nil:
		return p, p.passLoader()
	case !errors.Is(err, unix.EPERM):
		runtime.UnlockOSThread()
		return nil, err
	}
	runtime.UnlockOSThread()
	p = &heldProgram{cmd: command()}
	return p, p.cmd.Start()
}

// passLoader lets the program go on to where it can be attached to. If that is
// not possible the program has ended, or is ended.
func (p *heldProgram) passLoader() error {
	err := p.leaveLoader()
	if err == nil {
		return nil
	}
	if errors.As(err, new(exitError)) {
		runtime.UnlockOSThread()
		return err
	}
	return errors.Join(err, p.kill())
}

// leaveLoader lets a Go program go from its exec to the first system call that is
// not made by the dynamic loader. Before that, pointers of a position-independent
// program are not yet relocated, its symbol table among them. The loader
// relocates before it calls any constructor or the entry point (tested with glibc
// 2.36). Other programs stay at their first system call: nobody reads their symbols,
// and with musl, whose loader is its C library, they would go to their end.
func (p *heldProgram) leaveLoader() error {
	pid := p.cmd.Process.Pid
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

// outlive lets the program go to its first system call, and has it make another one
// in that place: prctl(PR_SET_PDEATHSIG, 0), after which it outlives this thread. The
// program is left as it was before that call, which it then makes.
func (p *heldProgram) outlive() error {
	if err := p.toSystemCall(); err != nil {
		return err
	}
	pid := p.cmd.Process.Pid
	var own unix.PtraceRegs
	if err := unix.PtraceGetRegs(pid, &own); err != nil {
		return fmt.Errorf("read registers: %w", err)
	}
	other := own
	if own.Cs == userCode64 {
		other.Orig_rax, other.Rdi, other.Rsi = unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, 0
	} else {
		other.Orig_rax, other.Rbx, other.Rcx = prctl32, unix.PR_SET_PDEATHSIG, 0
	}
	if err := unix.PtraceSetRegs(pid, &other); err != nil {
		return fmt.Errorf("write registers: %w", err)
	}
	if err := p.toSystemCall(); err != nil { // to its end
		return err
	}
	own.Rax = own.Orig_rax
	own.Rip -= systemCallLength
	if err := unix.PtraceSetRegs(pid, &own); err != nil {
		return fmt.Errorf("write registers: %w", err)
	}
	return nil
}

const (
	userCode64       = 0x33 // code segment of 64-bit programs (arch/x86/include/asm/segment.h, Linux 6.18)
	prctl32          = 172  // of 32-bit programs (syscall_32.tbl)
	systemCallLength = 2    // bytes, of SYSCALL and of INT 0x80
)

// toSystemCall lets the program run to the begin of its next system call, or to the
// end of the one that it is in.
func (p *heldProgram) toSystemCall() error {
	if err := unix.PtraceSyscall(p.cmd.Process.Pid, 0); err != nil {
		return fmt.Errorf("continue program: %w", err)
	}
	return p.waitForStop()
}

// waitForStop waits until the program stops at its exec or at a system call. A
// signal on the way is passed on. If the program has ended, the error has its
// exit code.
func (p *heldProgram) waitForStop() error {
	pid := p.cmd.Process.Pid
	for {
		var status unix.WaitStatus
		_, err := unix.Wait4(pid, &status, unix.WALL, nil)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return fmt.Errorf("wait for program: %w", err)
		case !status.Stopped():
			return exitError{exitStatus(syscall.WaitStatus(status)), errors.New("program ended while it was loaded")}
		case status.StopSignal()&^0x80 == unix.SIGTRAP:
			return nil
		}
		if err := unix.PtraceSyscall(pid, int(status.StopSignal())); err != nil {
			return fmt.Errorf("continue program: %w", err)
		}
	}
}

// release lets the program run.
func (p *heldProgram) release() error {
	if !p.held {
		return nil
	}
	defer runtime.UnlockOSThread()
	if err := unix.PtraceDetach(p.cmd.Process.Pid); err != nil {
		return fmt.Errorf("let program run: %w", err)
	}
	return nil
}

// kill ends the program before it has run.
func (p *heldProgram) kill() error {
	defer runtime.UnlockOSThread()
	if err := p.cmd.Process.Kill(); err != nil {
		return fmt.Errorf("kill program: %w", err)
	}
	if err := p.cmd.Wait(); !errors.As(err, new(*exec.ExitError)) {
		return err
	}
	return nil
}
