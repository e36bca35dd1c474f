package daemon

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/ccmapd/ccmapd/ccmap"
)

// Errors of the methods of a Daemon. Test for them with errors.Is.
var (
	ErrNoTarget   = errors.New("no such target")
	ErrNoProfile  = errors.New("nothing was sampled yet")
	ErrConfigured = errors.New("the target is of the configuration: remove it there")
	ErrWaits      = errors.New("it waits in target")
	ErrNoStore    = errors.New("no files are kept: set files = true in [store]")
	ErrFull       = errors.New("the daemon has as many targets as budget.targets permits")
	ErrEnds       = errors.New("the daemon ends")
)

// Snapshot returns the profile of a target, published after the call: of all its processes, and ended ones of the
// latest build, merged, or of one of them. After a process has ended, its profile stays until one of another build
// comes. The error wraps [ErrNoTarget], [ErrNoProfile], or the reason why ctx is done.
func (d *Daemon) Snapshot(ctx context.Context, name string, pid int) (*ccmap.Snapshot, error) {
	t, err := d.roster.named(name)
	if err != nil {
		return nil, err
	}
	return t.shelf.snapshot(ctx, pid)
}

// WaitsOf returns the profile of what the goroutines of a target wait for, as Snapshot does. A target whose waits are not
// sampled has none.
func (d *Daemon) WaitsOf(ctx context.Context, name string, pid int) (*ccmap.Snapshot, error) {
	t, err := d.roster.named(name)
	if err != nil {
		return nil, err
	}
	return t.beside.snapshot(ctx, pid)
}

// snapshot merges the snapshots of all slots, or of those of a process.
func (h *shelf) snapshot(ctx context.Context, pid int) (*ccmap.Snapshot, error) {
	name := h.Name
	parts, err := readAll(ctx, h.readers(pid))
	switch {
	case err != nil:
		return nil, fmt.Errorf("target %s: %w", name, err)
	case len(parts) == 0:
		return nil, fmt.Errorf("target %s: %w", name, ErrNoProfile)
	case len(parts) == 1:
		return parts[0], nil
	}
	m := ccmap.New(ccmap.Options{})
	for _, part := range parts {
		if err := m.Merge(part); err != nil {
			return nil, fmt.Errorf("target %s: merge replicas: %w", name, err)
		}
	}
	return m.Snapshot(), nil
}

// readAll reads beside each other: each snapshot takes its time.
func readAll(ctx context.Context, readers []reader) ([]*ccmap.Snapshot, error) {
	parts, errs := make([]*ccmap.Snapshot, len(readers)), make([]error, len(readers))
	var all sync.WaitGroup
	for i, read := range readers {
		all.Go(func() { parts[i], errs[i] = read(ctx) })
	}
	all.Wait()
	return parts, errors.Join(errs...)
}
