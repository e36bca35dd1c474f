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

// section is nil where sections change nothing. The goroutine that runs the command
// writes it while there are no sections; any goroutine reads it to begin one.
var section atomic.Pointer[levels]

// ErrSetuid is why Start fails in a set-user-ID or set-group-ID program.
var ErrSetuid = errors.New("ccmapd must not be set-user-ID or set-group-ID")

// Start takes granted capabilities off the effective set of all threads. It is called
// before anything is opened. From then on calls between [Raise] and [Section.Lower] have
// them in effect, and no others do.
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
	p.held.permitted &= p.own | neededFor(Targets)
	p.held.effective &= p.own
	return p, p.apply()
}

// apply gives all threads the capabilities that the process holds.
func (p *Process) apply() error {
	if err := p.held.setAll(); err != nil {
		return err
	}
	inside := p.held
	inside.effective = p.held.effective | p.held.permitted&neededFor(Targets)
	if inside == p.held {
		section.Store(nil)
		return nil
	}
	section.Store(&levels{inside, p.held})
	return nil
}

// Granted reports whether the process holds granted capabilities.
func (p *Process) Granted() bool { return p != nil && p.held.permitted&^p.own != 0 }

// Keep drops for good all capabilities that serve none of the given uses. It is called
// before anything is sampled. Granted capabilities serve Targets alone. A process that has
// dropped them is like any other of the caller's, and as such the kernel lets the caller
// debug and sample it again (PR_SET_DUMPABLE of prctl(2)).
func (p *Process) Keep(use Use) error {
	if p == nil {
		return nil
	}
	granted, before := p.Granted(), p.held
	p.held.permitted &= p.own&neededFor(use) | neededFor(use&Targets)
	p.held.effective &= p.held.permitted
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

// Capabilities lists the permitted capabilities as setcap(8) does.
func (p *Process) Capabilities() string { return p.held.permitted.String() }

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
