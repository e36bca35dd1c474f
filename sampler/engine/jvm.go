package engine

import (
	"context"

	"github.com/ccmapd/ccmapd/sampler/internal/jfr"
)

// Units of engine jfr beside CPU time.
var (
	Alloc = jfr.Alloc // bytes of allocated objects
	Lock  = jfr.Lock  // time of waits for locks
)

// Recording is a recording of other events than samples in a running JVM.
type Recording = jfr.Recording

// Record starts a recording of some events, given as settings of JFR.start: for example
// "+jdk.Compilation#enabled=true". It takes about a second. Errors wrap those of package sampler.
func Record(ctx context.Context, pid int, settings string) (*Recording, error) {
	return jfr.Record(ctx, pid, settings)
}

// ClassifyAttach makes errors of attaching to a JVM those of package sampler.
func ClassifyAttach(err error) error { return jfr.Classify(err) }
