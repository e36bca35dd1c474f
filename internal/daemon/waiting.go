package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/daemon/config"
	"github.com/ccmapd/ccmapd/internal/recording"
	"github.com/ccmapd/ccmapd/manager"
	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/sampler/engine"
)

// A target may have what its goroutines wait for sampled beside its CPU time. The second session of a process begins
// and ends with the first, and has a map on a shelf of its own. It is of no use to the tuner, nor to hot events and
// hints. All that says who may see the first map says it of the second: see owners.go.

// waits is the second session of a follower.
//
//	shelf     never changes
//	session   atomic
//	err       under mu
type waits struct {
	shelf   *shelf
	session atomic.Pointer[session] // that runs

	mu  sync.Mutex
	err error // why none does
}

func (w *waits) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.err = err
}

func (w *waits) why() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// waitsAgain is the time between two attempts to sample waits.
const waitsAgain = time.Minute

// followWaits samples the waits of a process, where that is asked for, until ended is called.
func (f *follower) followWaits(ctx context.Context) (ended func()) {
	if f.Waits == config.NoWaits || f.hasNoProcess() {
		return func() {}
	}
	ctx, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			err := f.sampleWaits(ctx)
			if ctx.Err() != nil {
				return
			}
			f.waits.fail(err)
			f.log.Warn("cannot sample what goroutines wait for", "target", f.Name, f.attr(f.facts.PID), "error", err)
			if errors.Is(err, sampler.ErrProgram) || engine.ForOthers(err) {
				return // it stays what it is
			}
			select {
			case <-ctx.Done():
			case <-time.After(waitsAgain):
			}
		}
	}()
	return func() {
		stop()
		<-done
	}
}

// sampleWaits samples waits until ctx is done, or the session breaks.
func (f *follower) sampleWaits(ctx context.Context) error {
	s, err := f.openWaits(ctx)
	if err != nil {
		return err
	}
	if err := f.stillOwned(); err != nil { // the memory of the process was read
		return errors.Join(err, s.discardWaits())
	}
	f.waits.fail(nil)
	f.waits.shelf.holdSession(s)
	f.waits.session.Store(s)
	f.note(s, "sampling of waits begins")
	r, err := s.Run(ctx)
	f.waits.session.Store(nil)
	f.waits.shelf.freeSlot(s, r.Snapshot, false)
	f.note(s, "sampling of waits has ended", "reason", cmp.Or(r.Ending.Reason, "an error"))
	if err == nil {
		err = errors.New(r.Ending.Reason)
	}
	return err
}

// openWaits opens the second session, with a slot of the build that the first one has.
func (f *follower) openWaits(ctx context.Context) (*session, error) {
	build := ""
	if first := f.session.Load(); first != nil {
		build = first.Info().Target.BuildID
	}
	into := f.waits.shelf.takeSlot(f.ownerNow(), f.program.File, build)
	s := &session{follower: f, shelf: f.waits.shelf, slot: into}
	log := f.details.With("target", f.Name, f.attr(f.facts.PID))
	var err error
	s.Recording, err = recording.Open(recording.Options{
		Map:     into.m,
		Manager: manager.Config{Logger: log, DaemonCPU: s.share.CPU, Admit: f.admission()},
		Opened:  func(engine.Choice, *manager.Config) { into.m.ForgetThreads() },
	}, func(sink sampler.Sink) (engine.Choice, error) {
		return engine.Attach(ctx, f.engines, engine.Auto, sampler.ProcessOptions{
			PID: f.facts.PID, Unit: f.unitOfWaits(), Interval: waitsEvery, Idle: f.Idle, Under: strings.Fields(f.Under),
			NoLabels: !f.Labels, Logger: log, Sink: sink, Doctor: fmt.Sprintf("ccmapd doctor @%d", f.facts.PID),
		})
	})
	if err != nil {
		f.waits.shelf.giveBack(into)
		return nil, err
	}
	return s, nil
}

// waitsEvery is the time between two looks at all goroutines.
const waitsEvery = 50 * time.Millisecond

// discardWaits closes a second session that was not run.
func (s *session) discardWaits() error {
	err := s.Discard()
	s.shelf.giveBack(s.slot)
	return err
}

// unitOfWaits returns what the second session of a target samples.
func (a aim) unitOfWaits() ccmap.Unit {
	if a.Waits == config.Wall {
		return engine.Wall
	}
	return engine.Wait
}

// shelves returns all shelves of a target.
func (t *target) shelves() []*shelf { return []*shelf{t.shelf, t.beside} }

// shelfOf returns the shelf for maps of a unit.
func (t *target) shelfOf(u ccmap.Unit) *shelf {
	if u == engine.Wait || u == engine.Wall {
		return t.beside
	}
	return t.shelf
}

// unfiled returns the slots of all shelves that have a snapshot.
func (t *target) unfiled() (all []unfiled) {
	for _, h := range t.shelves() {
		all = append(all, h.unfiled()...)
	}
	return all
}

// dropRetired drops slots of all shelves as [shelf.dropRetired] does.
func (t *target) dropRetired(may func(*slot) bool) {
	for _, h := range t.shelves() {
		h.dropRetired(may)
	}
}

// WaitsStatus is the state of the sampling of waits of a target.
type WaitsStatus struct {
	Event      string `json:"event"`      // "wait" or "wall": of the maps
	Processes  int    `json:"processes"`  // that are sampled
	Goroutines int    `json:"goroutines"` // of these
	Samples    uint64 `json:"samples"`    // of their sessions
	Reason     string `json:"reason,omitempty"`
}

// waitsStatus describes the second sessions of a target; nil: it has none.
func (t *target) waitsStatus(followers []*follower) *WaitsStatus {
	if t.Waits == config.NoWaits {
		return nil
	}
	w := &WaitsStatus{Event: t.unitOfWaits().Kind()}
	for _, f := range followers {
		if s := f.waits.session.Load(); s != nil {
			is := s.Manager.Status()
			w.Processes++
			w.Goroutines += is.Threads
			w.Samples += is.Samples
		} else if err := f.waits.why(); err != nil {
			w.Reason = err.Error()
		}
	}
	return w
}
