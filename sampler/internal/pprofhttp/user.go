package pprofhttp

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"

	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/internal/served"
	"github.com/ccmapd/ccmapd/sampler"
)

// Where the kernel does not say which sockets a process has, those of its user are asked. Then a command
// line is not enough: another process of the user can answer. So four things must hold:
//
//   - What has taken the connection is a socket of the user, by its two addresses in the kernel's tables.
//   - It tells the command line of the process.
//   - No other process of the user has this command line.
//   - Its build id is the one of the process's executable, where both are known.
//
// A process of the same user can still lie about its command line. It could as well trace the process.

// errHidden says why a search in place of the process's own sockets was in vain.
var errHidden = fmt.Errorf("%w; its user's sockets were asked, since /proc/PID/fd is denied here. attach URL, or match.url, names an address", ErrNoEndpoint)

// errTwin says that two processes cannot be told apart.
var errTwin = fmt.Errorf("its profiles (net/http/pprof) cannot be told from those of another process of its user with the same command line, "+
	"since /proc/PID/fd is denied here. attach URL, or match.url, names its address: %w", sampler.ErrUnsupported)

// ofUser makes the options refuse connections that no socket of the user has taken.
func (f *Finder) ofUser(o Options, user int) Options {
	dial := o.Dial
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	o.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &ownedConn{Conn: c, user: uint32(user), owners: f.socketOwners}, nil
	}
	return o
}

// ownedConn is a connection to a socket of a user. One goroutine reads from it.
type ownedConn struct {
	net.Conn
	user   uint32
	owners func([]process.Ends) (map[process.Ends]uint32, error)
	known  bool
}

// Read checks the other end once it has answered: then a process has it.
func (c *ownedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 && !c.known {
		if bad := c.check(); bad != nil {
			return 0, bad
		}
		c.known = true
	}
	return n, err
}

func (c *ownedConn) check() error {
	local, remote := addressOf(c.LocalAddr()), addressOf(c.RemoteAddr())
	ends := process.Ends{Local: remote, Remote: local}
	owners, err := c.owners([]process.Ends{ends})
	if err != nil {
		return err
	}
	if user, known := owners[ends]; !known || user != c.user {
		return served.Refuse(fmt.Errorf("%w: it is not a socket of user %d that answers at %v", sampler.ErrUnsupported, c.user, remote))
	}
	return nil
}

// addressOf returns the address of an end of a TCP connection, as the kernel's tables have it.
func addressOf(a net.Addr) netip.AddrPort {
	if tcp, ok := a.(*net.TCPAddr); ok {
		at := tcp.AddrPort()
		return netip.AddrPortFrom(at.Addr().Unmap().WithZone(""), at.Port())
	}
	return netip.AddrPort{}
}

// hasTwin reports whether another process of the user has the command line of a process.
func hasTwin(p *process.Pinned) (bool, error) {
	twins, err := process.Find(func(f process.Facts) bool {
		return f.UID == p.UID && f.PID != p.PID && sameCommand(f.CommandLine, p.CommandLine)
	})
	for _, t := range twins {
		t.Close()
	}
	return len(twins) > 0, err
}

// build returns the build id of the program that answers, by a small profile that takes no time; "" if it tells
// none.
func (s *Source) build(ctx context.Context) string {
	r, err := s.endpoint.Get(ctx, "", "", "threadcreate")
	if err != nil {
		return ""
	}
	defer r.Body.Close()
	if r.StatusCode != http.StatusOK {
		return ""
	}
	m, err := s.o.Read(r.Body)
	if err != nil {
		return ""
	}
	return m.Meta().Target.BuildID
}
