package bpf

import (
	"context"
	"os"
	"testing"

	"github.com/ccmapd/ccmapd/internal/testrun"
	"github.com/ccmapd/ccmapd/sampler/internal/enginetest"
)

// TestMain lets CI go without this engine on a kernel that lacks it, but not without perf.
func TestMain(m *testing.M) {
	if os.Getenv("CCMAPD_WITHOUT_BPF") == "1" {
		os.Unsetenv(testrun.FullEnv)
	}
	enginetest.Main(m)
}

// TestEngine wants nearly all callers of the race detector: a record has both stacks as
// they were at its instant.
func TestEngine(t *testing.T) {
	enginetest.Run(t, func(ctx context.Context, o Options) (enginetest.Source, error) { return Open(ctx, o) }, 0.9)
}
