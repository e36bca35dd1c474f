package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/ccmapd/ccmapd/internal/advice"
	"github.com/ccmapd/ccmapd/internal/daemon/config"
	"github.com/ccmapd/ccmapd/internal/store"
)

// storeTime is how long the disk has to answer when the store is opened.
const storeTime = time.Minute

// OpenStore opens the directory where profiles are kept, and goes on with what a daemon before has counted and not
// filed. It returns an error with a cure if the directory cannot be used: others than root and this user can change it
// or the path to it, or another daemon has it. Without files it does nothing. Call it once, before Run.
func (d *Daemon) OpenStore() error {
	kept, err := openStore(d.Config().Store, func(s config.Store) (*store.Store, error) {
		return store.Open(store.Options{Dir: s.Dir, Keep: s.Keep, MaxBytes: s.MaxBytes, Moments: s.Moments, Logger: d.log})
	})
	if kept == nil || err != nil {
		return err
	}
	d.periods.keeper, d.periods.archive = kept, kept.Reader()
	d.recorder.append = kept.AppendRecords
	d.periods.acked.Store(time.Now().UnixNano())
	d.sender.open, d.learner.put, d.gleaner.keep = kept.OpenOutbox, kept.PutFleet, kept
	if err := d.sender.begin(d.roster.sends); err != nil {
		return err
	}
	d.periods.goOn(kept.Recovered(), d.roster)
	return nil
}

// sends reports whether the hub gets the files of a key.
func (r *roster) sends(k store.Key) bool {
	t, err := r.named(k.Target)
	return err == nil && k.Build != "" && t.isSent()
}

// openStore waits for open, which may hang with the disk. It returns nil where nothing is to be kept.
func openStore(s config.Store, open func(config.Store) (*store.Store, error)) (kept *store.Store, err error) {
	if !s.Files {
		return nil, nil
	}
	type outcome struct {
		kept *store.Store
		err  error
	}
	answer := make(chan outcome, 1)
	is := outcome{err: errors.New("the disk does not answer")}
	if within(context.Background(), storeTime, func() { kept, err := open(s); answer <- outcome{kept, err} }) {
		is = <-answer
	}
	if is.err == nil {
		return is.kept, nil
	}
	cure := fmt.Sprintf("Let user %d write there, name another directory as dir in [store], or set files = false.", os.Geteuid())
	if first, ok := advice.Of(is.err); ok {
		cure = first + " Or name another directory as dir in [store]."
	}
	return nil, advice.Add(fmt.Errorf("open the store: %w", is.err), "%s", cure)
}

// goOn takes in what a daemon before has counted and not filed: targets that are still there go on with it, and the
// rest is filed.
func (p *periods) goOn(recovered []store.Recovered, all *roster) {
	for _, r := range recovered {
		total := r.Map.Snapshot().Total()
		t, err := all.named(r.Key.Target)
		if err == nil {
			err = t.shelfOf(r.Key.Unit).adopt(r)
		}
		if err == nil {
			p.log.Info("the target goes on where it was", "target", t.Name, "samples", total.Samples, "since", r.From.UTC().Format(time.RFC3339))
			continue
		}
		if _, err := p.keeper.File(r.Key, r.From, r.To, r.Map.Snapshot(), r.Stream); err != nil {
			p.log.Error("cannot file what a daemon before has counted", "target", r.Key.Target, "error", err)
		}
	}
}

// Stored returns a reader of the stored profiles, which checks no rights; nil: none are kept.
func (d *Daemon) Stored() *store.Reader { return d.periods.archive }

// Keeping says how a daemon keeps profiles.
type Keeping struct {
	Behind time.Duration // since the log was written last: what a kill would lose
	Failed uint64        // rounds of the log
	Damage string        // that the log had at the start; empty: none
	Hub    *Sending      // nil: nothing is sent
}

// Keeping returns how profiles are kept. It returns false where none are.
func (d *Daemon) Keeping() (k Keeping, keeps bool) {
	p := d.periods
	if p.keeper == nil {
		return Keeping{}, false
	}
	hub := d.sender.status()
	if hub != nil {
		hub.FanIn = d.gleaner.status()
	}
	return Keeping{time.Since(time.Unix(0, p.acked.Load())), p.failed.Load(), p.keeper.Damage(), hub}, true
}
