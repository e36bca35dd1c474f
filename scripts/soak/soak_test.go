// Package soak lets months pass for a map in minutes. It folds samples into a map with a
// memory budget and a window, as many as a daemon takes in some days at 100 Hz. The
// samples are from a synthetic program, whose hot contexts drift and which makes new ones
// all the time, and from recorded programs:
//
//	go -C scripts test ./soak -run Soak -days 30 -timeout 0 -v
//
// Time passes by the samples' clock, so 30 days take minutes. It checks that
//
//   - the map stays inside its budget, after every second of the program;
//   - every total of a method, an edge and a line is exact, against arithmetic of
//     its own, after any number of prunes;
//   - 95 % of each window's top 100 contexts, and of those with at least a tenth of
//     the hottest one's time, are there, against a map never pruned;
//   - a reader finds the snapshot that it has held for an hour unchanged;
//   - the map is valid, and neither the heap nor the goroutines grow.
//
// It prints a line a day, and fails at the first failed check. The same seed gives the same
// samples. Without -days it soaks for some hours, in a budget so small that the map is
// pruned every few minutes.
package soak

import (
	"errors"
	"flag"
	"fmt"
	"iter"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/testrun"
)

const (
	interval       = 10 * time.Millisecond // between two samples of the program, on its clock
	samplesASecond = int(time.Second / interval)
	secondsAMinute = 60
	oneInReplayed  = 8 // samples; the others are generated
	firstReplayed  = 1 << 16
	windowsOfTruth = 6  // older samples weigh e⁻⁶ in a window, 0.25 %
	snapshotsEvery = 60 // minutes
)

var (
	days      = flag.Float64("days", 0, "days of the program's clock; a checkpoint every six hours, or at the end of fewer")
	mebibytes = flag.Int64("memory", 64, "budget of the map, MiB")
	window    = flag.Duration("window", 15*time.Minute, "time constant of the recent counters")
	seed      = flag.Uint64("seed", 1, "of the samples and of the map's hash")
)

func TestSoak(t *testing.T) {
	testrun.Full(t, testrun.Minutes)
	c := config{span: 4 * time.Hour, every: time.Hour, memory: 4 << 20, window: 10 * time.Minute, seed: *seed}
	switch {
	case *days > 0:
		c = config{span: time.Duration(*days * 24 * float64(time.Hour)).Round(time.Minute), memory: *mebibytes << 20, window: *window, seed: *seed}
		c.every = min(6*time.Hour, c.span) // or nothing would be checked
	case testing.Short():
		c.span, c.every = time.Hour, time.Hour/2
	}
	table := newTable(os.Stdout)
	c.report = table.add
	s, err := newSoak(c)
	if err == nil {
		err = s.run()
	}
	table.end()
	if err != nil {
		t.Fatalf("seed %d: %v", *seed, err)
	}
	if last := table.all[len(table.all)-1]; *days == 0 && last.prunes.Times < 10 {
		t.Errorf("pruned %d times, want 10 and more", last.prunes.Times)
	}
}

// config has the length and the sizes of a soak.
type config struct {
	span   time.Duration // on the program's clock
	every  time.Duration // checkpoints on it; whole minutes
	memory int64         // bytes, the map's budget
	window time.Duration
	seed   uint64
	report func(checkpoint) // called at each
}

// soak folds the samples of a synthetic program and of recorded ones into a map with a
// budget. It checks the map against its own arithmetic and, at the end of each
// checkpoint's last windows, against a map that is never pruned.
type soak struct {
	config
	ledger  *ledger
	program *program
	replays []*replay
	m       *ccmap.Map
	truth   *ccmap.Map // unpruned; nil except before a checkpoint
	sample  ccmap.Sample
	folded  int64
	reader  *reader

	goroutines int
	beside     []int64 // bytes of the heap beside the map, at the checkpoints since it first pruned
}

