package api

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ccmapd/ccmapd/view"
)

// Limits of connections.
const (
	mostConnections = 128
	mostOfOneUser   = 32
	mostOfOneHost   = 16 // over TCP, before anybody has logged in
	mostOverTCP     = 64 // the socket has room always

	mostStreams       = 32 // of events: each holds a connection
	mostStreamsOfUser = 12
	mostStreamsOnTCP  = 20

	headerBytes  = 16 << 10
	headerTime   = 5 * time.Second
	idleTime     = time.Minute
	stallTime    = 30 * time.Second // without progress of a body
	shutdownTime = 5 * time.Second
)

// httpSlop is how many bytes more than MaxHeaderBytes net/http reads (Go 1.26,
// Server.initialReadLimitSize).
const httpSlop = 4 << 10

// listener is a socket or port that a server listens on.
type listener struct {
	net.Listener
	server *http.Server
}

// Listen opens the socket and the port.
func (s *Server) Listen() (err error) {
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	for _, l := range s.options.Opened {
		s.listeners = append(s.listeners, s.newListener(l))
	}
	if s.options.Socket != "" && len(s.options.Opened) == 0 {
		l, err := s.listenSocket()
		if err != nil {
			return fmt.Errorf("listen on %s: %w", s.options.Socket, err)
		}
		s.listeners = append(s.listeners, s.newListener(l))
	}
	if s.options.TCP == "" {
		return nil
	}
	l, err := net.Listen("tcp", s.options.TCP)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", s.options.TCP, err)
	}
	s.listeners = append(s.listeners, s.newListener(l))
	return nil
}

func (s *Server) newListener(l net.Listener) listener {
	server := &http.Server{
		Handler: s, ReadHeaderTimeout: s.header, IdleTimeout: idleTime, MaxHeaderBytes: headerBytes - httpSlop, Protocols: onlyHTTP1(),
		ErrorLog: slog.NewLogLogger(s.options.Logger.Handler(), slog.LevelDebug),
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			if secure, ok := c.(*tls.Conn); ok {
				c = secure.NetConn()
			}
			return withPeer(ctx, c.(*connection).peer)
		},
	}
	if s.gate != nil && l.Addr().Network() == "tcp" {
		server.Handler, server.TLSConfig = s.gate, s.gate.tls
	}
	return listener{&bounded{Listener: l, server: s, speaksTLS: server.TLSConfig != nil}, server}
}

func (l listener) serve() error {
	if l.server.TLSConfig != nil {
		return l.server.ServeTLS(l.Listener, "", "")
	}
	return l.server.Serve(l.Listener)
}

// Serve answers requests until ctx is done. Then it lets answers go out for some
// seconds, and removes the socket. Listen must have been called.
func (s *Server) Serve(ctx context.Context) error {
	failed := make(chan error, len(s.listeners))
	for _, l := range s.listeners {
		go func() { failed <- l.serve() }()
	}
	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
		err = fmt.Errorf("serve: %w", err)
	}
	s.ends()
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTime)
	defer cancel()
	var wait sync.WaitGroup
	for _, l := range s.listeners {
		wait.Go(func() {
			if l.server.Shutdown(late) != nil {
				l.server.Close()
			}
		})
	}
	wait.Wait()
	s.close()
	return err
}

// close closes the listeners, and removes the socket.
func (s *Server) close() {
	for _, l := range s.listeners {
		l.Close() // http.Server may have closed it
	}
	s.listeners = nil
	s.uploads.close()
	s.audit.Flush()
}

// Addr returns the address of the TCP port; nil without a port. Listen must have been called.
func (s *Server) Addr() net.Addr {
	for _, l := range s.listeners {
		if l.Addr().Network() == "tcp" {
			return l.Addr()
		}
	}
	return nil
}

