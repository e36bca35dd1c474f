package daemon

import (
	"context"
	"fmt"

	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/internal/supervise"
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
	if err == nil {
		name, err = d.roster.attach(ctx, facts)
	}
	if err != nil {
		return "", fmt.Errorf("attach to process %d: %w", pid, err)
	}
	return name, nil
}

// attach has a process followed, by a target of its own if it must be, and waits until it is sampled.
func (r *roster) attach(ctx context.Context, facts process.Facts) (name string, err error) {
	f, made, err := r.follow(facts)
	if err != nil {
		return "", err
	}
	select {
	case <-f.first.done:
		err = f.first.err
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err == nil || f.life.Is().State == supervise.Open { // perhaps at a later attempt
		return f.Name, nil
	}
	if r.ends() { // which has ended the attempt
		err = ErrEnds
	}
	if made != nil {
		r.detach(made)
	}
	return "", err
}

// Detach removes a target that Attach has made.
func (d *Daemon) Detach(name string) error {
	t, err := d.roster.named(name)
	if err != nil {
		return err
	}
	if t.attached == nil {
		return fmt.Errorf("detach %s: %w", name, ErrConfigured)
	}
	d.roster.detach(t)
	return nil
}

// Pause ends the sessions of a target. Its maps stay. What a program that is followed counts meanwhile is left
// out, as it is of a process.
func (d *Daemon) Pause(name string) error {
	t, err := d.roster.named(name)
	if err == nil {
		t.pause()
	}
	return err
}

// Resume ends a pause.
func (d *Daemon) Resume(name string) error {
	t, err := d.roster.named(name)
	if err != nil {
		return err
	}
	t.resume()
	d.discovery.lookAgain(allProcesses)
	return nil
}

// Rotate files all that a target has counted since the last period.
func (d *Daemon) Rotate(ctx context.Context, name string) error {
	t, err := d.roster.named(name)
	switch {
	case err != nil:
		return err
	case d.periods.keeper == nil:
		return fmt.Errorf("rotate %s: %w", name, ErrNoStore)
	}
	return d.periods.file(ctx, t)
}
