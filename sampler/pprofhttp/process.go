package pprofhttp

import (
	"context"
	"fmt"
	"net/netip"
	"path"
	"slices"
	"time"

	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/sampler"
)

// ErrNoEndpoint says that a process serves no profiles that this user may have.
var ErrNoEndpoint = fmt.Errorf("it serves no profiles of its own (net/http/pprof) on loopback: %w", sampler.ErrUnsupported)

const (
	// mostTried bounds the addresses of a process that are tried, and tryTime the time for each: other
	// protocols may wait for more.
	mostTried = 8
	tryTime   = time.Second
	// processFailures is how many requests may fail, one after the other.
	processFailures = 3
)

// OpenProcess finds the endpoint of a process on this machine, which nobody has to name. It asks
// the addresses of loopback at which the process itself listens for a command line, and takes the
// first that tells the one of the process. The options need no URL. An error that wraps
// [ErrNoEndpoint] says that there is none. The Source ends with the process.
func OpenProcess(ctx context.Context, pid int, o Options) (*Source, error) {
	p, err := process.Pin(pid)
	if err != nil {
		return nil, fmt.Errorf("attach to process %d: %w", pid, err)
	}
	addresses, _ := process.LoopbackListeners(pid) // one that may not be looked at has none for us
	for _, at := range addresses[:min(len(addresses), mostTried)] {
		if s, ok := openAt(ctx, p, at, o); ok {
			return s, nil
		}
	}
	p.Close()
	return nil, fmt.Errorf("attach to process %d: %w", pid, ErrNoEndpoint)
}

// openAt opens the endpoint at an address, if a process has one there.
func openAt(ctx context.Context, p *process.Pinned, at netip.AddrPort, o Options) (*Source, bool) {
	ctx, cancel := context.WithTimeout(ctx, tryTime)
	defer cancel()
	o.URL, o.MaxFailures = "http://"+at.String()+defaultPath, processFailures
	s, err := Open(ctx, o)
	if err != nil {
		return nil, false
	}
	if !sameCommand(s.counts.target.CommandLine, p.CommandLine) || p.Gone() {
		s.Close()
		return nil, false
	}
	s.process, s.counts.target = p, process.Describe(p.PID)
	return s, true
}

// sameCommand reports whether a program that tells one command line may have the other. Some programs change
// the first word of their own, which is their path.
func sameCommand(told, has []string) bool {
	return len(told) > 0 && len(has) > 0 && path.Base(told[0]) == path.Base(has[0]) && slices.Equal(told[1:], has[1:])
}

// hasEnded reports whether the program is a process of this machine that has ended.
func (s *Source) hasEnded() bool { return s.process != nil && s.process.Gone() }
