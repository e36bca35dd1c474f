package daemon

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/daemon/config"
)

const (
	// retiredSlots bounds the slots of a target that cannot be filed: the oldest are lost.
	retiredSlots = 4
	// fileWait bounds the wait for a snapshot.
	fileWait = 5 * time.Second
	// rotateJitter is how much later a period may end, as a part of it: not all targets must
	// write at once.
	rotateJitter = 0.05
	// filedAtOnce bounds the targets that are filed at the same time, at the end: each takes memory.
	filedAtOnce = 4
)

// periods files what targets count, period by period, and removes old files. Any goroutine may call its methods.
type periods struct {
	*means
	store func() config.Store                        // in force
	write func(path string, s *ccmap.Snapshot) error // a file of a period
	began time.Time                                  // of the daemon

	removing  sync.Mutex // one removal of old files at a time
	retention retention  // under removing
}

// nextRotation returns the end of the period that has now in it, by the wall clock.
func nextRotation(now time.Time, every time.Duration) time.Time {
	late := time.Duration(rotateJitter * rand.Float64() * float64(every))
	return now.Truncate(every).Add(every + late)
}

// rotates reports whether a period has ended, and sets the end of the next.
func (t *target) rotates(now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	every := t.Rotate
	first := t.rotation.IsZero() || t.rotation.Sub(now) > 2*every // the clock was set back
	if every == 0 || !first && now.Before(t.rotation) {
		return false
	}
	t.rotation = nextRotation(now, every)
	return !first
}

// rotate files the periods of targets that have ended. It returns at once, and spawns what takes time.
func (p *periods) rotate(now time.Time, targets []*target, spawn func(func())) {
	if !p.store().Files {
		return
	}
	for _, t := range targets {
		if t.rotates(now) {
			spawn(func() {
				p.file(context.Background(), t)
				p.removeOld(time.Now())
			})
		}
	}
}

// fileAtEnd files what a process has left, and forgets slots that no process needs.
func (p *periods) fileAtEnd(t *target) {
	if p.store().Files {
		p.file(context.Background(), t) // an error was logged, and the next period has it all
	} else {
		t.shelf.dropRetired(func(*slot) bool { return true })
	}
}

// file files all that a target has counted since the last period, a file for each build. What
// cannot be written stays for the next period.
func (p *periods) file(ctx context.Context, t *target) error {
	select {
	case t.filing <- struct{}{}:
		defer func() { <-t.filing }()
	case <-ctx.Done():
		return fmt.Errorf("target %s: wait for the files of before: %w", t.Name, context.Cause(ctx))
	}
	var all error
	for build, slots := range t.shelf.unfiled() {
		path, err := p.fileBuild(ctx, t, build, slots)
		switch {
		case err != nil:
			all = errors.Join(all, err)
			t.tally.count(func(c *Counters) { c.Unfiled++ })
			p.log.Error("cannot file period", "target", t.Name, "error", err)
			p.events.raise(Event{Kind: EventRotated, Target: t.Name, Text: "not filed: " + err.Error()})
		case path != "":
			p.events.raise(Event{Kind: EventRotated, Target: t.Name, Text: path})
		}
	}
	p.forgetRetired(t)
	return all
}

// errNoAnswer says that a file takes too long.
var errNoAnswer = errors.New("what it has counted may be in no file: the disk does not answer")

// fileAll files the counts of all targets, and names the targets that are not filed when ctx is done. A write to
// a disk that hangs cannot be ended, so it stays behind. Package hang would take a slow disk for one that
// hangs.
func (p *periods) fileAll(ctx context.Context, all []*target) (err error) {
	type outcome struct {
		t   *target
		err error
	}
	outcomes := make(chan outcome, len(all)) // has room for all
	left := make(map[*target]bool)
	turns := make(chan struct{}, filedAtOnce)
	for _, t := range all {
		if len(t.shelf.unfiled()) == 0 {
			continue
		}
		left[t] = true
		go func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			outcomes <- outcome{t, p.file(context.WithoutCancel(ctx), t)}
		}()
	}
	for len(left) > 0 {
		select {
		case o := <-outcomes:
			delete(left, o.t)
			err = errors.Join(err, o.err)
		case <-ctx.Done():
			for t := range left {
				p.log.Error("cannot file period", "target", t.Name, "error", errNoAnswer)
				err = errors.Join(err, fmt.Errorf("target %s: %w", t.Name, errNoAnswer))
			}
			return err
		}
	}
	return err
}

// forgetRetired drops the slots that no process needs, if all that they have is filed, or if they
// are too many. A session may have ended while its slot was filed: then there is more to file.
func (p *periods) forgetRetired(t *target) {
	kept := 0
	t.shelf.dropRetired(func(s *slot) bool {
		filed := s.filed == s.last
		if !filed && kept < retiredSlots {
			kept++
			return false
		}
		if !filed {
			t.tally.count(func(c *Counters) { c.GivenUp += uint64(s.unfiledSamples()) })
			p.log.Error("samples are lost, because no file could be written", "target", t.Name, "samples", s.unfiledSamples())
		}
		return true
	})
}

// unfiledSamples returns the samples of a free slot that no file has. The target's filing is
// locked.
func (s *slot) unfiledSamples() int64 {
	n := s.last.Total().Samples
	if s.filed != nil {
		n -= s.filed.Total().Samples
	}
	return n
}

// fileBuild writes one file of all slots. It returns "" if nothing was counted.
func (p *periods) fileBuild(ctx context.Context, t *target, build string, slots []unfiled) (path string, err error) {
	merged, now := ccmap.New(ccmap.Options{}), time.Now()
	from := now
	read := make([]*ccmap.Snapshot, len(slots))
	for i, s := range slots {
		delta, snapshot, err := s.delta(ctx)
		if err != nil {
			return "", fmt.Errorf("target %s: %w", t.Name, err)
		}
		if err := merged.Merge(delta); err != nil {
			return "", fmt.Errorf("target %s: %w", t.Name, err)
		}
		read[i] = snapshot
		if s.began.Before(from) {
			from = s.began
		}
	}
	if s := merged.Snapshot(); !s.Total().IsZero() {
		path = p.path(t.Name, build, from, now)
		if err := p.write(path, s); err != nil {
			return "", err
		}
	}
	for i, s := range slots {
		s.filed, s.began = read[i], now
	}
	return path, nil
}

// delta returns what the slot has counted in the period, and the snapshot that ends it. The
// target's filing is locked.
func (s *unfiled) delta(ctx context.Context) (delta, now *ccmap.Snapshot, err error) {
	ctx, cancel := context.WithTimeout(ctx, fileWait)
	defer cancel()
	if now, err = s.read(ctx); err != nil {
		return nil, nil, err
	}
	if s.filed == nil {
		return now, now, nil
	}
	m, err := ccmap.Delta(s.filed, now)
	if err != nil {
		return nil, nil, err
	}
	m.Meta().StartAt(s.began.UTC())
	return m.Snapshot(), now, nil
}

const (
	// fileAgain is the time between two attempts to file a removed target.
	fileAgain = time.Minute
	// mostLeaving bounds the removed targets that cannot be filed.
	mostLeaving = 64
)

// fileLast files a removed target. It returns false if that failed.
func (p *periods) fileLast(t *target) bool {
	return !p.store().Files || p.file(context.Background(), t) == nil // an error was logged
}
