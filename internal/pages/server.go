package pages

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Limits of a server's connections.
const (
	mostConnections = 64 // a browser has six
	headerBytes     = 16 << 10
	headerTime      = 5 * time.Second
	idleTime        = time.Minute
	shutdownTime    = time.Second
	exchangePath    = "/session"
)

// Server serves pages and their data to one browser. Once it listens, any goroutine may call its methods.
type Server struct {
	shell    *Shell
	gate     *Gate
	data     http.Handler
	pages    *http.ServeMux
	listener net.Listener
	port     string
}

// Listen opens a port of loopback; 0: any.
func Listen(port uint16) (net.Listener, error) {
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(int(port))))
	if err != nil {
		return nil, fmt.Errorf("listen for a browser: %w", err)
	}
	return l, nil
}

// NewServer returns a server of pages on a port that [Listen] has opened. Data answers what is below /v1: reading, and
// uploads.
func NewServer(l net.Listener, shell *Shell, gate *Gate, data http.Handler) *Server {
	s := &Server{shell: shell, gate: gate, data: data, pages: http.NewServeMux(), listener: l}
	if at, ok := l.Addr().(*net.TCPAddr); ok {
		s.port = strconv.Itoa(at.Port)
	}
	for _, pattern := range shell.Patterns() {
		s.pages.Handle(pattern, shell)
	}
	return s
}

// URL returns the address that lets one browser in, once: it opens a page by its path, perhaps with a query.
func (s *Server) URL(page string) string {
	return "http://" + net.JoinHostPort("127.0.0.1", s.port) + page + "#token=" + url.QueryEscape(s.gate.Token())
}

// Serve answers until ctx is done or the gate is shut, whose reason is the error.
func (s *Server) Serve(ctx context.Context) error {
	server := &http.Server{Handler: s, ReadHeaderTimeout: headerTime, IdleTimeout: idleTime, MaxHeaderBytes: headerBytes, Protocols: onlyHTTP1(),
		ConnState: newCrowd(mostConnections).note, ErrorLog: log.New(io.Discard, "", 0)}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(s.listener) }()
	expiry := time.AfterFunc(TokenKept, s.gate.Expire)
	defer expiry.Stop()
	var err error
	select {
	case <-ctx.Done():
	case <-s.gate.Shut():
		err = s.gate.Why()
	case err = <-failed:
		return fmt.Errorf("serve pages: %w", err)
	}
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTime)
	defer cancel()
	if server.Shutdown(late) != nil {
		server.Close()
	}
	return err
}

func onlyHTTP1() *http.Protocols {
	p := new(http.Protocols)
	p.SetHTTP1(true)
	return p
}

// ServeHTTP answers one request:
//
//  1. The Host must be this server: a name of another site may lead to loopback.
//  2. Pages and their files are for visits, and for themselves.
//  3. The token is exchanged by POST, and data is for the session alone, and for no page of another site.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	Harden(w.Header(), s.shell.policy)
	switch {
	case !s.isHost(r.Host):
		refuse(w, http.StatusMisdirectedRequest, "the request is for another host")
	case r.URL.Path == exchangePath:
		s.exchange(w, r)
	case strings.HasPrefix(r.URL.Path, "/v1/"):
		s.answer(w, r)
	case IsForeign(r) && !IsVisit(r):
		refuse(w, http.StatusForbidden, "a page of another site sent the request")
	default:
		s.pages.ServeHTTP(w, r)
	}
}

// isHost reports whether a request names this server, with its port.
func (s *Server) isHost(host string) bool {
	return slices.Contains([]string{"127.0.0.1:" + s.port, "localhost:" + s.port}, strings.ToLower(host))
}

// exchange answers with the session for the token, which is sent as Authorization.
func (s *Server) exchange(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method != http.MethodPost:
		w.Header().Set("Allow", http.MethodPost)
		refuse(w, http.StatusMethodNotAllowed, "the token is exchanged by POST")
		return
	case IsForeign(r):
		refuse(w, http.StatusForbidden, "a page of another site sent the request")
		return
	}
	session, err := s.gate.Exchange(bearer(r))
	if err != nil {
		refuse(w, http.StatusUnauthorized, err.Error())
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	fmt.Fprintf(w, "{\"session\":%q}\n", session) // letters and digits
}

// answer answers a request of the session.
func (s *Server) answer(w http.ResponseWriter, r *http.Request) {
	switch {
	case IsForeign(r):
		refuse(w, http.StatusForbidden, "a page of another site sent the request")
	case !s.gate.Allows(bearer(r)):
		refuse(w, http.StatusUnauthorized, "the page has no session: open it from the terminal again")
	case !mayPass(r):
		refuse(w, http.StatusForbidden, "pages read, and upload: they change nothing else")
	default:
		s.data.ServeHTTP(w, plain(r))
	}
}

// bearer returns the secret of a request, "" without one.
func bearer(r *http.Request) string {
	secret, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok {
		return ""
	}
	return secret
}

// mayPass reports whether a request reads a view, or uploads. Events hold a connection, and browsers have six.
func mayPass(r *http.Request) bool {
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		return r.URL.Path != "/v1/events"
	case http.MethodPost:
		return r.URL.Path == "/v1/uploads"
	}
	return false
}

// passed are the headers that the data's handler gets. Not the secret: it is this server's.
var passed = []string{"Accept-Encoding", "If-None-Match", "Content-Type", "Content-Length"}

// plain returns a request without the headers that only browsers need.
func plain(r *http.Request) *http.Request {
	out := r.Clone(r.Context())
	out.Header = make(http.Header)
	for _, name := range passed {
		if values := r.Header.Values(name); values != nil {
			out.Header[name] = values
		}
	}
	return out
}

// refuse answers with an error as the routes have them (RFC 9457).
func refuse(w http.ResponseWriter, status int, why string) {
	text, err := json.Marshal(map[string]any{"title": http.StatusText(status), "status": status, "detail": why, "code": "not-permitted"})
	if err != nil {
		panic(err) // strings and a number
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(append(text, '\n')) // the client may have gone
}