// listenSocket makes the socket in a directory that no other user may enter, gives it its owner
// and mode, and renames it to its place: at no moment may others connect. A socket where
// nothing listens any more is replaced. The directory of its place is made if it is missing.
func (s *Server) listenSocket() (net.Listener, error) {
	path := s.options.Socket
	if err := checkPlace(path); err != nil {
		return nil, err
	}
	if err := os.Mkdir(filepath.Dir(path), 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, noPlace(err)
	}
	dir, err := os.MkdirTemp(filepath.Dir(path), ".ccmapd-")
	if err != nil {
		return nil, noPlace(err)
	}
	defer os.RemoveAll(dir)
	made := filepath.Join(dir, "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: made, Net: "unix"})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false)
	err = os.Chmod(made, s.socketMode(made))
	if err == nil {
		err = os.Rename(made, path)
	}
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return placed{l, path}, nil
}

// noPlace says what to do where no socket can be made.
func noPlace(err error) error {
	return &view.Error{Code: view.CodeFailed, Err: err,
		Hint: "Name another place in CCMAPD_SOCKET, or as [listen] socket in the file of --config."}
}

// socketMode returns the mode of the socket, and gives it its group.
func (s *Server) socketMode(made string) fs.FileMode {
	ofGroup := s.group >= 0 && os.Chown(made, -1, s.group) == nil
	switch {
	case s.options.Open:
		return 0o666
	case ofGroup:
		return 0o660
	case s.group >= 0:
		s.options.Logger.Warn("the group of the socket cannot connect: this user is not a member", "group", s.options.Group)
	}
	return 0o600
}

// placed is a socket that was renamed, and is removed in the end.
type placed struct {
	*net.UnixListener
	path string
}

func (p placed) Close() error {
	err := p.UnixListener.Close()
	if err == nil {
		os.Remove(p.path)
	}
	return err
}

// checkPlace returns an error unless a path is free, or is of a socket without a listener.
func checkPlace(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != fs.ModeSocket:
		return errors.New("something else than a socket is there")
	}
	c, err := net.DialTimeout("unix", path, time.Second)
	if err == nil {
		c.Close()
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return &view.Error{Code: view.CodeFailed, Err: errors.New("another daemon listens there"),
			Hint: "End that one, or name another place in CCMAPD_SOCKET, or as [listen] socket in the file of --config."}
	}
	return nil
}

// isHost reports whether a request is for this server: a page of another site may have its name
// lead to loopback, but not change the Host that a browser sends.
func (s *Server) isHost(host string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = host
	}
	configured, _, _ := net.SplitHostPort(s.options.TCP)
	return slices.Contains([]string{"localhost", "127.0.0.1", "::1", strings.ToLower(configured)}, strings.ToLower(strings.Trim(name, "[]")))
}

// bounded is a listener with at most so many connections. Any goroutine may close
// a connection.
type bounded struct {
	net.Listener
	server    *Server
	speaksTLS bool
}

// connection is a connection with its peer.
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

// Accept returns the next connection that is within the bounds. Others are told to come
// again.
func (b *bounded) Accept() (net.Conn, error) {
	for {
		c, err := b.Listener.Accept()
		if err != nil {
			return nil, err
		}
		p, err := b.server.peerOfConn(c)
		if err != nil {
			c.Close()
			b.server.refusals.warn("refuse connection", "error", err)
			continue
		}
		if leave, ok := b.server.guard.enter(p); ok {
			return &connection{Conn: c, peer: p, leave: leave}, nil
		}
		b.turnAway(c, p)
	}
}

// peerOfConn returns the peer of a connection. Peers on loopback may read, unless they must log in
// first.
func (s *Server) peerOfConn(c net.Conn) (peer, error) {
	if socket, ok := c.(*net.UnixConn); ok {
		return s.socketPeer(socket)
	}
	return peer{known: s.gate == nil, tcp: true, reads: s.gate == nil, host: hostOf(c.RemoteAddr())}, nil
}

// hostOf returns the host that connects from an address; "": this machine, by loopback. A host may
// have all addresses of a /64 of IPv6.
func hostOf(a net.Addr) string {
	from, err := netip.ParseAddrPort(a.String())
	ip := from.Addr().Unmap().WithZone("")
	switch {
	case err == nil && ip.IsLoopback():
		return ""
	case ip.Is6():
		return netip.PrefixFrom(ip, 64).Masked().String()
	}
	return ip.String()
}

const comeAgain = "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"

// turnAway answers a connection beyond the bounds. It never waits: a new connection has room
// for the answer.
func (b *bounded) turnAway(c net.Conn, p peer) {
	b.server.metrics.refused.Inc()
	b.server.refusals.warn("too many connections", "uid", p.name(), "host", p.host)
	if raw, ok := c.(syscall.Conn); ok && !b.speaksTLS {
		if control, err := raw.SyscallConn(); err == nil {
			control.Write(func(fd uintptr) bool { unix.Write(int(fd), []byte(comeAgain)); return true })
		}
	}
	c.Close()
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
	g.add(p, 1)
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.add(p, -1)
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

func (g *guard) add(p peer, n int) {
	g.all += n
	if p.tcp {
		g.ofTCP += n
	}
	key, _ := g.share(p)
	if g.of[key] += n; g.of[key] == 0 {
		delete(g.of, key)
	}
}
