package bpf

import (
	"context"
	"testing"

	"github.com/ccmapd/ccmapd/internal/enginetest"
)

func TestMain(m *testing.M) { enginetest.Main(m) }

func TestEngine(t *testing.T) {
	enginetest.Run(t, func(ctx context.Context, o Options) (enginetest.Source, error) { return Open(ctx, o) })
}
