package daemon

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
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

// nextRotation returns the end of the period that has now in it, by the wall clock.
func nextRotation(now time.Time, every time.Duration) time.Time {
	late := time.Duration(rotateJitter * rand.Float64() * float64(every))
	return now.Truncate(every).Add(every + late)
}

// rotateDue files the periods that have ended. It returns at once.
func (d *Daemon) rotateDue(now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, t := range d.order {
		switch every := t.Rotate; {
		case every == 0 || !d.config.Store.Files:
		case t.rotation.IsZero() || t.rotation.Sub(now) > 2*every: // the clock was set back
			t.rotation = nextRotation(now, every)
		case !now.Before(t.rotation):
			t.rotation = nextRotation(now, every)
			d.work.Go(func() {
				d.file(context.WithoutCancel(d.ctx), t)
				d.removeOld(time.Now())
			})
		}
	}
}

// fileAtEnd files what a process has left, and forgets slots that no process needs.
func (d *Daemon) fileAtEnd(t *target) {
	if d.Config().Store.Files {
		d.file(context.WithoutCancel(d.ctx), t) // an error was logged, and the next period has it all
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	t.slots = slices.DeleteFunc(t.slots, func(s *slot) bool { return s.retired && !s.busy })
}

// file files all that a target has counted since the last period, a file for each build. What
// cannot be written stays for the next period.
func (d *Daemon) file(ctx context.Context, t *target) error {
	select {
	case t.filing <- struct{}{}:
		defer func() { <-t.filing }()
	case <-ctx.Done():
		return fmt.Errorf("target %s: wait for the files of before: %w", t.Name, context.Cause(ctx))
	}
	var all error
	for build, slots := range d.unfiled(t) {
		path, err := d.fileBuild(ctx, t, build, slots)
		switch {
		case err != nil:
			all = errors.Join(all, err)
			d.countUnfiled(t)
			d.log.Error("cannot file period", "target", t.Name, "error", err)
			d.events.raise(Event{Kind: EventRotated, Target: t.Name, Text: "not filed: " + err.Error()})
		case path != "":
			d.events.raise(Event{Kind: EventRotated, Target: t.Name, Text: path})
		}
	}
	d.forgetRetired(t)
	return all
}

// errNoAnswer says that a file takes too long.
var errNoAnswer = errors.New("what it has counted may be in no file: the disk does not answer")

// fileAll files the counts of all targets, and names the targets that are not filed when ctx is done. A write to
// a disk that hangs cannot be ended, so it stays behind. Package hang would take a slow disk for one that
// hangs.
func (d *Daemon) fileAll(ctx context.Context, all []*target) (err error) {
	type outcome struct {
		t   *target
		err error
	}
	outcomes := make(chan outcome, len(all)) // has room for all
	left := make(map[*target]bool)
	turns := make(chan struct{}, filedAtOnce)
	for _, t := range all {
		if len(d.unfiled(t)) == 0 {
			continue
		}
		left[t] = true
		go func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			outcomes <- outcome{t, d.file(context.WithoutCancel(ctx), t)}
		}()
	}
	for len(left) > 0 {
		select {
		case o := <-outcomes:
			delete(left, o.t)
			err = errors.Join(err, o.err)
		case <-ctx.Done():
			for t := range left {
				d.log.Error("cannot file period", "target", t.Name, "error", errNoAnswer)
				err = errors.Join(err, fmt.Errorf("target %s: %w", t.Name, errNoAnswer))
			}
			return err
		}
	}
	return err
}

// unfiled is a slot with the way to its snapshot.
type unfiled struct {
	*slot
	read func(context.Context) (*ccmap.Snapshot, error)
}

// unfiled returns the slots of a target by their build.
func (d *Daemon) unfiled(t *target) map[string][]unfiled {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := make(map[string][]unfiled)
	for _, s := range t.slots {
		s.knowBuild()
		if read := s.reader(true); read != nil {
			all[s.build] = append(all[s.build], unfiled{s, read})
		}
	}
	return all
}

// forgetRetired drops the slots that no process needs, if all that they have is filed, or if they
// are too many. A session may have ended while its slot was filed: then there is more to file.
func (d *Daemon) forgetRetired(t *target) {
	d.mu.Lock()
	defer d.mu.Unlock()
	kept := 0
	for i, s := range slices.Backward(t.slots) {
		filed := s.filed == s.last
		switch {
		case !s.retired:
			continue
		case !filed && kept < retiredSlots:
			kept++
			continue
		case !filed:
			t.counters.GivenUp += uint64(s.unfiledSamples())
			d.log.Error("samples are lost, because no file could be written", "target", t.Name, "samples", s.unfiledSamples())
		}
		t.slots = slices.Delete(t.slots, i, i+1)
	}
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
func (d *Daemon) fileBuild(ctx context.Context, t *target, build string, slots []unfiled) (path string, err error) {
	period, now := ccmap.New(ccmap.Options{}), time.Now()
	from := now
	read := make([]*ccmap.Snapshot, len(slots))
	for i, s := range slots {
		delta, snapshot, err := s.delta(ctx)
		if err != nil {
			return "", fmt.Errorf("target %s: %w", t.Name, err)
		}
		if err := period.Merge(delta); err != nil {
			return "", fmt.Errorf("target %s: %w", t.Name, err)
		}
		read[i] = snapshot
		if s.began.Before(from) {
			from = s.began
		}
	}
	if s := period.Snapshot(); !s.Total().IsZero() {
		path = d.periodPath(t.Name, build, from, now)
		if err := d.write(path, s); err != nil {
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

// fileLast files a removed target, and forgets it.
func (d *Daemon) fileLast(t *target) {
	var err error // which was logged
	if d.Config().Store.Files {
		err = d.file(context.WithoutCancel(d.ctx), t)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if err != nil && len(d.leaving) <= mostLeaving {
		t.removing, t.rotation = false, time.Now().Add(fileAgain)
		return
	}
	if err != nil {
		d.log.Error("samples are lost, because no file could be written", "target", t.Name)
	}
	d.leaving = slices.DeleteFunc(d.leaving, func(o *target) bool { return o == t })
}
