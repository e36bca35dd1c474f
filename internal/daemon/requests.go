package daemon

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/ccmapd/ccmapd/internal/daemon/config"
	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/sampler"
)

// Attach adds a target for one process, with the default settings, and waits until it is sampled.
// If a target samples the process already, Attach returns that one. If the process waits in a target, the error
// wraps [ErrWaits]; if there is no room for another target, [ErrFull]; if the daemon is closing, [ErrEnds].
func (d *Daemon) Attach(ctx context.Context, pid int) (name string, err error) {
	facts, err := d.host.facts(pid)
	if process.Gone(err) {
		err = sampler.ErrNoProcess
	}
	if err != nil {
		return "", fmt.Errorf("attach to process %d: %w", pid, err)
	}
	f, made, err := d.follow(facts)
	if err != nil {
		return "", err
	}
	select {
	case <-f.settled:
	case <-ctx.Done():
		err = fmt.Errorf("attach to process %d: %w", pid, context.Cause(ctx))
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if err == nil {
		err = f.first
	}
	if err == nil || f.state == Sampling { // perhaps at a later attempt
		return f.target.Name, nil
	}
	if d.closing { // which has ended the attempt
		err = fmt.Errorf("attach to process %d: %w", pid, ErrEnds)
	}
	if t := f.target; made && slices.Contains(d.order, t) {
		d.detach(t)
	}
	return "", err
}

// follow returns the follower of a process, and whether it has made a target for it.
func (d *Daemon) follow(facts process.Facts) (f *follower, made bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch f := d.followerOf(facts.PID); {
	case f == nil:
	case f.cancel == nil:
		return nil, false, fmt.Errorf("attach to process %d: %w %s: %s", facts.PID, ErrWaits, f.target.Name, cmp.Or(f.reason, "it is paused"))
	default:
		return f, false, nil
	}
	if d.closing {
		return nil, false, fmt.Errorf("attach to process %d: %w", facts.PID, ErrEnds)
	}
	if most := d.config.Budget.Targets; len(d.order) >= most || d.running >= most {
		return nil, false, fmt.Errorf("attach to process %d: %w, %d", facts.PID, ErrFull, most)
	}
	one := config.Target{Name: d.freeName(facts), Match: config.Match{PID: facts.PID}, Settings: d.config.Defaults}
	t := newTarget(one)
	t.attached, t.owned = &facts, d.first.Listen.Open && facts.Owner.Traceable
	d.order = append(slices.Clip(d.order), t)
	f = d.add(t, facts)
	d.start(f)
	return f, true, nil
}

// freeName returns a name for the target of a process. The caller holds mu.
func (d *Daemon) freeName(f process.Facts) string {
	base := strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '_'
	}, path.Base(cmp.Or(f.Executable, f.Name, "process")))
	name := fmt.Sprintf("%s-%d", cmp.Or(strings.TrimLeft(base[:min(len(base), 40)], "_"), "process"), f.PID)
	for i := 2; ; i++ {
		if _, err := d.named(name); err != nil {
			return name
		}
		name = fmt.Sprintf("%s-%d", name, i)
	}
}

// Detach removes a target that Attach has made.
func (d *Daemon) Detach(name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	t, err := d.named(name)
	if err != nil {
		return err
	}
	if t.attached == nil {
		return fmt.Errorf("detach %s: %w", name, ErrConfigured)
	}
	d.detach(t)
	return nil
}

// detach removes a target. The caller holds mu.
func (d *Daemon) detach(t *target) {
	d.order = slices.DeleteFunc(slices.Clone(d.order), func(o *target) bool { return o == t })
	d.remove(t, errDetached)
}

// Pause ends the sessions of a target. Its maps stay. What a program that is followed counts meanwhile is left
// out, as it is of a process.
func (d *Daemon) Pause(name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	t, err := d.named(name)
	if err != nil {
		return err
	}
	t.paused, t.last = true, nil
	t.stopFollowers(errPaused)
	return nil
}

// Resume ends a pause.
func (d *Daemon) Resume(name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	t, err := d.named(name)
	if err != nil {
		return err
	}
	t.paused = false
	d.lookAgain = append(d.lookAgain, allProcesses)
	d.nudge()
	return nil
}

// Rotate files all that a target has counted since the last period.
func (d *Daemon) Rotate(ctx context.Context, name string) error {
	d.mu.Lock()
	t, err := d.named(name)
	files := d.config.Store.Files
	d.mu.Unlock()
	switch {
	case err != nil:
		return err
	case !files:
		return fmt.Errorf("rotate %s: %w", name, ErrNoStore)
	}
	return d.file(ctx, t)
}
