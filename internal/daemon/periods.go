package daemon

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/store"
)

const (
	// retiredSlots bounds the slots of a target that cannot be filed: the oldest are lost.
	retiredSlots = 4
	// fileWait bounds the wait for a snapshot.
	fileWait = 5 * time.Second
	// rotateJitter is how much later a period may end, as a part of it: not all targets must
	// write at once.
	rotateJitter = 0.05
)

// keeper is where profiles outlive the run: a [store.Store].
type keeper interface {
	NewStream(store.Key) *store.Stream
	Renamed(*store.Stream, store.Key) *store.Stream
	Append(...store.Frame) error
	Overgrown() bool
	File(of store.Key, from, to time.Time, whole *ccmap.Snapshot, held ...*store.Stream) (path string, err error)
	Drop(*store.Stream) error
	Changed(of store.Key)
	Offer(of store.Key, run *ccmap.Snapshot) error
	Damage() string
	BeginMoments(of store.Key, from time.Time) (name string, err error)
	AppendMoments(name string, chunk []byte) error
	SetBounds(keep, moments time.Duration, maxBytes int64)
	Retain(now time.Time)
	Compact(ctx context.Context, now time.Time) (store.Compacted, error)
	Close() error
}

// periods files what targets count, period by period, and logs what is in no file yet. Any goroutine may call its
// methods.
type periods struct {
	*means
	ctx    context.Context
	keeper keeper        // nil: nothing is kept. It never changes once Run has begun
	round  chan struct{} // of the log: holds a token while there is one
	next   time.Time     // round: the goroutine of Run
	failed atomic.Uint64 // rounds
	acked  atomic.Int64  // when the last round was acknowledged, Unix ns
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
	every := t.period()
	first := t.rotation.IsZero() || t.rotation.Sub(now) > 2*every // the clock was set back
	if every == 0 || !first && now.Before(t.rotation) {
		return false
	}
	t.rotation = nextRotation(now, every)
	return !first
}

// rotate files the periods of targets that have ended. It returns at once, and spawns what takes time.
func (p *periods) rotate(now time.Time, targets []*target, spawn func(func())) {
	if p.keeper == nil {
		return
	}
	for _, t := range targets {
		if t.rotates(now) {
			spawn(func() {
				p.file(context.Background(), t)
				p.tidy()
			})
		}
	}
}

// tidy removes old files, and merges the periods of days that are long over.
func (p *periods) tidy() {
	p.keeper.Retain(time.Now())
	if _, err := p.keeper.Compact(p.ctx, time.Now()); err != nil {
		p.log.Error("cannot merge the periods of a day", "error", err)
	}
}

// fileAtEnd files what a process has left, and forgets slots that no process needs.
func (p *periods) fileAtEnd(t *target) {
	if p.keeper != nil {
		p.file(context.Background(), t) // an error was logged, and the next period has it all
	} else {
		t.dropRetired(func(*slot) bool { return true })
	}
}

