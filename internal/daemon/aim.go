package daemon

import (
	"errors"
	"io/fs"
	"log/slog"
	"time"

	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/internal/advice"
	"github.com/ccmapd/ccmapd/internal/daemon/config"
	"github.com/ccmapd/ccmapd/internal/served"
	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/sampler/engine"
)

// aim is what a target is to sample, and how. It never changes.
type aim struct{ config.Target }

// isEndpoint reports whether the target is a program that serves its own profiles.
func (a aim) isEndpoint() bool { return a.Match.URL != "" }

// hasNoProcess reports whether the target is one that discovery finds no process for: an endpoint or the whole host.
func (a aim) hasNoProcess() bool { return a.isEndpoint() || a.Match.Host }

// attr names a process of the target in the log, or its endpoint.
func (a aim) attr(pid int) slog.Attr {
	switch {
	case a.isEndpoint():
		return slog.String("url", a.Match.URL)
	case a.Match.Host:
		return slog.Bool("host", true)
	}
	return slog.Int("pid", pid)
}

const (
	// shortLife is the life of a process that failed at its start; longLife shows that it works.
	shortLife, longLife = time.Second, time.Minute
)

// leastLife returns the life of a session that puts the next one off if it is shorter. Two programs
// that answer at one address in turn must not have a map for each profile.
func (a aim) leastLife() time.Duration {
	if a.hasNoProcess() {
		return longLife
	}
	return shortLife
}

// isAway reports whether an error says that nothing answers at the address of an endpoint.
func (a aim) isAway(err error) bool { return a.isEndpoint() && errors.Is(err, sampler.ErrNoProcess) }

// endsMap reports whether the map of a session must not go on: its names are too many, or the next profiles
// of an endpoint are of another program.
func (a aim) endsMap(ending sampler.Ending, err error) bool {
	return errors.Is(err, engine.ErrNames) || errors.Is(err, served.ErrNames) || a.isEndpoint() && ending.Exited
}

// advised adds to an error how to mend it, unless it says so itself.
func (a aim) advised(err error) error {
	if _, known := advice.Of(err); known {
		return err
	}
	if cure := a.cureOf(err); cure != "" {
		return advice.Add(err, "%s", cure)
	}
	return err
}

// cureOf says how to mend an error that has no advice of its own.
func (a aim) cureOf(err error) string {
	switch {
	case a.Match.Host:
		return cureOfHost
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

// cureOfHost says how to mend an error of the whole host.
const cureOfHost = "match.host takes engine bpf: 'ccmapd doctor @' says what it lacks here. Without it, name programs: match.exe."
