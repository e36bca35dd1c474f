package main

import (
	"fmt"
	"iter"
	"runtime"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
)

const (
	interval       = 10 * time.Millisecond // between two samples of the program, on its clock
	samplesASecond = int(time.Second / interval)
	secondsAMinute = 60
	oneInReplayed  = 8 // samples; the others are generated
	firstReplayed  = 1 << 16
	windowsOfTruth = 6  // what is older weighs e⁻⁶ in a window, 0.25 %
	snapshotsEvery = 60 // minutes
)

// config says how long to soak what.
type config struct {
	span   time.Duration // on the program's clock
	every  time.Duration // checkpoints on it; whole minutes
	memory int64         // bytes, the map's budget
	window time.Duration
	seed   uint64
	report func(checkpoint) // called at each
}

// soak folds the samples of a synthetic program and of recorded ones into a map
// with a budget, and checks it against arithmetic of its own and, at the end of
// each checkpoint's last windows, against a map that is never pruned.
type soak struct {
	config
	ledger  *ledger
	program *program
	replays []*replay
	m       *ccmap.Map
	truth   *ccmap.Map // unpruned; nil but before a checkpoint
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
	s.sample.Time = int64(time.Hour) // the target's clock does not begin at 0 either
	s.reader = startReader()
	s.goroutines = runtime.NumGoroutine()
	return s, nil
}

// run soaks until the span is over or something does not hold.
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
	s.sample.Weight = int64(interval) + n%7*int64(time.Millisecond) // as when an interval is tuned
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

// stacks returns all that may hold counts that are not posted.
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
