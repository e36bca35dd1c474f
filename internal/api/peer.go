package api

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os/user"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/ccmapd/ccmapd/internal/daemon"
	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/internal/view"
)

// peer is the client of a connection. The zero peer may do nothing.
type peer struct {
	known  bool
	tcp    bool
	user   string        // of a peer over TCP, by its credentials; "": it has shown none
	host   string        // of a connection over TCP; "": this machine
	uid    uint32        // of a peer on a socket
	gid    uint32        // likewise
	pid    int32         // likewise, for the log: another process may have got the number
	free   bool          // nothing else bounds it ([process.Tracer])
	scope  process.Scope // of Yama, at the time of the request
	reads  bool          // everything
	master bool          // may do everything
}

// access is the right that a route needs. A route for anybody shows each peer what is its own.
type access int

const (
	anybody access = iota
	readers
	masters
)

// Refusals.
var (
	errNotPermitted = &view.Error{Code: view.CodeNotPermitted, Err: errors.New("not permitted"), Hint: "Root, the daemon's own user and members of its group may."}
	errNoRoute      = &view.Error{Code: view.CodeNoTarget, Err: errors.New("there is no such route")}
)

// hidden is an error about something that is there, and not for the peer. The peer is told the same as if there
// were no such thing, and the request counts as refused.
type hidden struct{ error }

func (h hidden) Unwrap() error { return h.error }

// as returns another error in place of one, hidden if that one is.
func as(err, other error) error {
	if errors.As(err, new(hidden)) {
		return hidden{other}
	}
	return other
}

// may returns an error if a peer has less access than a route needs. A peer that sees its own
// processes alone does not see that there is more.
func (p peer) may(needs access) error {
	switch {
	case !p.known, needs == masters && p.reads && !p.master:
		return errNotPermitted
	case needs == readers && !p.reads, needs == masters && !p.master:
		return errNoRoute
	}
	return nil
}

// access returns how far a peer on a socket may look into a process of an owner.
func (p peer) access(to process.Owner) process.Access {
	if !p.known || p.tcp {
		return process.NoAccess
	}
	return process.Tracer{UID: int(p.uid), GID: int(p.gid), Free: p.free}.Access(to, p.scope)
}

// sees reports whether a target exists for a peer: the peer may look into all of its processes, and could into the
// ended ones that it has samples of. The whole host has the programs of all users, and is for masters.
func (p peer) sees(t daemon.TargetStatus) bool {
	if t.OfHost {
		return p.master
	}
	return p.reads || len(t.Owners) > 0 && !slices.ContainsFunc(t.Owners, func(o process.Owner) bool { return p.access(o) == process.NoAccess })
}

// seesLabels reports whether a peer sees texts out of the memory of processes.
func (p peer) seesLabels() bool { return p.reads || p.scope == process.ScopeClassic }

// part names the part of a target that a peer sees: equal parts are shared.
func (p peer) part() string {
	switch {
	case p.master:
		return ""
	case p.reads:
		return "readers"
	}
	return p.key()
}

// key tells peers apart whose processes and uploads are each other's.
func (p peer) key() string {
	if p.tcp || p.reads {
		return p.name()
	}
	return fmt.Sprintf("%d:%d free %t", p.uid, p.gid, p.free)
}

// hears reports whether an event exists for a peer.
func (p peer) hears(e daemon.Event) bool {
	if e.OfHost {
		return p.master
	}
	return p.reads || p.access(e.Owner) > process.NoAccess
}

// name names a peer in the log.
func (p peer) name() string {
	switch {
	case p.user != "":
		return "tcp " + p.user
	case p.tcp:
		return "tcp"
	}
	return strconv.FormatUint(uint64(p.uid), 10)
}

// groupID looks up a group; -1 for no group. A group that does not exist has no members.
func groupID(name string, log *slog.Logger) (int, error) {
	if name == "" {
		return -1, nil
	}
	group, err := user.LookupGroup(name)
	if errors.As(err, new(user.UnknownGroupError)) {
		log.Info("the group of the socket does not exist", "group", name)
		return -1, nil
	}
	if err != nil {
		return -1, fmt.Errorf("look up group of the socket: %w", err)
	}
	return strconv.Atoi(group.Gid)
}

// mostLogged bounds the refusals that are logged in a second: clients must not fill the disk.
const mostLogged = 20

// refusals logs refusals. Any goroutine may call warn.
type refusals struct {
	log *slog.Logger

	mu     sync.Mutex
	second time.Time // its beginning
	logged int       // in that second
	left   int       // that were not logged
}

func (r *refusals) warn(what string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now := time.Now(); now.Sub(r.second) >= time.Second {
		if r.left > 0 {
			r.log.Warn("more refusals", "times", r.left)
		}
		r.second, r.logged, r.left = now, 0, 0
	}
	if r.logged >= mostLogged {
		r.left++
		return
	}
	r.logged++
	r.log.Warn(what, args...)
}

type peerKey struct{}

// withPeer returns a context of a connection of a peer.
func withPeer(ctx context.Context, p peer) context.Context {
	return context.WithValue(ctx, peerKey{}, p)
}

func peerOf(ctx context.Context) peer {
	p, _ := ctx.Value(peerKey{}).(peer)
	return p
}
