package daemon

import (
	"math"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/ccmapd/ccmapd/internal/budget"
)

// Spent tells the daemon of CPU time of this process that was not for sampling: no interval grows
// for it.
func (d *Daemon) Spent(cpu time.Duration) { d.elsewhere.Add(int64(cpu)) }

const (
	// mapsShare is the part of the budget of memory that maps may take. Symbols, snapshots that
	// readers hold, and the collector's room take the rest.
	mapsShare = 0.5
	// heapShare is the part of the budget of memory at which the collector works harder.
	heapShare = 0.9
	// symbolsShare is the part of the budget of memory beyond which no more programs of the whole host are
	// opened. The room between it and heapShare is for the symbols of the largest program (see package gosym),
	// unless the budget is small, and for snapshots that readers hold.
	symbolsShare = 0.7
	// programsShare is the part of the budget of memory that the open programs of the whole host may take, with
	// their symbols, caches and records.
	programsShare = 0.2
	// namesShare is the part of the budget of memory that the names of the whole host may take in one map.
	namesShare = 1.0 / 16
	// leastMap is the least bound of a map: some hundred contexts.
	leastMap = 64 << 10
)

// garbageShare is how much garbage the collector lets pile up, in percent of what is in use: half of Go's default.
// Symbols of programs that end, and views, are much garbage in a moment.
const garbageShare = 50

// limitHeap tells the collector the budget of memory.
func limitHeap(memory int64) {
	debug.SetGCPercent(garbageShare)
	limit := int64(math.MaxInt64)
	if memory > 0 {
		limit = int64(heapShare * float64(memory))
	}
	debug.SetMemoryLimit(limit)
}

// hasMemory reports whether there is memory for the symbols of another program of the whole host.
func (d *Daemon) hasMemory() bool {
	most := d.Config().Budget.Memory
	return most <= 0 || float64(d.usedMemory()) <= symbolsShare*float64(most)
}

// liveHeap returns the bytes that the last collection found in use. Near its limit the collector runs more
// often.
func liveHeap() int64 {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	return int64(live[0].Value.Uint64())
}

// keepBudgets charges the sessions, and bounds the maps. It runs once a second.
func (d *Daemon) keepBudgets(now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var shares []*budget.Share
	var samples []uint64
	for s := range d.sessions() {
		shares, samples = append(shares, &s.share), append(samples, s.manager.Status().Samples)
	}
	d.meter.Charge(now, d.usedCPU()-time.Duration(d.elsewhere.Load()), d.config.Budget.CPU, shares, samples)
	d.boundMaps()
}

// boundMaps prunes the largest maps if all together exceed the budget. The caller holds mu.
func (d *Daemon) boundMaps() {
	var slots []*slot
	var sizes []float64
	for s := range d.slots() {
		slots, sizes = append(slots, s), append(sizes, float64(s.bytes()))
	}
	bound := math.Inf(1)
	if d.config.Budget.Memory > 0 {
		bound = budget.Level(sizes, mapsShare*float64(d.config.Budget.Memory))
	}
	for i, s := range slots {
		most := s.target.MaxMemory
		if sizes[i] > bound || most == 0 && !math.IsInf(bound, 1) {
			most = max(int64(bound), leastMap)
		}
		s.setMaxBytes(most)
	}
}
