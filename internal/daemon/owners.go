package daemon

import (
	"errors"
	"fmt"

	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/sampler"
)

// With listen.open a user sees the samples of the processes that the kernel lets the user trace ([process.Owner]). So a
// map has processes of one owner alone, and each of them is looked at
//
//   - when it is found, and before and after it is attached to (isSame);
//   - before any of its samples enter the map (admission): an exec, or credentials that it has taken or given up;
//   - whenever such a user looks (Recheck).
//
// A process that fails ends its session, and its map becomes root's.

// errDisowned says that a process is its user's no more.
var errDisowned = errors.New("its user may not trace it any more")

// admission returns the question whether samples may enter the map of a session. Nil: only those who may see all
// processes can see the map.
func (f *follower) admission() func() error {
	if !f.users || !f.facts.Owner.Traceable {
		return nil
	}
	return f.stillOwned
}

// stillOwned returns an error if the process has another owner than the one that it was found with, or has executed
// another program since it was identified. The goroutines of run and of the session's manager call it.
func (f *follower) stillOwned() error {
	now, err := f.host.identity(f.facts.PID)
	switch {
	case err != nil:
		return err
	case !f.identity.SameProgram(now):
		return fmt.Errorf("process %d has become another program: %w", f.facts.PID, sampler.ErrNoProcess)
	case now.Owner != f.facts.Owner:
		f.disown(now.Owner)
		return fmt.Errorf("process %d: %w", f.facts.PID, errDisowned)
	}
	return nil
}

// disown notes that a process has another owner now. Its map, which has samples of before, is nobody's but root's.
func (f *follower) disown(now process.Owner) {
	f.mu.Lock()
	f.owner = now
	f.mu.Unlock()
	for _, s := range []*session{f.session.Load(), f.waits.session.Load()} {
		if s != nil {
			s.shelf.disown(s)
		}
	}
}

// recheck looks at the owner of a process again.
func (f *follower) recheck() {
	now, err := f.host.identity(f.facts.PID)
	if err == nil && now.Started == f.facts.Started && now.Owner != f.facts.Owner {
		f.disown(now.Owner)
	}
}

// Recheck returns a target after another look at its processes: its owners are those of now, and of before the end
// of those that have ended. The error wraps [ErrNoTarget].
func (d *Daemon) Recheck(target string) (TargetStatus, error) {
	t, err := d.roster.named(target)
	if err != nil {
		return TargetStatus{}, err
	}
	for _, f := range t.all() {
		f.recheck()
	}
	return t.status(), nil
}
