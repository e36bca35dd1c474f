package pprofhttp

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"path"
	"slices"
	"sync"
	"time"

	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/internal/served"
	"github.com/ccmapd/ccmapd/sampler"
)

// ErrNoEndpoint says that a process serves no profiles that this user may have.
var ErrNoEndpoint = fmt.Errorf("it serves no profiles of its own (net/http/pprof) on loopback: %w", sampler.ErrUnsupported)

const (
	// mostTried bounds the sockets of a process that are asked, and tryTime the time for each: other
	// protocols may wait for more.
	mostTried = 8
	tryTime   = time.Second
	// askAgain is the time until a socket that served no profiles is asked again.
	askAgain = 10 * time.Minute

	// processFailures is how many requests may fail, one after the other. Another client's profile
	// usually takes 30 s, and must not end the session.
	processFailures = 6
	// processRest is the time between two profiles of a process. The endpoint was not offered to
	// ccmapd, so the program's own users come first: they find the profiler free two times of three.
	// A second try 5 s later always finds it free.
	processRest = 10 * time.Second
)

// Finder finds the endpoints of processes on this machine, and remembers which sockets serve no
// profiles. The zero value is useful. Any goroutine may use it.
//
//	Build … now   never change; nil: the machine's. Tests have their own
//	asked         under mu
type Finder struct {
	// Build returns the build id of a process's executable, "" if it has none. Nil: none is known.
	Build func(ctx context.Context, pid int) (string, error)

	listeners func(pid int) ([]process.Listener, error)
	owners    func([]process.Ends) (map[process.Ends]uint32, error)
	twin      func(*process.Pinned) (bool, error)
	now       func() time.Time

	mu    sync.Mutex
	asked map[question]time.Time // in vain
}

// question is a socket of one process.
type question struct {
	pid     int
	started uint64
	inode   string
}

// Open finds the endpoint of a process. It asks each loopback address of the process's own sockets
// for a command line, and takes the first that tells the one of the process. Where the kernel does not say
// which sockets these are, it asks its user's. The options need no URL.
// An error that wraps [ErrNoEndpoint] says that there is no endpoint. Before each profile the Source
// checks that the process still listens at the address. It ends with the process.
func (f *Finder) Open(ctx context.Context, pid int, o Options) (*Source, error) {
	p, err := process.Pin(pid)
	if err != nil {
		return nil, fmt.Errorf("attach to process %d: %w", pid, err)
	}
	s, err := f.search(ctx, p, o)
	if err != nil {
		p.Close()
		return nil, fmt.Errorf("attach to process %d: %w", pid, err)
	}
	return s, nil
}

// errHiddenSockets: the kernel shows the sockets of a process to its user.
var errHiddenSockets = errors.New("its own profiles (net/http/pprof) are hidden: run ccmapd as its user, or attach to a URL")

// search asks the sockets that were not asked lately.
func (f *Finder) search(ctx context.Context, p *process.Pinned, o Options) (*Source, error) {
	all, err := f.list(p.PID)
	switch {
	case err != nil && p.Gone():
		return nil, sampler.ErrNoProcess
	case errors.Is(err, fs.ErrPermission):
		return nil, process.As(process.As(errHiddenSockets, err), sampler.ErrPermission)
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrNoEndpoint, err)
	}
	tried, none := 0, ErrNoEndpoint
	for _, l := range all {
		if l.OfUser {
			none = errHidden
		}
		q := question{p.PID, p.Started, l.Inode}
		if tried == mostTried || f.knows(q) {
			continue
		}
		tried++
		s, ok, err := f.openAt(ctx, p, l, o)
		if ok {
			s.owner.list = f.list
			return s, nil
		}
		if err := ctx.Err(); err != nil {
			return nil, err // it says nothing about the socket
		}
		if err != nil {
			return nil, err
		}
		f.remember(q)
	}
	return nil, none
}

// list returns the sockets of a process.
func (f *Finder) list(pid int) ([]process.Listener, error) {
	if f.listeners != nil {
		return f.listeners(pid)
	}
	return process.LoopbackListeners(pid)
}

