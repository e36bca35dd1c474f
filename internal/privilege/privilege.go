// Package privilege bounds the rights of this process: it keeps capabilities away from
// the files that the caller names, and confines commands that read files of unknown
// origin.
//
// # Capabilities
//
// A ccmapd with file capabilities (setcap) acts for users without these capabilities. If
// it opened a path of theirs with CAP_SYS_PTRACE in effect, it would give them more
// rights than they have: /proc/PID/cwd/x leads into directories of other users. Granted
// capabilities are those that exec gave to this process and that its caller lacks. They
// are in effect only during calls on a target:
//
//  1. [Start], before anything is opened, takes them off the effective set of every
//     thread, and drops the ones that sampling does not use.
//  2. A command names its uses of capabilities, and drops all others for good
//     ([Process.Keep]).
//  3. Around a call on a target, [Raise] puts them back in effect for the calling
//     thread, and [Section.Lower] takes them off again.
//
// # Threads
//
// Capabilities belong to threads, and a thread that the Go runtime makes inherits them
// from the thread that made it. Two facts keep raised capabilities on their threads:
//
//   - A section locks its goroutine to its thread, and the runtime never makes a thread
//     from a locked one: it asks a template thread, which was made before the first
//     lock (newm and startTemplateThread in runtime/proc.go, Go 1.21 to 1.26). So
//     every new thread begins without capabilities in effect.
//   - Nothing in a section starts a program. A program that ccmapd starts inherits
//     neither permitted nor effective capabilities by exec, because the inheritable and
//     ambient sets are the caller's own (capabilities(7)).
//
// Start reaches the existing threads by psx, which works with and without cgo.
//
// # Root, and the caller's own capabilities
//
// Root has its capabilities anyway: nothing is taken off the effective set, except CAP_KILL.
// A command needs that for one signal to a JVM, and [RaiseToWake] puts it in effect for
// that call alone. The same holds for the ambient set (a systemd unit's AmbientCapabilities),
// which every program that the caller starts has. Keep drops the ones that a command does
// not use, root's too.
//
// # Confinement
//
// A profile may come from anywhere. [Process.Confine] leaves a command that reads
// profiles only the rights to read files and to write its output: Landlock refuses
// execution and writing elsewhere, a seccomp filter refuses sockets, tracing and similar
// calls. A kernel may lack either of the two; [landlockABI] and [HasSeccomp] say so.
package privilege

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// Process is the rights of this process. A nil Process changes nothing: it is for tests
// that run commands in their own process.
type Process struct {
	held held // by every thread, outside of sections
	own  set  // the caller has them without ccmapd
}

// levels are the capabilities of a thread inside and outside of sections.
type levels struct{ inside, outside held }

// onTargets and toWake are the sections of Raise and RaiseToWake; nil if they change nothing. The
// goroutine that runs the command writes them while there are no sections. Any goroutine
// reads them to begin one.
var onTargets, toWake atomic.Pointer[levels]

// ErrSetuid means a set-user-ID or set-group-ID program.
var ErrSetuid = errors.New("ccmapd must not be set-user-ID or set-group-ID")

// Start takes granted capabilities off the effective set of all threads. Call it before
// anything is opened. From then on only calls between [Raise] and [Section.Lower] have
// them in effect. It fails with [ErrSetuid] or [ErrSignals].
func Start() (*Process, error) {
	if os.Getuid() != os.Geteuid() || os.Getgid() != os.Getegid() {
		return nil, ErrSetuid
	}
	if err := canSignal(); err != nil {
		return nil, err
	}
	h, err := ofThread()
	if err != nil {
		return nil, err
	}
	p := &Process{held: h, own: h.permitted}
	if os.Getuid() == 0 {
		return p, nil
	}
	p.own = h.ambient()
	if !p.Granted() {
		return p, nil
	}
	p.held.permitted &= p.own | neededFor(Targets)
	p.held.effective &= p.own
	return p, p.apply()
}

// apply gives all threads the capabilities that the process holds.
func (p *Process) apply() error {
	if err := p.held.setAll(); err != nil {
		return err
	}
	onTargets.Store(p.held.with(Targets))
	toWake.Store(p.held.with(Waking))
	return nil
}

// with returns the levels of a section that has the permitted capabilities for a use in effect; nil
// if they are in effect anyway.
func (h held) with(use Use) *levels {
	inside := h
	inside.effective |= h.permitted & neededFor(use)
	if inside == h {
		return nil
	}
	return &levels{inside, h}
}

// Granted reports whether the process holds granted capabilities.
func (p *Process) Granted() bool { return p != nil && p.held.permitted&^p.own != 0 }

// Keep drops for good all capabilities that serve none of the given uses. Call it before
// anything is sampled. Granted capabilities serve Targets alone. A process that has
// dropped them is like any other of the caller's, so the kernel lets the caller debug and
// sample it again (PR_SET_DUMPABLE of prctl(2)).
func (p *Process) Keep(use Use) error {
	if p == nil {
		return nil
	}
	granted, before := p.Granted(), p.held
	p.held.permitted &= p.own&neededFor(use) | neededFor(use&Targets)
	p.held.effective &= p.held.permitted &^ (neededFor(use&Waking) &^ neededFor(use&^Waking))
	if p.held == before {
		return nil
	}
	if err := p.apply(); err != nil {
		return err
	}
	if !granted || p.Granted() {
		return nil
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("make process dumpable: %w", err)
	}
	return nil
}

// capabilities lists the permitted capabilities as setcap(8) does.
func (p *Process) capabilities() string { return p.held.permitted.String() }

// Section is a sequence of calls on a target, in one goroutine. The zero value has raised
// nothing.
type Section struct{ *levels }

// Raise begins a section: the calling goroutine stays on its thread, where the
// capabilities for calls on targets are in effect until [Section.Lower]. In a section,
// open nothing by a name from the caller, start no program, and begin no other section.
// If no capabilities were taken off, Raise does nothing.
//
//	defer privilege.Raise().Lower()
func Raise() Section { return begin(onTargets.Load()) }

// RaiseToWake begins a section with the capability to signal processes of other users, if the
// command has kept it for [Waking]. All that is said of Raise holds. Its section is for one signal,
// to a process that was checked right before.
func RaiseToWake() Section { return begin(toWake.Load()) }

func begin(l *levels) Section {
	if l == nil {
		return Section{}
	}
	runtime.LockOSThread()
	if err := l.inside.setThread(); err != nil {
		panic(err) // all permitted capabilities may be in effect
	}
	return Section{l}
}

// Lower ends the section.
func (s Section) Lower() {
	if s.levels == nil {
		return
	}
	if err := s.outside.setThread(); err != nil {
		panic(err) // a thread may always have less
	}
	runtime.UnlockOSThread()
}
