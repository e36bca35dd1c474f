package family

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/cmd/ccmapd/internal/session"
	"github.com/ccmapd/ccmapd/internal/budget"
	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/internal/supervise"
	"github.com/ccmapd/ccmapd/manager"
	"github.com/ccmapd/ccmapd/sampler"
)

// member is a process of the family. All fields are under the family's mu.
type member struct {
	pid, parent int
	name        string // as ps shows it; foreign
	due         *time.Timer

	executed time.Time      // when it began its program
	file     process.FileID // the executable, once it was looked at
	looks    int            // at how many of ages its program is known to be a stranger

	wanted  bool // it is to be attached to
	running bool // a goroutine attaches to it, or samples it
	dead    bool
	session *session.Session // nil: it is not sampled now
	share   budget.Share

	child Child // for the report
}

// bear makes a member of a process that was born. One that a scan has found is known already. The
// caller holds mu.
func (f *Family) bear(pid, parent int) *member {
	if old := f.members[pid]; old != nil && !old.dead {
		return old
	}
	m := &member{pid: pid, parent: parent, name: f.nameOf(parent)}
	f.members[pid] = m
	m.due = time.AfterFunc(grace, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if m.child.Outcome == "" && !m.dead {
			f.executes(m)
		}
	})
	return m
}

// nameOf returns the name of a process: a child begins with its parent's.
func (f *Family) nameOf(pid int) string {
	if m := f.members[pid]; m != nil {
		return m.name
	}
	return ""
}

// executes takes in that a member runs a program that was not tried. The caller holds mu.
func (f *Family) executes(m *member) {
	m.executed, m.looks = time.Now(), 0
	f.want(m)
}

// want makes a goroutine attach to a member. The caller holds mu.
func (f *Family) want(m *member) {
	if f.closing || m.dead {
		return
	}
	m.due.Stop()
	m.wanted = true
	if !m.running {
		m.running = true
		f.work.Go(func() { f.tend(m) })
	}
}

// bury takes in that a member has ended. The caller holds mu.
func (f *Family) bury(m *member) {
	m.due.Stop()
	m.dead = true
	if !m.running {
		f.forget(m)
	}
}

// forget counts a member that needs no more work. The caller holds mu.
func (f *Family) forget(m *member) {
	if f.members[m.pid] == m {
		delete(f.members, m.pid)
		f.gate.Freed(m.pid)
	}
	if m.child.Outcome == "" {
		m.child.Outcome = Missed
	}
	m.child.PID, m.child.Parent = m.pid, m.parent
	if m.child.Program == "" {
		m.child.Program = m.name
	}
	f.tally.add(m.child)
}

// endAll counts the members that are still there. The caller holds mu.
func (f *Family) endAll() {
	for _, m := range f.members {
		f.forget(m)
	}
}

// tend attaches to a member, and samples it until it ends, or runs another program: then once more.
func (f *Family) tend(m *member) {
	for {
		f.mu.Lock()
		if !m.wanted || f.ctx.Err() != nil {
			m.running = false
			if m.dead {
				f.forget(m)
			}
			f.mu.Unlock()
			return
		}
		m.wanted = false
		f.mu.Unlock()
		if err := f.sample(m); err != nil && f.ctx.Err() == nil {
			f.fail(m, err)
		}
	}
}

// fail keeps why a member is not sampled. An earlier program of the process may have been.
func (f *Family) fail(m *member, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if errors.Is(err, sampler.ErrNotManaged) {
		f.lookLater(m)
	}
	if m.child.Outcome == Sampled {
		return
	}
	switch {
	case errors.Is(err, sampler.ErrNoProcess) || process.Gone(err):
		m.child.Outcome = cmp.Or(m.child.Outcome, Missed) // what an earlier attempt has found stays
	case errors.Is(err, sampler.ErrNotManaged):
		m.child.Outcome = Stranger
	default:
		m.child.Outcome, m.child.Reason = Refused, err.Error()
	}
}

// sample attaches to a member, and samples it until its program ends.
func (f *Family) sample(m *member) error {
	select {
	case f.places <- struct{}{}:
		defer func() { <-f.places }()
	case <-f.ctx.Done():
		return context.Cause(f.ctx)
	}
	s, err := f.attach(m)
	if err != nil {
		return err
	}
	f.mu.Lock()
	m.session = s
	m.child.Outcome = Sampled
	f.mu.Unlock()
	r, err := s.Run(f.ctx, io.Discard, io.Discard)
	f.mu.Lock()
	defer f.mu.Unlock()
	m.session = nil
	f.keep(m, s.Target(), r)
	if err != nil {
		m.child.Reason = err.Error()
	}
	return nil
}

// attach opens a session with a member.
func (f *Family) attach(m *member) (s *session.Session, err error) {
	err = f.gate.Attempt(f.ctx, supervise.Process{PID: m.pid}, supervise.Opener{
		Check: func(supervise.Pin) error { return awaitProgram(f.ctx, m.pid) },
		Open: func(p supervise.Pin, file process.FileID) (err error) {
			if f.skips(m, file) {
				return sampler.ErrNotManaged
			}
			c, open := f.options.Session(f.ctx, m.pid)
			s, err = session.Open(f.aside(c, m), session.Pinned(m.pid, p, open))
			if errors.Is(err, sampler.ErrNotManaged) && p.Gone() {
				return sampler.ErrNoProcess // without code, which says nothing of its program
			}
			return err
		},
	})
	return s, err
}

// aside returns the configuration of a member's session: it ends with the family's, and its profile
// goes to the family.
func (f *Family) aside(c session.Config, m *member) session.Config {
	c.Duration, c.Until, c.Quiet, c.JSON, c.Children = 0, manager.Goal{}, true, false, nil
	c.Values.Dump = nil
	c.Dumps, c.Store = func(int) []manager.Dump { return nil }, nil // the outputs are of programs
	c.Logger = c.Logger.With("child", m.pid)
	return f.shared(c, &m.share)
}

// keep takes in the profile of a member. The caller holds mu.
func (f *Family) keep(m *member, target ccmap.Target, r manager.Report) {
	total := r.Snapshot.Total()
	m.child.Samples += total.Samples
	m.child.CPU += time.Duration(total.Time)
	target.Executable = cmp.Or(target.Executable, m.name) // unknown of one that ended as it was looked at
	m.child.Program = target.Executable
	if total.IsZero() {
		return
	}
	p := f.programOf(target)
	if p == nil {
		p = &program{target: target, first: m.pid, profile: f.newMap()}
		f.programs = append(f.programs, p)
	}
	p.processes++
	if err := p.profile.Merge(r.Snapshot); err != nil {
		m.child.Reason = fmt.Sprintf("its profile is lost: %v", err)
	}
}

// program is what children of one build have counted.
type program struct {
	target  ccmap.Target
	first   int // the process that was kept first
	profile *ccmap.Map
	files   []string

	processes int64
}

// programOf returns the program of a target, nil if no child has run it. The caller holds mu.
func (f *Family) programOf(target ccmap.Target) *program {
	i := slices.IndexFunc(f.programs, func(p *program) bool {
		return p.target.BuildID == target.BuildID && (target.BuildID != "" || p.target.Executable == target.Executable)
	})
	if i < 0 {
		return nil
	}
	return f.programs[i]
}

// newMap returns an empty map as a session has it.
func (f *Family) newMap() *ccmap.Map {
	return ccmap.New(ccmap.Options{MaxBytes: f.options.MaxMemory, Window: f.options.Window})
}

// name returns the name of the program.
func (p *program) name() string {
	return path.Base(strings.TrimSuffix(p.target.Executable, " (deleted)"))
}
