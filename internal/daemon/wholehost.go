package daemon

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"

	"github.com/ccmapd/ccmapd/internal/advice"
	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/manager"
	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/sampler/engine"
	"github.com/ccmapd/ccmapd/tuning"
)

// hasNoProcess reports whether the target is one that discovery finds no process for: an endpoint or the
// whole host.
func (t *target) hasNoProcess() bool { return t.isEndpoint() || t.Match.Host }

// admitOthers makes a follower for each endpoint and for the whole host, if there is none. The caller holds
// mu.
func (d *Daemon) admitOthers() {
	for _, t := range d.order {
		if t.hasNoProcess() && len(t.followers) == 0 {
			d.add(t, process.Facts{UID: process.Unowned.UID, Owner: process.Unowned})
		}
	}
}

// attachWithoutProcess prepares a session with an endpoint or with the whole host. The map is the last one,
// until a profile shows another build.
func (f *follower) attachWithoutProcess(ctx context.Context) (*session, error) {
	f.enter(Attaching, "")
	s, err := f.open(ctx, f.d.takeSlot(f, process.FileID{}, ""))
	if err != nil {
		return nil, err
	}
	f.begin(s)
	return s, nil
}

// mostHostNames bounds the names of all programs of the whole host in a map, bytes: then a new map begins.
const mostHostNames = 64 << 20

// hostNames returns that bound within a budget of memory; 0: there is none.
func hostNames(memory int64) int64 {
	if memory <= 0 {
		return mostHostNames
	}
	return min(mostHostNames, int64(namesShare*float64(memory)))
}

// hostPrograms returns the memory that the open programs of the whole host may take; 0: there is no bound.
func (d *Daemon) hostPrograms() int64 {
	return int64(programsShare * float64(max(d.Config().Budget.Memory, 0)))
}

// firstProcess is the process that stands for all others where the rights of the daemon are asked for.
const firstProcess = 1

// openHost opens the source of the whole host, and makes a tuner.
func (f *follower) openHost(sink sampler.Sink, log *slog.Logger) (engine.Choice, manager.Tuner, error) {
	o := f.d.hold(firstProcess, f.target.Settings)
	tuner, err := tuning.New(tunerOf(o))
	if err != nil {
		return engine.Choice{}, nil, err
	}
	if f.d.openWhole == nil {
		return engine.Choice{}, nil, fmt.Errorf("sample the host: %w: it takes engine %s", sampler.ErrUnsupported, engine.BPF)
	}
	source, err := f.d.openWhole(engine.WholeOptions{
		Sink: sink, Interval: o.Interval, MaxPrograms: f.d.Config().Budget.Targets, HasMemory: f.d.hasMemory,
		MaxBytes: f.d.hostPrograms, MaxNames: hostNames(f.d.Config().Budget.Memory),
		NoLabels: !o.Labels, Logger: log,
	})
	if err != nil {
		return engine.Choice{}, nil, err
	}
	return engine.Choice{Source: source, Why: "the one that can sample the whole host"}, tuner, nil
}

// cureOfHost says how to mend an error of the whole host.
func cureOfHost(err error) string {
	cure, _ := advice.Of(err)
	return cmp.Or(cure, "match.host takes engine bpf: 'ccmapd doctor' says what it lacks here. Without it, name programs: match.exe.")
}
