package daemon

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/store"
)

// What targets have counted since their last files is logged, so that a daemon that is killed loses only what was
// counted since the last round. A round reads all maps beside each other, and has one write for all.

// prunedEvery is the least time between two rounds for a map that was pruned in between: what it has gained takes a
// walk over all of it.
const prunedEvery = time.Minute

// logSome begins a round of the log if one is due. It returns at once, and spawns what takes time.
func (p *periods) logSome(now time.Time, targets []*target, spawn func(func())) {
	if p.keeper == nil || now.Before(p.next) {
		return
	}
	p.next = now.Add(p.config().Store.Every)
	spawn(func() {
		if err := p.logAll(context.Background(), targets, usually); err != nil {
			p.log.Error("cannot log what was counted", "error", err)
			p.failed.Add(1)
		}
	})
}

// urgency says which maps a round of the log has.
type urgency bool

const (
	usually   urgency = false // those that cost little
	atThisEnd urgency = true  // all: there is no next round
)

// logAll logs what the targets have counted since the last round. What cannot be written is part of the next round.
func (p *periods) logAll(ctx context.Context, targets []*target, urgent urgency) error {
	entries, err := p.logRound(ctx, targets, urgent)
	if urgent == usually {
		p.tellPhases(entries)
	}
	return err
}

func (p *periods) logRound(ctx context.Context, targets []*target, urgent urgency) ([]entry, error) {
	if err := urgent.enter(ctx, p.round); err != nil {
		return nil, err
	}
	defer func() { <-p.round }()
	whole := p.keeper.Overgrown()
	var slots []ofTarget
	for _, t := range targets {
		if urgent.enter(ctx, t.filing) != nil {
			continue // the file will have it
		}
		defer t.endFiling()
		for _, s := range t.unfiled() {
			slots = append(slots, ofTarget{t, s})
		}
	}
	entries, err := gainOf(ctx, slots, whole, urgent)
	for _, s := range slots {
		p.keepMoments([]unfiled{s.unfiled}, false)
	}
	if err = errors.Join(err, p.append(entries)); err == nil {
		p.acked.Store(time.Now().UnixNano())
	}
	return entries, err
}

// errBusy says that what a round wants to do is done already.
var errBusy = errors.New("the round before has not ended: the disk is slow")

// enter takes a place for one, which is empty afterwards by a receive. It waits for that only if there is no next
// round.
func (u urgency) enter(ctx context.Context, place chan struct{}) error {
	if u == usually {
		select {
		case place <- struct{}{}:
			return nil
		default:
			return errBusy
		}
	}
	select {
	case place <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// ofTarget is a slot with its target, whose filing is locked.
type ofTarget struct {
	*target
	unfiled
}

// entry is what a slot has gained, and the state that it has then.
type entry struct {
	slot  *slot
	key   store.Key
	frame store.Frame
	is    *ccmap.Snapshot

	run     *ccmap.Snapshot // of the process, once it has enough samples to tell its phase; nil: not now
	drifted bool            // the program does something else than before
}

// gainOf returns what slots have gained since they were logged last, or since they were filed. Each snapshot takes its
// time, so it reads them beside each other.
func gainOf(ctx context.Context, slots []ofTarget, whole bool, urgent urgency) ([]entry, error) {
	ctx, cancel := context.WithTimeout(ctx, fileWait)
	defer cancel()
	entries, errs := make([]entry, len(slots)), make([]error, len(slots))
	var all sync.WaitGroup
	for i, s := range slots {
		all.Go(func() { entries[i], errs[i] = s.gain(ctx, whole, urgent) })
	}
	all.Wait()
	some := entries[:0]
	for _, e := range entries {
		if e.slot != nil {
			some = append(some, e)
		}
	}
	return some, errors.Join(errs...)
}

// gain returns what the slot has gained; an entry without a slot: nothing, or not now.
func (s *ofTarget) gain(ctx context.Context, whole bool, urgent urgency) (entry, error) {
	now, err := s.read(ctx)
	if err != nil {
		return entry{}, fmt.Errorf("target %s: %w", s.target.Name, err)
	}
	before, key := s.logged, keyOf(s.target, s.of, now)
	s.moments.of(key)
	whole = whole || s.stream != nil && s.stream.Key() != key // its build was not known, or its owner is another
	if whole {
		before = s.filed
	}
	pruned := before != nil && now.Meta().Pruned.Times != before.Meta().Pruned.Times
	if pruned && urgent == usually && !whole && time.Since(s.noted) < prunedEvery {
		return entry{}, nil
	}
	delta, err := s.gained(before, now)
	if err != nil {
		return entry{}, fmt.Errorf("target %s: %w", s.target.Name, err)
	}
	if delta.Total().IsZero() {
		return entry{}, nil
	}
	by := store.Process{PID: s.by.PID, Started: s.by.Started}
	run, err := s.begins(by, now)
	if err != nil {
		return entry{}, fmt.Errorf("target %s: %w", s.target.Name, err)
	}
	return entry{slot: s.slot, key: key, is: now, run: run, drifted: s.drifted.Swap(false), frame: store.Frame{
		Process: by, From: s.began, To: time.Now(), Delta: delta, Whole: whole,
	}}, nil
}

// append writes entries at once. What is not acknowledged is part of the next round.
func (p *periods) append(entries []entry) error {
	if len(entries) == 0 {
		return nil
	}
	frames := make([]store.Frame, len(entries))
	for i, e := range entries {
		frames[i] = e.frame
		frames[i].Stream = p.streamOf(e)
	}
	if err := p.keeper.Append(frames...); err != nil {
		return err
	}
	for i, e := range entries {
		e.slot.stream, e.slot.logged, e.slot.noted = frames[i].Stream, e.is, time.Now()
	}
	return nil
}

// streamOf returns the stream that an entry goes on with.
func (p *periods) streamOf(e entry) *store.Stream {
	switch is := e.slot.stream; {
	case is == nil:
		return p.keeper.NewStream(e.key)
	case is.Key() != e.key:
		return p.keeper.Renamed(is, e.key)
	default:
		return is
	}
}

// errNoAnswer says that the log takes too long.
var errNoAnswer = errors.New("what it has counted last may be in no file: the disk does not answer")

// close logs what all targets have counted, and names those that are not logged when ctx is done. A write to a disk
// that hangs cannot be ended, so it stays behind.
func (p *periods) close(ctx context.Context, all []*target) error {
	if p.keeper == nil {
		return nil
	}
	done := make(chan error, 1)
	go func() {
		err := p.logAll(ctx, all, atThisEnd)
		p.keeper.Retain(time.Now())
		done <- errors.Join(err, p.keeper.Close())
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	var err error
	for _, t := range all {
		if len(t.unfiled()) > 0 {
			p.log.Error("cannot log what was counted", "target", t.Name, "error", errNoAnswer)
			err = errors.Join(err, fmt.Errorf("target %s: %w", t.Name, errNoAnswer))
		}
	}
	return err
}
