package engine

import (
	"context"
	"errors"
	"io"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/sampler/jfr"
	"github.com/ccmapd/ccmapd/sampler/pprofhttp"
)

// Endpoint returns the engine of last resort: it takes the profiles that a Go program serves by
// itself on loopback, which the kernel need not permit. Read reads one of them in the format of pprof,
// and bounds its memory.
func Endpoint(read func(io.Reader) (*ccmap.Map, error)) Engine {
	return Engine{pprofhttp.Engine, nil, opens(func(ctx context.Context, o sampler.ProcessOptions) (*pprofhttp.Source, error) {
		return pprofhttp.OpenProcess(ctx, o.PID, pprofhttp.Options{Sink: o.Sink, Read: read, NoLabels: o.NoLabels, Logger: o.Logger})
	})}
}

// ForOthers reports whether an engine is for other programs than the target: then it is no
// help to say what it lacks.
func ForOthers(err error) bool {
	return errors.Is(err, jfr.ErrNotJVM) || errors.Is(err, pprofhttp.ErrNoEndpoint)
}