// socketOwners returns the users of connected sockets.
func (f *Finder) socketOwners(of []process.Ends) (map[process.Ends]uint32, error) {
	if f.owners != nil {
		return f.owners(of)
	}
	return process.SocketOwners(of)
}

// isOther reports whether a process with the command line of p, and its user, may be another one.
func (f *Finder) isOther(ctx context.Context, p *process.Pinned, s *Source) (bool, error) {
	look := f.twin
	if look == nil {
		look = hasTwin
	}
	twin, err := look(p)
	switch {
	case err != nil:
		return false, err
	case twin:
		return false, errTwin
	case f.Build == nil:
		return false, nil
	}
	has, err := f.Build(ctx, p.PID)
	if err != nil {
		return false, err
	}
	if told := s.build(ctx); has != "" && told != "" && told != has {
		return true, nil
	}
	s.o.Build, s.counts.target.BuildID = has, has
	return false, nil
}

func (f *Finder) time() time.Time {
	if f.now != nil {
		return f.now()
	}
	return time.Now()
}

// knows reports whether a socket served no profiles a moment ago.
func (f *Finder) knows(q question) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	at, known := f.asked[q]
	return known && f.time().Sub(at) < askAgain
}

// remember notes that a socket serves no profiles, and forgets old answers.
func (f *Finder) remember(q question) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.time()
	for other, at := range f.asked {
		if now.Sub(at) >= askAgain {
			delete(f.asked, other)
		}
	}
	if f.asked == nil {
		f.asked = make(map[question]time.Time)
	}
	f.asked[q] = now
}

// openAt opens the endpoint at a socket of a process or, where it must be, of its user, if there is one. An error says
// that no socket of the process can be known.
func (f *Finder) openAt(ctx context.Context, p *process.Pinned, l process.Listener, o Options) (*Source, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, tryTime)
	defer cancel()
	o.MaxFailures, o.Rest = processFailures, processRest
	if l.OfUser {
		o = f.ofUser(o, p.UID)
	}
	for _, at := range l.Addresses {
		o.URL = "http://" + at.String() + defaultPath
		s, err := Open(ctx, o)
		if errors.Is(err, sampler.ErrNoProcess) {
			continue // the socket is of IPv6 alone, or this machine has none
		}
		if err != nil {
			return nil, false, nil
		}
		other := !sameCommand(s.counts.target.CommandLine, p.CommandLine)
		if l.OfUser && !other {
			other, err = f.isOther(ctx, p, s)
		}
		if other || err != nil || p.Gone() {
			s.Close()
			return nil, false, err
		}
		s.owner = &owner{Pinned: p, inode: l.Inode, at: at}
		build := s.counts.target.BuildID
		s.counts.target = process.Describe(p.PID)
		s.counts.target.BuildID = build
		return s, true, nil
	}
	return nil, false, nil
}

// sameCommand reports whether a program that tells one command line may have the other. Some programs change
// the first word of their own, which is their path.
func sameCommand(told, has []string) bool {
	return len(told) > 0 && len(has) > 0 && path.Base(told[0]) == path.Base(has[0]) && slices.Equal(told[1:], has[1:])
}

// owner is the process of this machine that listens at an endpoint. It never changes.
type owner struct {
	*process.Pinned
	inode string // of its socket
	at    netip.AddrPort
	list  func(pid int) ([]process.Listener, error)
}

// errEnded says that the process of an endpoint has ended.
var errEnded = errors.New("the process has ended")

// check returns an error unless the process itself gets the next request. After its end another
// process may listen at its address.
func (p *owner) check() error {
	all, err := p.list(p.PID)
	switch {
	case p.Gone():
		return errEnded
	case err != nil:
		return err
	case !slices.ContainsFunc(all, func(l process.Listener) bool { return l.Inode == p.inode && slices.Contains(l.Addresses, p.at) }):
		return served.Refuse(fmt.Errorf("%w: process %d no longer listens there, or not alone", sampler.ErrUnsupported, p.PID))
	}
	return nil
}
