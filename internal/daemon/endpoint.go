package daemon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/internal/served"
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

// isEndpoint reports whether the target is a program that serves its own profiles.
func (t *target) isEndpoint() bool { return t.Match.URL != "" }

// openEndpoint asks the server for its kind, and opens the source of a session with a slot. The
// secret of auth is read at each request.
func (f *follower) openEndpoint(ctx context.Context, into *slot, sink sampler.Sink, log *slog.Logger) (engine.Choice, error) {
	a := f.target.Auth
	return engine.OpenServed(ctx, engine.Served{
		HTTPOptions: engine.HTTPOptions{
			URL: f.target.Match.URL, Sink: sink, Read: func(r io.Reader) (*ccmap.Map, error) { return f.d.readServed(ctx, r) }, NoLabels: !f.target.Labels,
			Credentials: served.Credentials{BearerFile: a.BearerFile, User: a.User, PasswordFile: a.PasswordFile, Private: true},
			CAFile:      a.CAFile, Build: into.build, MaxFailures: mostFailures, MaxNames: mostNames, Dial: f.d.host.dial, Logger: log,
		},
		Maps: engine.MapsOptions{Read: readMap, Turn: f.d.turn, Last: f.lastLook(), MaxBytes: mostBody, MaxMemory: mostServed},
	})
}

// lastLook returns what is known of the program since the target was last paused.
func (f *follower) lastLook() *engine.LastLook {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if f.target.last == nil {
		f.target.last = new(engine.LastLook)
	}
	return f.target.last
}

// readMap reads the map of a session that a program hosts.
func readMap(r io.Reader, memory int64) (*ccmap.Map, error) {
	m, format, err := export.Read(r, export.ReadOptions{MaxMemory: memory})
	if err == nil && format != export.JSON {
		err = fmt.Errorf("%w: the answer is %v, not JSON", export.ErrFormat, format)
	}
	return m, err
}

// turn waits for leave to read the answer of a server.
func (d *Daemon) turn(ctx context.Context) (done func(), err error) {
	select {
	case d.turns <- struct{}{}:
		return func() { <-d.turns }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// readServed reads a profile. All of it is here before it takes a turn: no server holds up
// others.
func (d *Daemon) readServed(ctx context.Context, r io.Reader) (*ccmap.Map, error) {
	body, err := io.ReadAll(io.LimitReader(r, mostBody+1))
	switch {
	case err != nil:
		return nil, err
	case len(body) > mostBody:
		return nil, fmt.Errorf("%w: the profile has more than %d MiB", export.ErrTooLarge, mostBody>>20)
	case !bytes.HasPrefix(body, []byte("\x1f\x8b")): // and a text is quoted in no error: it may repeat the credentials
		return nil, fmt.Errorf("%w: the answer is no profile, which would be compressed by gzip", export.ErrFormat)
	}
	done, err := d.turn(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	m, _, err := export.Read(bytes.NewReader(body), export.ReadOptions{MaxMemory: mostServed})
	return m, err
}

// isAway reports whether an error says that nothing answers at the address of an endpoint.
func (f *follower) isAway(err error) bool {
	return f.target.isEndpoint() && errors.Is(err, sampler.ErrNoProcess)
}

// endsMap reports whether the map of a session must not go on: its names are too many, or the next profiles
// of an endpoint are of another program.
func (t *target) endsMap(ending sampler.Ending, err error) bool {
	return errors.Is(err, engine.ErrNames) || errors.Is(err, served.ErrNames) || t.isEndpoint() && ending.Exited
}

// cureOf says how to mend an error that has no advice of its own.
func (t *target) cureOf(err error) string {
	switch {
	case t.Match.Host:
		return cureOfHost(err)
	case errors.Is(err, sampler.ErrProgram):
		return "It is read again when its executable changes, and after a reload. Meanwhile the daemon looks whether it serves profiles (net/http/pprof) on loopback."
	case errors.Is(err, sampler.ErrNoProcess):
		return "Does the program run, import net/http/pprof or mount api.Handler, and listen there? 'curl URL' tells."
	case errors.Is(err, served.ErrExposed):
		return "Take the rights of others away (chmod o=), and give the file to the user of the daemon."
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission):
		return "The user of the daemon must be able to read the file."
	case errors.Is(err, sampler.ErrPermission):
		return "auth names the credentials that the server wants: bearer_file, or user and password_file."
	case errors.Is(err, sampler.ErrUnsupported), errors.Is(err, export.ErrFormat):
		return "match.url is the address of the endpoint, for example http://HOST:6060/debug/pprof, or http://HOST:6060/debug/ccmapd of a program that mounts api.Handler there."
	}
	return ""
}
