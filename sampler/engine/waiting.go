package engine

import "github.com/ccmapd/ccmapd/sampler/internal/memory"

// Units of engine memory.
var (
	Wait = memory.Wait // time of goroutines that wait
	Wall = memory.Wall // time of goroutines that wait or run
)
