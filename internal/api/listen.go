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
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/ccmapd/ccmapd/internal/view"
)

// Limits of connections.
const (
	mostConnections = 128
	mostOfOneUser   = 32
	mostOverTCP     = 64 // the socket has room always
	mostOfOneHost   = 16 // over TCP, before anybody has logged in
	mostOfOneLocal  = 16 // over TCP, of a user of this machine

	mostStreams       = 32 // of events: each holds a connection
	mostStreamsOfUser = 12
	mostStreamsOnTCP  = 20

	mostWaits       = 32 // over TCP, for samples of the next time: each holds a connection and a profile
	mostWaitsOfUser = 16 // who has logged in

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
	*bounded
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
		server.Handler, server.TLSConfig = s.ownSite(s.gate), s.gate.tls
	}
	return listener{newBounded(l, s, server.TLSConfig != nil), server}
}

func (l listener) serve() error {
	go l.receive()
	if l.server.TLSConfig != nil {
		return l.server.ServeTLS(l.bounded, "", "")
	}
	return l.server.Serve(l.bounded)
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
