package engine

import (
	"context"

	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/sampler/internal/memory"
)

// What has waited for long in a process, by engine memory.
type (
	Stuck        = memory.Stuck
	StuckOptions = memory.StuckOptions
	StuckGroup   = memory.StuckGroup
	StuckFrame   = memory.StuckFrame
)

// FindStuck watches a process for a time, and returns which goroutines, or threads of Java, have waited for long. It
// takes 5 % of a core at most, apart from its first and last look. Errors wrap those of package sampler.
func FindStuck(ctx context.Context, o StuckOptions) (Stuck, error) {
	s, err := memory.FindStuck(ctx, o)
	if ForOthers(err) {
		err = process.As(err, sampler.ErrNotManaged) // there is no other way to look
	}
	return s, explain(err, doctor(sampler.ProcessOptions{}))
}
