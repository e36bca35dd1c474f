// Package demo is a program worth sampling: ccmapd demo attaches to it, and tests
// take it as ground truth.
//
// In mode server it is a small concurrent server under the load of its own clients.
// Requests are JSON over pipes in memory, so it needs no network. Each gets a goroutine
// and goes to one of four services:
//
//	eval    parses and evaluates a formula: recursion, a megamorphic interface
//	area    sums the areas of shapes: an interface with two types, 3 to 1
//	words   counts words: generics, maps, sorting
//	queens  places queens on a board: deep recursion, inlined helpers
//
// The other modes do one thing each: spin calls a function that takes a given CPU time,
// over and over; deep recurses; goroutines and threads have many of either. All are
// deterministic except for the schedule: the same number of requests makes the same
// calls, which a [Truth] counts.
package demo

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
)

// Options of a run. The zero value is a server that runs until it is stopped.
type Options struct {
	Mode     string        // one of modeNames; empty means server
	Duration time.Duration // 0: until the context is done
	Requests int64         // to send, or rounds to do; 0: until then
	Workers  int           // clients, goroutines, threads, or depth of the recursion; 0: the mode's default
	Spin     time.Duration // CPU time of one call in mode spin; 0: 5 ms
	Rest     time.Duration // before each request or round, so that the program takes less than all CPUs; 0: none
}

// mode is one kind of work, with the default of Options.Workers.
type mode struct {
	workers int
	run     func(*load, Options, *ledger) error
}

var modes = map[string]mode{
	"server": {4, func(l *load, o Options, book *ledger) error { return runServer(l, o.Workers, book) }},
	"spin":   {1, func(l *load, o Options, book *ledger) error { return runSpin(l, o.Spin, book) }},
	"deep":   {1000, func(l *load, o Options, book *ledger) error { return runDeep(l, o.Workers, book) }},
	"goroutines": {10_000, func(l *load, o Options, book *ledger) error {
		return runGoroutines(l, o.Workers, false, book)
	}},
	"threads": {1000, func(l *load, o Options, book *ledger) error {
		return runGoroutines(l, o.Workers, true, book)
	}},
}

// modeNames returns the names of the modes.
func modeNames() []string { return slices.Sorted(maps.Keys(modes)) }

const defaultSpin = 5 * time.Millisecond

// Run works until the duration is over, the requests are done or the context ends, and
// returns the calls that it has made.
func Run(ctx context.Context, o Options) (Truth, error) {
	if o.Mode == "" {
		o.Mode = "server"
	}
	m, ok := modes[o.Mode]
	if !ok {
		return Truth{}, fmt.Errorf("run workload: mode %q is not one of %s", o.Mode, strings.Join(modeNames(), ", "))
	}
	if o.Workers <= 0 {
		o.Workers = m.workers
	}
	if o.Spin <= 0 {
		o.Spin = defaultSpin
	}
	if o.Requests <= 0 {
		o.Requests = math.MaxInt64
	}
	if o.Duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.Duration)
		defer cancel()
	}
	var book ledger
	err := m.run(newLoad(ctx, o.Requests, o.Rest), o, &book)
	return book.truth(o.Mode), err
}
