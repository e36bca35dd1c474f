package pprofhttp

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/served"
	"github.com/ccmapd/ccmapd/sampler"
)

// endpoint is the server.
type endpoint struct {
	*served.Server
	longest *atomic.Int64 // seconds of a profile that the server permits; 0: not known
}

// mostCommandLine bounds an answer, bytes.
const mostCommandLine = 64 << 10

// newEndpoint checks the options.
func newEndpoint(o Options) (endpoint, error) {
	base, err := parseURL(o.URL, o.Credentials)
	if err != nil {
		return endpoint{}, err
	}
	server, err := served.New(base, served.Options{Credentials: o.Credentials, CAFile: o.CAFile, Dial: o.Dial})
	return endpoint{server, new(atomic.Int64)}, err
}

// defaultPath is where net/http/pprof registers itself.
const defaultPath = "/debug/pprof"

// parseURL checks an address.
func parseURL(text string, c served.Credentials) (*url.URL, error) {
	u, err := served.Parse(text, defaultPath, c)
	switch {
	case err != nil:
		return nil, err
	case u.Fragment != "":
		return nil, fmt.Errorf("%w: #%s names a session of a program that hosts VMs, which does not answer there", sampler.ErrUnsupported, u.Fragment)
	}
	u.Path = strings.TrimSuffix(u.Path, "/")
	if path, isProfile := strings.CutSuffix(u.Path, "/profile"); isProfile {
		u.Path = path
	}
	if u.Path == "" {
		u.Path = defaultPath
	}
	return u, nil
}

// describe asks for the command line of the program. A server may not tell it.
func (e *endpoint) describe(ctx context.Context) (ccmap.Target, error) {
	ctx, cancel := context.WithTimeout(ctx, served.Patience)
	defer cancel()
	r, err := e.Get(ctx, "", "", "cmdline")
	if err != nil {
		return ccmap.Target{}, err
	}
	defer r.Body.Close()
	switch r.StatusCode {
	case http.StatusOK:
	case http.StatusUnauthorized, http.StatusForbidden:
		return ccmap.Target{}, e.Failure(r)
	default:
		return ccmap.Target{}, nil
	}
	text, err := io.ReadAll(io.LimitReader(r.Body, mostCommandLine))
	if err != nil {
		return ccmap.Target{}, err
	}
	arguments := strings.Split(string(bytes.TrimRight(text, "\x00")), "\x00")
	return ccmap.Target{Executable: arguments[0], CommandLine: arguments}, nil
}

// profile asks for a profile of some seconds.
func (e *endpoint) profile(ctx context.Context, seconds int, read func(io.Reader) (*ccmap.Map, error)) (*ccmap.Map, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(seconds)*time.Second+served.Patience)
	defer cancel()
	r, err := e.Get(ctx, "seconds="+strconv.Itoa(seconds), "", "profile")
	if err != nil {
		return nil, err
	}
	defer r.Body.Close()
	switch status := r.StatusCode; {
	case status == http.StatusOK:
		return read(r.Body)
	case status == http.StatusBadRequest && seconds > 1:
		// The server's WriteTimeout is shorter (durationExceedsWriteTimeout of net/http/pprof).
		e.longest.Store(int64(seconds / 2))
		return nil, fmt.Errorf("%s; the next profile is shorter", e.StatusText(r))
	}
	return nil, e.Failure(r)
}

// seconds returns the length of the next profile.
func (e *endpoint) seconds(wanted int) int {
	if longest := int(e.longest.Load()); longest > 0 {
		return min(wanted, longest)
	}
	return wanted
}
