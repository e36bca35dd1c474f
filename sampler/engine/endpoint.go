package engine

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/gosym"
	"github.com/ccmapd/ccmapd/internal/hang"
	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/sampler/internal/jfr"
	"github.com/ccmapd/ccmapd/sampler/internal/memory"
	"github.com/ccmapd/ccmapd/sampler/internal/pprofhttp"
)

// EndpointOptions are the options of [Endpoint].
type EndpointOptions struct {
	// Read reads a profile in the format of pprof, and bounds its memory. It is required where the
	// engine is opened.
	Read func(io.Reader) (*ccmap.Map, error)

	MaxNames int64 // bytes of names that a source may bring; 0 means 64 MiB
}

// Endpoint returns the engine of last resort: it takes the profiles that a Go program serves by
// itself on loopback, which the kernel need not permit. It remembers which processes serve none.
func Endpoint(o EndpointOptions) Engine {
	finder := &pprofhttp.Finder{Build: buildOf}
	return Engine{pprofhttp.Engine, nil, opens(func(ctx context.Context, p sampler.ProcessOptions) (*pprofhttp.Source, error) {
		return finder.Open(ctx, p.PID, pprofhttp.Options{Sink: p.Sink, Read: o.Read, MaxNames: o.MaxNames, NoLabels: p.NoLabels, Logger: p.Logger})
	})}
}

// buildOf returns the build id of a process's executable, "" where none can be read. An error says that the file's
// system does not answer.
func buildOf(ctx context.Context, pid int) (string, error) {
	w := new(hang.Watch)
	var id string
	if err := w.Run(ctx, func() { id, _ = gosym.BuildIDOf(ctx, pid, w) }); err != nil {
		return "", fmt.Errorf("read executable of process %d: %w", pid, err)
	}
	return id, nil
}

// ForOthers reports whether an engine is for other programs than the target: then it is no
// help to say what it lacks.
func ForOthers(err error) bool {
	return errors.Is(err, jfr.ErrNotJVM) || errors.Is(err, pprofhttp.ErrNoEndpoint) || errors.Is(err, memory.ErrNoTasks)
}
