package daemon

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ccmapd/ccmapd/internal/daemon/config"
	"github.com/ccmapd/ccmapd/internal/process"
)

// roster has all targets, and gives processes to them. It takes its lock before a target's.
//
//	means, ctx, spawn, left   never change
//	all others                under mu
type roster struct {
	*means
	ctx   context.Context // of all sessions
	spawn func(func())    // runs a function in a goroutine that the daemon waits for
	left  func(*target, *follower)

	mu      sync.Mutex
	order   []*target // of the configuration, then attached ones; a slice never changes
	leaving []*target // removed, and not all filed
	running int       // followers
	closing bool
}

// all returns the targets in their order.
func (r *roster) all() []*target {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.order
}

// everyone returns all targets, also removed ones that wait to be filed.
func (r *roster) everyone() []*target {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Concat(r.order, r.leaving)
}

// sessions returns the sessions of all targets.
func (r *roster) sessions() (all []*session) {
	for _, t := range r.everyone() {
		all = append(all, t.shelf.sessions()...)
	}
	return all
}

// waiting returns the sessions beside them, of what goroutines wait for.
func (r *roster) waiting() (all []*session) {
	for _, t := range r.everyone() {
		all = append(all, t.beside.sessions()...)
	}
	return all
}

// named returns a target.
func (r *roster) named(name string) (*target, error) {
	all := r.all()
	if i := slices.IndexFunc(all, func(t *target) bool { return t.Name == name }); i >= 0 {
		return all[i], nil
	}
	return nil, fmt.Errorf("%w: %q", ErrNoTarget, name)
}

// of returns the first target that a process fits, nil if there is none.
func (r *roster) of(f process.Facts) *target { return fitting(r.all(), f) }

func fitting(all []*target, f process.Facts) *target {
	if i := slices.IndexFunc(all, func(t *target) bool { return t.fits(f) }); i >= 0 {
		return all[i]
	}
	return nil
}

// followerOf returns the follower of a process, and the target that has it; nil: none has.
func followerOf(all []*target, pid int) (*target, *follower) {
	for _, t := range all {
		if f := t.follower(pid); f != nil {
			return t, f
		}
	}
	return nil, nil
}

// follows reports whether a target has the process.
func (r *roster) follows(pid int) bool {
	_, f := followerOf(r.all(), pid)
	return f != nil
}

// wants reports whether a target would take a process that none has.
func (r *roster) wants(f process.Facts) bool {
	for _, t := range r.all() {
		t.noteHidden(f)
	}
	return !r.follows(f.PID) && r.of(f) != nil && !r.gate.IsFull(f.UID)
}

// update takes in the outcome of a scan: the processes that exist, and those that targets would take. It starts the
// followers that there is a place for.
func (r *roster) update(exist map[int]uint64, found []candidate) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, t := range r.order {
		t.dropEnded(exist)
		t.admitOther()
	}
	for _, c := range found {
		if _, f := followerOf(r.order, c.PID); f != nil {
			continue
		}
		if t := fitting(r.order, c.Facts); t != nil {
			t.admit(c)
		}
	}
	for _, t := range r.order {
		t.schedule(time.Now(), r.start)
	}
}

// start runs a follower, if there is a place. The caller holds mu and the target's lock.
func (r *roster) start(t *target, f *follower) bool {
	if r.closing || r.running >= r.config().Budget.Targets {
		return false
	}
	r.running++
	f.start(r.ctx, r.spawn, func() {
		r.mu.Lock()
		r.running--
		closing := r.closing
		r.mu.Unlock()
		t.left(f, closing)
		r.left(t, f)
	})
	return true
}

// follow returns the follower of a process that is to be attached to, and the target that it has made for it; nil:
// another target has the process.
func (r *roster) follow(facts process.Facts) (f *follower, made *target, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if t, f := followerOf(r.order, facts.PID); f != nil {
		return f, nil, t.waits(f)
	}
	if r.closing {
		return nil, nil, ErrEnds
	}
	if most := r.config().Budget.Targets; len(r.order) >= most || r.running >= most {
		return nil, nil, fmt.Errorf("%w, %d", ErrFull, most)
	}
	t := r.newTarget(config.Target{Name: freeName(r.order, facts), Match: config.Match{PID: facts.PID}, Settings: r.config().Defaults})
	t.attached, t.owned = &facts, r.users && facts.Owner.Traceable
	r.order = append(slices.Clip(r.order), t)
	f = t.add(facts)
	t.schedule(time.Now(), r.start)
	return f, t, nil
}

// freeName returns a name for the target of a process that none of all has.
func freeName(all []*target, f process.Facts) string {
	base := strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '_'
	}, path.Base(cmp.Or(f.Executable, f.Name, "process")))
	name := fmt.Sprintf("%s-%d", cmp.Or(strings.TrimLeft(base[:min(len(base), 40)], "_"), "process"), f.PID)
	for i := 2; slices.ContainsFunc(all, func(t *target) bool { return t.Name == name }); i++ {
		name = fmt.Sprintf("%s-%d", name, i)
	}
	return name
}

// replace puts the targets of a configuration in the place of those of the last one. Unchanged targets stay as they
// are.
func (r *roster) replace(targets []*target) {
	r.mu.Lock()
	defer r.mu.Unlock()
	kept := make(map[*target]bool)
	for i, t := range targets {
		j := slices.IndexFunc(r.order, func(old *target) bool { return old.attached == nil && old.aim == t.aim })
		if j >= 0 {
			targets[i] = r.order[j]
		}
		kept[targets[i]] = true
	}
	for _, old := range r.order {
		switch {
		case kept[old]:
		case old.attached != nil && !slices.ContainsFunc(targets, func(t *target) bool { return t.Name == old.Name }):
			targets = append(targets, old)
		default:
			r.remove(old, errChanged)
		}
	}
	r.order = targets
}

// remove ends the sessions of a target that is no longer in order, and keeps it until it is filed. The caller holds mu.
func (r *roster) remove(t *target, cause error) {
	t.mu.Lock()
	t.rotation = time.Time{}
	t.mu.Unlock()
	t.stop(cause)
	r.leaving = append(r.leaving, t)
}

// detach removes a target, if it is there.
func (r *roster) detach(t *target) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if i := slices.Index(r.order, t); i >= 0 {
		r.order = slices.Delete(slices.Clone(r.order), i, i+1)
		r.remove(t, errDetached)
	}
}

// due returns the removed targets that are to be filed now, each once until [roster.forget] or [roster.retry].
func (r *roster) due(now time.Time) (all []*target) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, t := range r.leaving {
		t.mu.Lock()
		if len(t.followers) == 0 && !t.removing && !now.Before(t.rotation) {
			t.removing = true
			all = append(all, t)
		}
		t.mu.Unlock()
	}
	return all
}

// forget drops a removed target. It returns false if the target could not be filed and there is room for it to wait:
// then it is due again later.
func (r *roster) forget(t *target, filed bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !filed && len(r.leaving) <= mostLeaving {
		t.mu.Lock()
		t.removing, t.rotation = false, time.Now().Add(fileAgain)
		t.mu.Unlock()
		return false
	}
	r.leaving = slices.DeleteFunc(r.leaving, func(o *target) bool { return o == t })
	return true
}

// close starts no follower any more.
func (r *roster) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closing = true
}

// ends reports whether the daemon is closing.
func (r *roster) ends() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.closing
}
