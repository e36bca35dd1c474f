package api

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/ccmapd/ccmapd/daemon/client"
	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/internal/terminal"
	"github.com/ccmapd/ccmapd/internal/view"
)

// mostComing bounds the connections that wait to be let in, beside the kernel's own queue.
const mostComing = 1 << 10

// bounded is a listener with at most so many connections.
//
//	coming, failed  written by the goroutine of receive, read by the one of Accept
//	admitted        of the goroutine of Accept
//
// Any goroutine may close the listener, and a connection.
type bounded struct {
	listens   net.Listener
	server    *Server
	speaksTLS bool

	coming   chan net.Conn
	failed   chan error
	admitted []net.Conn
	close    func() error // once
	closed   chan struct{}
}

func newBounded(l net.Listener, s *Server, speaksTLS bool) *bounded {
	b := &bounded{listens: l, server: s, speaksTLS: speaksTLS, coming: make(chan net.Conn, mostComing), failed: make(chan error), closed: make(chan struct{})}
	b.close = sync.OnceValue(func() error {
		close(b.closed)
		return l.Close()
	})
	return b
}

func (b *bounded) Addr() net.Addr { return b.listens.Addr() }

func (b *bounded) Close() error { return b.close() }

// receive takes connections from the kernel until the listener is closed.
func (b *bounded) receive() {
	for {
		c, err := b.listens.Accept()
		switch {
		case err == nil && !b.offer(c), errors.Is(err, net.ErrClosed):
			closeAll(b.drain())
			return
		case err != nil:
			select {
			case b.failed <- err: // net/http waits before it asks again, if that may help
			case <-b.closed:
			}
		}
	}
}

// offer hands a connection to Accept, unless the listener is closed.
func (b *bounded) offer(c net.Conn) bool {
	select {
	case b.coming <- c:
		return true
	case <-b.closed:
		c.Close()
		return false
	}
}

func closeAll(connections []net.Conn) {
	for _, c := range connections {
		c.Close()
	}
}

// drain returns the connections that wait to be let in.
func (b *bounded) drain() (all []net.Conn) {
	for {
		select {
		case c := <-b.coming:
			all = append(all, c)
		default:
			return all
		}
	}
}

// Accept returns the next connection that is within the bounds. Others are told to come
// again.
func (b *bounded) Accept() (net.Conn, error) {
	for {
		select {
		case <-b.closed:
			closeAll(b.admitted)
			return nil, net.ErrClosed
		default:
		}
		if len(b.admitted) > 0 {
			next := b.admitted[0]
			b.admitted = b.admitted[1:]
			return next, nil
		}
		select {
		case c := <-b.coming:
			b.admit(c)
		case err := <-b.failed:
			return nil, err
		case <-b.closed:
		}
	}
}

// admit decides about a connection, and about all others that have come by then: one look at the
// tables of sockets serves all.
func (b *bounded) admit(first net.Conn) {
	group := b.visits([]net.Conn{first})
	if group = append(group, b.visits(b.drain())...); b.server.crowd.mustLook(group) {
		b.server.crowd.awaitLook(b.server.ending)
		group = append(group, b.visits(b.drain())...)
		if err := b.server.crowd.look(group); err != nil {
			b.server.refusals.warn("cannot tell the users of this machine apart: all have the room of one over TCP", "error", err)
		}
	}
	for _, v := range group {
		if leave, ok := b.server.enter(v); ok {
			b.admitted = append(b.admitted, &connection{Conn: v.Conn, peer: v.peer, leave: leave})
			continue
		}
		b.turnAway(v)
	}
}

// visit is a connection with its peer.
type visit struct {
	net.Conn
	peer peer
	ends process.Ends // of the client's socket, for a connection over TCP from this machine
	user string       // of such a connection; "": not looked up
}

// isLocal reports whether a connection over TCP comes from this machine.
func (v *visit) isLocal() bool { return v.peer.tcp && v.peer.host == "" }

// visits returns connections with their peers.
func (b *bounded) visits(connections []net.Conn) (all []*visit) {
	for _, c := range connections {
		p, err := b.server.peerOfConn(c)
		if err != nil {
			c.Close()
			b.server.refusals.warn("refuse connection", "error", err)
			continue
		}
		all = append(all, &visit{Conn: c, peer: p, ends: process.Ends{Local: bareAddress(c.RemoteAddr()), Remote: bareAddress(c.LocalAddr())}})
	}
	return all
}

