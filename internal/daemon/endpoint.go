package daemon

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/internal/served"
	"github.com/ccmapd/ccmapd/internal/supervise"
	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/sampler/engine"
)

// Bounds of the answers of a server, which is not trusted.
const (
	mostBody   = 8 << 20  // bytes of a profile, compressed; of the maps of all sessions together
	mostServed = 64 << 20 // memory of reading one, or these
	mostNames  = 16 << 20 // memory of the names of a map: then a new map begins
	// mostFailures is how many requests may fail, one after the other, before the target is not
	// sampled any more: a restart fails one or two.
	mostFailures = 3
)

// openEndpoint asks the server for its kind, and opens the source of a session with a slot. The
// secret of auth is read at each request.
func (f *follower) openEndpoint(ctx context.Context, into *slot, sink sampler.Sink, log *slog.Logger) (engine.Choice, error) {
	a := f.Auth
	return engine.OpenServed(ctx, engine.Served{
		HTTPOptions: engine.HTTPOptions{
			URL: f.Match.URL, Sink: sink, Read: func(r io.Reader) (*ccmap.Map, error) { return readServed(ctx, f.gate, r) }, NoLabels: !f.Labels,
			Credentials: served.Credentials{BearerFile: a.BearerFile, User: a.User, PasswordFile: a.PasswordFile, Private: true},
			CAFile:      a.CAFile, Build: into.build, MaxFailures: mostFailures, MaxNames: mostNames, Dial: f.host.dial, Logger: log,
		},
		Maps: engine.MapsOptions{Read: readMap, Turn: f.gate.Turn, Last: f.shelf.lastLook(), MaxBytes: mostBody, MaxMemory: mostServed},
	})
}

// readMap reads the map of a session that a program hosts.
func readMap(r io.Reader, memory int64) (*ccmap.Map, error) {
	m, format, err := export.Read(r, export.ReadOptions{MaxMemory: memory})
	if err == nil && format != export.JSON {
		err = fmt.Errorf("%w: the answer is %v, not JSON", export.ErrFormat, format)
	}
	return m, err
}

// readServed reads a profile. All of it is here before it takes a turn: no server holds up
// others.
func readServed(ctx context.Context, g *supervise.Gate, r io.Reader) (*ccmap.Map, error) {
	body, err := io.ReadAll(io.LimitReader(r, mostBody+1))
	switch {
	case err != nil:
		return nil, err
	case len(body) > mostBody:
		return nil, fmt.Errorf("%w: the profile has more than %d MiB", export.ErrTooLarge, mostBody>>20)
	case !bytes.HasPrefix(body, []byte("\x1f\x8b")): // and a text is quoted in no error: it may repeat the credentials
		return nil, fmt.Errorf("%w: the answer is no profile, which would be compressed by gzip", export.ErrFormat)
	}
	done, err := g.Turn(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	m, _, err := export.Read(bytes.NewReader(body), export.ReadOptions{MaxMemory: mostServed})
	return m, err
}
