package engine

import (
	"context"
	"errors"

	"github.com/ccmapd/ccmapd/sampler/internal/hosted"
	"github.com/ccmapd/ccmapd/sampler/internal/pprofhttp"
)

// HTTPOptions are the options of engine pprofhttp.
type HTTPOptions = pprofhttp.Options

// MapsOptions say how to read the maps of a program that hosts VMs, and LastLook what was read of them last.
type (
	MapsOptions = hosted.Options
	LastLook    = hosted.Last
)

// ErrNoEndpoint: the process serves no profiles.
var ErrNoEndpoint = pprofhttp.ErrNoEndpoint

// Served says how to follow a program that serves its own profiles.
type Served struct {
	// Options say where the program is, and how to read profiles in the format of pprof.
	HTTPOptions

	// Maps says how to read the maps of a program that hosts VMs. Fields that Options has, too,
	// come from there.
	Maps MapsOptions
}

// OpenServed opens the source of a program that serves its own profiles. A program that answers as api.Handler
// does (package daemon/api) is followed by its maps, which know more. Any other one must serve net/http/pprof.
func OpenServed(ctx context.Context, o Served) (Choice, error) {
	m := o.Maps
	m.URL, m.Sink, m.Credentials, m.CAFile, m.Dial = o.URL, o.Sink, o.Credentials, o.CAFile, o.Dial
	m.NoLabels, m.Build, m.MaxFailures, m.Needed, m.MaxNames, m.Logger = o.NoLabels, o.Build, o.MaxFailures, o.Needed, o.MaxNames, o.Logger
	host, err := hosted.Open(ctx, m)
	if err == nil {
		return Choice{Source: host, Why: hosted.Why}, nil
	}
	if !errors.Is(err, hosted.ErrNotHosted) {
		return Choice{}, err
	}
	s, err := pprofhttp.Open(ctx, o.HTTPOptions)
	if err != nil {
		return Choice{}, err
	}
	return Choice{Source: s, Why: "its own profiler, over HTTP"}, nil
}
