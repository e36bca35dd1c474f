package daemon

import (
	"math"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
	"time"

	"github.com/ccmapd/ccmapd/internal/budget"
	"github.com/ccmapd/ccmapd/internal/daemon/config"
)

// budgets keeps the daemon's bounds of CPU time and memory.
//
//	config … usedMemory   never change
//	elsewhere             atomic
//	meter                 the goroutine of Run
type budgets struct {
	config  func() *config.Config
	usedCPU func() time.Duration // of this process
	// usedMemory returns the bytes that this process has in use.
	usedMemory func() int64

	elsewhere atomic.Int64 // ns of CPU time that were not for sampling
	meter     budget.Meter
}

// Spent tells the daemon of CPU time of this process that was not for sampling: no interval grows
// for it.
func (d *Daemon) Spent(cpu time.Duration) { d.budgets.elsewhere.Add(int64(cpu)) }

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
func (b *budgets) hasMemory() bool {
	most := b.config().Budget.Memory
	return most <= 0 || float64(b.usedMemory()) <= symbolsShare*float64(most)
}

// liveHeap returns the bytes that the last collection found in use. Near its limit the collector runs more
// often.
func liveHeap() int64 {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	return int64(live[0].Value.Uint64())
}

// charge tells the tuners of all sessions what these have cost. It runs once a second.
func (b *budgets) charge(now time.Time, sessions []*session) {
	var shares []*budget.Share
	var samples []uint64
	for _, s := range sessions {
		shares, samples = append(shares, &s.share), append(samples, s.Manager.Status().Samples)
	}
	b.meter.Charge(now, b.usedCPU()-time.Duration(b.elsewhere.Load()), b.config().Budget.CPU, shares, samples)
}

// boundMaps prunes the largest maps if all together exceed the budget.
func (b *budgets) boundMaps(targets []*target) {
	var all []*slot
	var shelves []*shelf // of each
	var sizes []float64
	for _, t := range targets {
		for _, h := range t.shelves() {
			h.sizes(func(s *slot, bytes int64) {
				all, shelves, sizes = append(all, s), append(shelves, h), append(sizes, float64(bytes))
			})
		}
	}
	bound := math.Inf(1)
	if memory := b.config().Budget.Memory; memory > 0 {
		bound = budget.Level(sizes, mapsShare*float64(memory))
	}
	for i, s := range all {
		most := shelves[i].MaxMemory
		if sizes[i] > bound || most == 0 && !math.IsInf(bound, 1) {
			most = max(int64(bound), leastMap)
		}
		shelves[i].setMaxBytes(s, most)
	}
}