func newSoak(c config) (*soak, error) {
	l := newLedger()
	s := &soak{config: c, ledger: l, program: newProgram(l, c.seed)}
	for i, name := range []string{"server", "compiler"} {
		r, err := openReplay(l, name, uint64(firstReplayed*(i+1)))
		if err != nil {
			return nil, err
		}
		s.replays = append(s.replays, r)
	}
	s.m = ccmap.New(ccmap.Options{Names: l.names, Seed: c.seed | 1, MaxBytes: c.memory, Window: c.window})
	s.sample.Time = int64(time.Hour) // a target's clock does not begin at 0 either
	s.reader = startReader()
	s.goroutines = runtime.NumGoroutine()
	return s, nil
}

// run soaks until the span is over or a check fails.
func (s *soak) run() error {
	defer s.reader.stop()
	for minute := time.Duration(0); minute < s.span; minute += time.Minute {
		s.followTruth(minute)
		if err := s.minute(int64(minute / time.Minute)); err != nil {
			return fmt.Errorf("after %v: %w", minute, err)
		}
		now := minute + time.Minute
		if now%s.every != 0 {
			continue
		}
		if err := s.checkpoint(now); err != nil {
			return fmt.Errorf("after %v: %w", now, err)
		}
	}
	return s.checkHeap()
}

// followTruth begins an unpruned map some windows before each checkpoint.
func (s *soak) followTruth(now time.Duration) {
	left := s.every - now%s.every
	if s.truth == nil && left <= windowsOfTruth*s.window {
		s.truth = ccmap.New(ccmap.Options{Names: s.ledger.names, Seed: s.seed | 1, Window: s.window})
	}
}

// minute lets a minute of the program pass.
func (s *soak) minute(n int64) error {
	s.program.minute(n)
	s.sample.Weight = int64(interval) + n%7*int64(time.Millisecond) // as with a tuned interval
	for range secondsAMinute {
		s.second()
		if got := s.m.Bytes(); got > s.memory {
			return fmt.Errorf("map has %d bytes, more than its budget of %d", got, s.memory)
		}
	}
	if n%snapshotsEvery == 0 {
		return s.reader.hold(s.m.Snapshot())
	}
	return nil
}

func (s *soak) second() {
	for i := range samplesASecond {
		s.sample.Time += int64(interval)
		if i%oneInReplayed == 0 {
			s.replays[i/oneInReplayed%len(s.replays)].sample(&s.sample)
		} else {
			s.program.sample(&s.sample)
		}
		s.m.Fold(&s.sample)
		if s.truth != nil {
			s.truth.Fold(&s.sample)
		}
		s.folded++
	}
}

// stacks returns all stacks that may hold counts that are not posted.
func (s *soak) stacks() iter.Seq[*stack] {
	return func(yield func(*stack) bool) {
		for stack := range s.program.stacks() {
			if !yield(stack) {
				return
			}
		}
		for _, r := range s.replays {
			for _, stack := range r.stacks {
				if !yield(stack) {
					return
				}
			}
		}
	}
}

// reader is a goroutine that holds a snapshot while the map goes on: folds, prunes, lets
// weights decay. It checks that the snapshot never changes.
//
// The first fields are the writer's, the last the goroutine's.
type reader struct {
	snapshots chan *ccmap.Snapshot // the next to hold, or nil
	errs      chan error           // one for each, from the check of the previous one
	pending   bool                 // an error will come

	held   *ccmap.Snapshot
	digest uint64
}

func startReader() *reader {
	r := &reader{snapshots: make(chan *ccmap.Snapshot), errs: make(chan error, 1)}
	go r.run()
	return r
}

// hold makes the reader hold another snapshot, and returns the error of the last check.
// The check of the previous snapshot runs beside the writer.
func (r *reader) hold(s *ccmap.Snapshot) error {
	err := r.wait()
	r.snapshots <- s
	r.pending = true
	return err
}

// release makes the reader hold no snapshot, and waits until it has checked.
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
