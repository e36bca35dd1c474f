package main

import (
	"errors"
	"fmt"

	"github.com/ccmapd/ccmapd/ccmap"
)

// reader is a goroutine that holds a snapshot while the map goes on: folds,
// prunes, lets weights decay. It checks that the snapshot never changes.
//
// The first fields are the writer's, the last the goroutine's.
type reader struct {
	snapshots chan *ccmap.Snapshot // to hold next; nil: none
	errs      chan error           // one for each, of the check of the one before
	pending   bool                 // one is to come

	held   *ccmap.Snapshot
	digest uint64
}

func startReader() *reader {
	r := &reader{snapshots: make(chan *ccmap.Snapshot), errs: make(chan error, 1)}
	go r.run()
	return r
}

// hold makes the reader hold another snapshot, and returns what the last check
// said. The check of the one held so far runs beside the writer.
func (r *reader) hold(s *ccmap.Snapshot) error {
	err := r.wait()
	r.snapshots <- s
	r.pending = true
	return err
}

// release makes the reader hold none, and waits until it has checked.
func (r *reader) release() error { return errors.Join(r.hold(nil), r.wait()) }

func (r *reader) wait() error {
	if !r.pending {
		return nil
	}
	r.pending = false
	return <-r.errs
}

// stop ends the goroutine.
func (r *reader) stop() { close(r.snapshots) }

func (r *reader) run() {
	for s := range r.snapshots {
		err := r.check()
		r.held = s
		if s != nil {
			r.digest = digest(s)
		}
		r.errs <- err
	}
}

func (r *reader) check() error {
	if r.held == nil {
		return nil
	}
	if err := r.held.CheckValid(); err != nil {
		return fmt.Errorf("snapshot that was held: %w", err)
	}
	if digest(r.held) != r.digest {
		return fmt.Errorf("snapshot has changed while it was held")
	}
	return nil
}

// digest sums up all nodes of a snapshot.
func digest(s *ccmap.Snapshot) uint64 {
	const prime = 0x100000001b3
	sum := uint64(s.Len())
	for n := range s.Nodes() {
		for _, v := range []uint64{
			uint64(n.Parent)<<32 | uint64(n.Offset), uint64(n.Method),
			uint64(n.Self.Samples), uint64(n.Self.Time), uint64(n.Self.Activations),
		} {
			sum = (sum ^ v) * prime
		}
	}
	return sum
}