// enter counts a connection, unless there are too many. leave ends it.
func (s *Server) enter(v *visit) (leave func(), ok bool) {
	if !v.isLocal() {
		return s.guard.enter(v.peer)
	}
	if !s.crowd.enter(v) {
		return nil, false
	}
	uncount, ok := s.guard.enter(v.peer)
	if !ok {
		s.crowd.leave(v)
		return nil, false
	}
	return func() { uncount(); s.crowd.leave(v) }, true
}

// connection is a connection that was let in, with its peer.
type connection struct {
	net.Conn
	peer   peer
	closed sync.Once
	leave  func()
}

func (c *connection) Close() error {
	err := c.Conn.Close()
	c.closed.Do(c.leave)
	return err
}

// peerOfConn returns the peer of a connection. Peers on loopback may read, unless they must log in
// first.
func (s *Server) peerOfConn(c net.Conn) (peer, error) {
	if socket, ok := c.(*net.UnixConn); ok {
		return s.socketPeer(socket)
	}
	return peer{known: s.gate == nil, tcp: true, reads: s.gate == nil, host: hostOf(c.RemoteAddr(), c.LocalAddr())}, nil
}

// hostOf returns the host that connects from an address; "": this machine. A host may have all addresses of
// a /64 of IPv6.
func hostOf(remote, local net.Addr) string {
	ip := bareAddress(remote).Addr()
	switch {
	case ip.IsLoopback(), ip.IsValid() && ip == bareAddress(local).Addr():
		return ""
	case ip.Is6():
		return netip.PrefixFrom(ip, 64).Masked().String()
	}
	return ip.String()
}

// bareAddress returns an address without a zone, and without IPv6 if it is one of IPv4. An address of
// no port is the zero one.
func bareAddress(a net.Addr) netip.AddrPort {
	at, err := netip.ParseAddrPort(a.String())
	if err != nil {
		return netip.AddrPort{}
	}
	return netip.AddrPortFrom(at.Addr().Unmap().WithZone(""), at.Port())
}

var errCrowded = &view.Error{Code: view.CodeBusy, Err: errors.New("too many connections are open"), Hint: "Close pages that nobody looks at, or ask again in a second."}

// comeAgain is the response to a connection beyond the bounds.
var comeAgain = sync.OnceValue(func() []byte {
	text, _ := terminal.LineJSON(problemOf(errCrowded)) // strings and numbers
	return fmt.Appendf(nil, "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Type: %s\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", client.ProblemType, len(text), text)
})

// turnAway answers a connection beyond the bounds. It never waits: a new connection has room
// for the answer.
func (b *bounded) turnAway(v *visit) {
	b.server.metrics.refused.Inc()
	b.server.refusals.warn("too many connections", "uid", cmp.Or(v.user, v.peer.name()), "host", v.peer.host)
	if raw, ok := v.Conn.(syscall.Conn); ok && !b.speaksTLS {
		if control, err := raw.SyscallConn(); err == nil {
			control.Write(func(fd uintptr) bool { unix.Write(int(fd), comeAgain()); return true })
		}
	}
	v.Close()
}

// guard counts connections, or streams. Any goroutine may call it.
type guard struct {
	most, mostTCP, mostUser int // in all, over TCP, of a user with a name or number

	mu    sync.Mutex
	all   int
	ofTCP int
	of    map[string]int // by key
}

func newGuard(most, mostTCP, mostUser int) *guard {
	return &guard{most: most, mostTCP: mostTCP, mostUser: mostUser, of: make(map[string]int)}
}

// enter counts a connection, unless there are too many. leave ends it.
func (g *guard) enter(p peer) (leave func(), ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	key, most := g.share(p)
	if g.all >= g.most || p.tcp && g.ofTCP >= g.mostTCP || g.of[key] >= most {
		return nil, false
	}
	g.addConnections(p, 1)
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.addConnections(p, -1)
	}, true
}

// share returns the key that a peer is counted by, and its bound.
func (g *guard) share(p peer) (key string, most int) {
	switch {
	case p.tcp && p.user == "" && p.host != "":
		return "host " + p.host, mostOfOneHost
	case p.tcp && p.user == "":
		return p.name(), g.mostTCP
	}
	return p.name(), g.mostUser
}

func (g *guard) addConnections(p peer, n int) {
	g.all += n
	if p.tcp {
		g.ofTCP += n
	}
	key, _ := g.share(p)
	if g.of[key] += n; g.of[key] == 0 {
		delete(g.of, key)
	}
}
