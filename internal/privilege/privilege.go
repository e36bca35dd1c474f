package privilege

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// Process is what this process may do. A nil Process changes nothing, for tests that
// run commands in a process of their own.
type Process struct {
	held held // by every thread, outside of sections
	own  set  // what the caller has without ccmapd
}

// levels are what a thread has inside and outside of sections.
type levels struct{ inside, outside held }

// section is nil where sections change nothing. It is written by the goroutine that runs
// the command, while there are no sections, and read by whoever begins one.
var section atomic.Pointer[levels]

// ErrSetuid is why Start fails in a set-user-ID or set-group-ID program.
var ErrSetuid = errors.New("ccmapd must not be set-user-ID or set-group-ID")

// Start takes off the effective set of all threads what exec granted and the caller has
// not. It is called before anything is opened. Whatever it takes off, the calls between
// [Raise] and [Section.Lower] have.
func Start() (*Process, error) {
	if os.Getuid() != os.Geteuid() || os.Getgid() != os.Getegid() {
		return nil, ErrSetuid
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
	p.held.permitted &= p.own | setOf(targets)
	p.held.effective &= p.own
	return p, p.apply()
}

// apply gives all threads what the process holds.
func (p *Process) apply() error {
	if err := p.held.setAll(); err != nil {
		return err
	}
	inside := p.held
	inside.effective = p.held.effective | p.held.permitted&setOf(targets)
	if inside == p.held {
		section.Store(nil)
		return nil
	}
	section.Store(&levels{inside, p.held})
	return nil
}

// Granted reports whether the process has capabilities for calls on targets that its
// caller has not.
func (p *Process) Granted() bool { return p != nil && p.held.permitted&^p.own != 0 }

// Drop drops for good what exec granted and the caller has not, before anything is
// sampled. After that the process
// is like any other of the caller's, and as such the kernel lets the caller debug and
// sample it again (PR_SET_DUMPABLE of prctl(2)).
func (p *Process) Drop() error {
	if !p.Granted() {
		return nil
	}
	p.held.permitted &= p.own
	if err := p.apply(); err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("make process dumpable: %w", err)
	}
	return nil
}

// Section is a stretch of calls on a target, in one goroutine. The zero value has raised
// nothing.
type Section struct{ *levels }

// Raise begins a section: the calling goroutine stays on its thread, on which the
// capabilities for calls on targets are in effect until [Section.Lower]. Nothing is
// opened in a section by a name that the caller gave, no program is started, and no
// other section begun. Where nothing was taken off, Raise does nothing.
//
//	defer privilege.Raise().Lower()
func Raise() Section {
	l := section.Load()
	if l == nil {
		return Section{}
	}
	runtime.LockOSThread()
	if err := l.inside.setThread(); err != nil {
		panic(err) // of permitted capabilities, all may be in effect
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
