package daemon

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

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

// mergedCache keeps the last merge of a target's snapshots.
type mergedCache struct {
	mu     sync.Mutex
	parts  []*ccmap.Snapshot
	at     time.Time
	merged *ccmap.Snapshot
}

// mergeEvery is the least time between two merges for readers that do not ask for a fresh one.
const mergeEvery = time.Second

// Snapshot returns the profile of a target: of all its processes, and ended ones of the latest build, merged, or
// of one of them. A fresh one is published after the call; otherwise it is at most as old as the last
// reader's visit and a second. After a process has ended, its profile stays until one of another
// build comes. The error wraps [ErrNoTarget], [ErrNoProfile], or the reason why ctx is done.
func (d *Daemon) Snapshot(ctx context.Context, name string, pid int, fresh bool) (*ccmap.Snapshot, error) {
	t, readers, err := d.readers(name, pid, fresh)
	if err != nil {
		return nil, err
	}
	if len(readers) == 0 {
		return nil, fmt.Errorf("target %s: %w", name, ErrNoProfile)
	}
	if merged := t.merged.recent(); merged != nil && !fresh && pid == 0 && len(readers) > 1 {
		return merged, nil
	}
	parts, err := readAll(ctx, readers)
	if err != nil {
		return nil, fmt.Errorf("target %s: %w", name, err)
	}
	if len(parts) == 1 {
		return parts[0], nil
	}
	return t.merged.merge(parts)
}

type reader = func(context.Context) (*ccmap.Snapshot, error)

// readers returns how to get the snapshots of a target's slots.
func (d *Daemon) readers(name string, pid int, fresh bool) (*target, []reader, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	t, err := d.named(name)
	if err != nil {
		return nil, nil, err
	}
	var readers []reader
	for _, s := range t.slots {
		if s.retired || pid != 0 && s.process.PID != pid {
			continue
		}
		if read := s.reader(fresh); read != nil {
			readers = append(readers, read)
		}
	}
	return t, readers, nil
}

// readAll reads beside each other: each fresh snapshot takes its time.
func readAll(ctx context.Context, readers []reader) ([]*ccmap.Snapshot, error) {
	parts, errs := make([]*ccmap.Snapshot, len(readers)), make([]error, len(readers))
	var all sync.WaitGroup
	for i, read := range readers {
		all.Go(func() { parts[i], errs[i] = read(ctx) })
	}
	all.Wait()
	return parts, errors.Join(errs...)
}

func (c *mergedCache) recent() *ccmap.Snapshot {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.merged == nil || time.Since(c.at) >= mergeEvery {
		return nil
	}
	return c.merged
}

// merge returns the merge of parts. The same parts are merged once.
func (c *mergedCache) merge(parts []*ccmap.Snapshot) (*ccmap.Snapshot, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.merged != nil && slices.Equal(c.parts, parts) {
		return c.merged, nil
	}
	m := ccmap.New(ccmap.Options{})
	for _, part := range parts {
		if err := m.Merge(part); err != nil {
			return nil, fmt.Errorf("merge replicas: %w", err)
		}
	}
	c.parts, c.at, c.merged = parts, time.Now(), m.Snapshot()
	return c.merged, nil
}
