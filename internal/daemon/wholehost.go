package daemon

import (
	"fmt"
	"log/slog"

	"github.com/ccmapd/ccmapd/internal/daemon/config"
	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/sampler/engine"
)

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
func (m *means) hostPrograms() int64 {
	return int64(programsShare * float64(max(m.config().Budget.Memory, 0)))
}

// firstProcess is the process that stands for all others where the rights of the daemon are asked for.
const firstProcess = 1

// openHost opens the source of the whole host.
func (m *means) openHost(o config.Settings, sink sampler.Sink, log *slog.Logger) (engine.Choice, error) {
	if m.openWhole == nil {
		return engine.Choice{}, fmt.Errorf("sample the host: %w: it takes engine %s", sampler.ErrUnsupported, engine.BPF)
	}
	source, err := m.openWhole(engine.WholeOptions{
		Sink: sink, Interval: o.Interval, MaxPrograms: m.config().Budget.Targets, HasMemory: m.hasMemory,
		MaxBytes: m.hostPrograms, MaxNames: hostNames(m.config().Budget.Memory),
		NoLabels: !o.Labels, Logger: log,
	})
	if err != nil {
		return engine.Choice{}, err
	}
	return engine.Choice{Source: source, Why: "the one that can sample the whole host"}, nil
}