// file files all that a target has counted since the last period, a file for each build and owner. What cannot be
// written stays for the next period.
func (p *periods) file(ctx context.Context, t *target) error {
	if err := t.beginFiling(ctx); err != nil {
		return err
	}
	defer t.endFiling()
	var all error
	for of, slots := range byMaker(t.unfiled()) {
		path, err := p.fileSlots(ctx, t, of, slots)
		p.keepMoments(slots, true)
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

// beginFiling waits until the target's files and its part of the log are nobody else's.
func (t *target) beginFiling(ctx context.Context) error {
	select {
	case t.filing <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("target %s: wait for the files of before: %w", t.Name, context.Cause(ctx))
	}
}

func (t *target) endFiling() { <-t.filing }

// byMaker groups slots.
func byMaker(slots []unfiled) map[maker][]unfiled {
	all := make(map[maker][]unfiled)
	for _, s := range slots {
		all[s.of] = append(all[s.of], s)
	}
	return all
}

// forgetRetired drops the slots that no process needs, if all that they have is filed, or if they
// are too many. A session may have ended while its slot was filed: then there is more to file.
func (p *periods) forgetRetired(t *target) {
	kept := 0
	t.dropRetired(func(s *slot) bool {
		filed := s.filed == s.last
		if !filed && kept < retiredSlots {
			kept++
			return false
		}
		if !filed {
			t.tally.count(func(c *Counters) { c.GivenUp += uint64(s.unfiledSamples()) })
			p.log.Error("samples are lost, because no file could be written", "target", t.Name, "samples", s.unfiledSamples())
			p.giveUp(s)
		}
		return true
	})
}

// giveUp drops from the log what will be in no file.
func (p *periods) giveUp(s *slot) {
	if p.keeper == nil || s.stream == nil {
		return
	}
	if err := p.keeper.Drop(s.stream); err != nil {
		p.log.Error("cannot drop what the log has", "error", err)
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

// fileSlots writes one file of all slots. It returns "" if nothing was counted.
func (p *periods) fileSlots(ctx context.Context, t *target, of maker, slots []unfiled) (path string, err error) {
	merged, now := ccmap.New(ccmap.Options{}), time.Now()
	from := now
	read := make([]*ccmap.Snapshot, len(slots))
	var held []*store.Stream
	for i, s := range slots {
		delta, snapshot, err := s.since(ctx, s.filed)
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
		if s.stream != nil {
			held = append(held, s.stream)
		}
	}
	merged.Meta().Settled = leastSettled(read)
	if s := merged.Snapshot(); !s.Total().IsZero() {
		key := keyOf(t, of, s)
		for _, s := range slots {
			s.moments.of(key)
		}
		if path, err = p.keeper.File(key, from, now, s, held...); err != nil {
			return "", err
		}
		p.tellFiled()
		if !of.waits {
			p.compareBuilds(t, key, s)
		}
	}
	for i, s := range slots {
		s.filed, s.logged, s.began = read[i], read[i], now
	}
	return path, nil
}

// leastSettled returns how far maps have converged, of which the file has a part: their halves were compared as they
// grew.
func leastSettled(all []*ccmap.Snapshot) (least ccmap.Settled) {
	for i, s := range all {
		if is := s.Meta().Settled; i == 0 || is.Edges < least.Edges {
			least = is
		}
	}
	return least
}

// keyOf returns what a profile of the target is found by.
func keyOf(t *target, of maker, s *ccmap.Snapshot) store.Key {
	return store.Key{Target: t.Name, Build: of.build, Unit: s.Meta().Unit, Owner: of.owner}
}

// since returns what the slot has counted since an earlier snapshot of the period, and the snapshot that ends it. The
// target's filing is locked.
func (s *unfiled) since(ctx context.Context, before *ccmap.Snapshot) (delta, now *ccmap.Snapshot, err error) {
	ctx, cancel := context.WithTimeout(ctx, fileWait)
	defer cancel()
	if now, err = s.read(ctx); err != nil {
		return nil, nil, err
	}
	delta, err = s.gained(before, now)
	return delta, now, err
}

// gained returns what the slot has counted between two snapshots of the period.
func (s *unfiled) gained(before, now *ccmap.Snapshot) (*ccmap.Snapshot, error) {
	if before == nil {
		return now, nil
	}
	m, err := ccmap.Delta(before, now)
	if err != nil {
		return nil, err
	}
	m.Meta().StartAt(s.began.UTC())
	return m.Snapshot(), nil
}

const (
	// fileAgain is the time between two attempts to file a removed target.
	fileAgain = time.Minute
	// mostLeaving bounds the removed targets that cannot be filed.
	mostLeaving = 64
)

// fileLast files a removed target. It returns false if that failed.
func (p *periods) fileLast(t *target) bool {
	return p.keeper == nil || p.file(context.Background(), t) == nil // an error was logged
}
