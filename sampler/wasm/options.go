package wasm

import "github.com/ccmapd/ccmapd/sampler/managed"

// Options of a profiler. The zero value is useful.
type Options struct {
	managed.Options

	// CollectAtSamples has the profiler collect garbage in place of Go's runtime:
	// see "Stopping the world" in the package's documentation. It is for a program
	// that does little else than run guests; the setting is the process's own.
	CollectAtSamples bool

	// Exact records every activation, and how many instructions it executed itself,
	// instead of sampling: weights are instructions ([ccmap.Instructions]), and there
	// is no interval.
	Exact bool
}
