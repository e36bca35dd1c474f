package api

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/prometheus/exporter-toolkit/web"
	"go.yaml.in/yaml/v2"

	"github.com/ccmapd/ccmapd/internal/daemon/config"

	"github.com/ccmapd/ccmapd/internal/loopback"
)

const (
	mostTries      = 10      // passwords that are tried at once
	triesPerSecond = 2       // later: to check one takes a tenth of a second on purpose
	mostKnown      = 1 << 10 // credentials that were right
)

// gate lets clients of the port in by a web configuration: a file of exporter-toolkit with TLS
// and users, which the toolkit reads again for each connection and each request. Any goroutine
// may call ServeHTTP.
//
//  1. ServeHTTP bounds the passwords that are tried.
//  2. The toolkit checks the password.
//  3. enter makes the client a peer.
type gate struct {
	server  *Server
	file    string
	exposed bool         // beyond loopback: no client is anonymous
	checked http.Handler // the toolkit's
	tls     *tls.Config  // nil: none
	now     func() time.Time

	mu    sync.Mutex
	known map[[sha256.Size]byte]bool // credentials that were right: the toolkit knows them, too
	tries float64                    // passwords that may be tried at last
	last  time.Time

	broken bool // the file let no client in at last
}

// newGate reads and checks the web configuration.
func newGate(s *Server) (*gate, error) {
	g := &gate{
		server: s, file: s.options.WebConfig, exposed: !isLoopback(s.options.TCP), now: time.Now,
		known: make(map[[sha256.Size]byte]bool), tries: mostTries,
	}
	c, err := g.read()
	if err != nil {
		return nil, fmt.Errorf("listen.web_config: %w", err)
	}
	// The toolkit makes its handler and its TLS before it accepts a connection.
	made := &http.Server{Handler: http.HandlerFunc(g.enter), Protocols: onlyHTTP1()}
	err = web.Serve(noListener(s.options.TCP), made, &web.FlagConfig{WebConfigFile: &g.file}, s.options.Logger)
	if !errors.Is(err, errNoConnections) {
		return nil, fmt.Errorf("listen.web_config: %s: %w", g.file, err)
	}
	g.checked, g.tls = made.Handler, made.TLSConfig
	switch {
	case !g.exposed:
	case g.tls == nil:
		return nil, fmt.Errorf("listen.web_config: %s has no tls_server_config, which %s needs", g.file, s.options.TCP)
	case len(c.Users) == 0 && g.tls.ClientAuth != tls.RequireAndVerifyClientCert:
		return nil, fmt.Errorf("listen.web_config: %s has no basic_auth_users, and does not want certificates of clients (RequireAndVerifyClientCert): %s needs one of them", g.file, s.options.TCP)
	}
	return g, nil
}

// read reads the file, unless others can change it or a file that it names.
func (g *gate) read() (*web.Config, error) {
	text, err := os.ReadFile(g.file)
	if err != nil {
		return nil, err
	}
	c := new(web.Config)
	if err := yaml.UnmarshalStrict(text, c); err != nil {
		return nil, fmt.Errorf("%s: %w", g.file, err)
	}
	c.TLSConfig.SetDirectory(filepath.Dir(g.file))
	return c, checkOwners(g.file, c.TLSConfig.TLSCertPath, c.TLSConfig.TLSKeyPath, c.TLSConfig.ClientCAs)
}

// checkOwners refuses files that other users can change.
func checkOwners(files ...string) error {
	for _, file := range files {
		if file == "" {
			continue
		}
		if err := config.CheckOwner(file); err != nil {
			return err
		}
	}
	return nil
}

// isLoopback reports whether an address to listen on is of this machine alone.
func isLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	return err == nil && loopback.IsHost(host)
}

// noListener has an address, and no connections.
type noListener string

var errNoConnections = errors.New("no connections")

func (noListener) Accept() (net.Conn, error) { return nil, errNoConnections }
func (noListener) Close() error              { return nil }
func (l noListener) Addr() net.Addr          { return l }
func (noListener) Network() string           { return "tcp" }
func (l noListener) String() string          { return string(l) }

// onlyHTTP1 leaves out HTTP/2, whose streams no bound of connections counts.
func onlyHTTP1() *http.Protocols {
	p := new(http.Protocols)
	p.SetHTTP1(true)
	return p
}

type enteredKey struct{}

// ServeHTTP answers a request, if the toolkit lets it in.
func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.server.expectBody(w, r)
	entered := new(bool)
	r = r.WithContext(context.WithValue(r.Context(), enteredKey{}, entered))
	if _, _, tries := r.BasicAuth(); tries && !g.mayTry(r) {
		g.server.refuse(w, r, errBusy)
		return
	}
	g.checked.ServeHTTP(w, r)
	if !*entered {
		g.server.metrics.refused.Inc()
		g.server.refusals.warn("request refused", "from", r.RemoteAddr, "method", r.Method, "path", r.URL.Path, "why", "no valid credentials")
	}
}

// enter answers a request that the toolkit has let in.
func (g *gate) enter(w http.ResponseWriter, r *http.Request) {
	*r.Context().Value(enteredKey{}).(*bool) = true
	p, err := g.peerOf(r)
	if err != nil {
		g.server.refuse(w, r, err)
		return
	}
	g.server.ServeHTTP(w, r.WithContext(withPeer(r.Context(), p)))
}

// peerOf returns the client of a request that the toolkit has let in. Once the file has no users any
// more, the toolkit lets in every client.
func (g *gate) peerOf(r *http.Request) (peer, error) {
	c, err := g.read()
	g.note(err)
	if err != nil {
		return peer{}, errNotPermitted
	}
	p := peer{known: true, tcp: true, reads: true}
	name, _, _ := r.BasicAuth()
	switch _, isUser := c.Users[name]; {
	case isUser:
		p.user = name
		g.know(r)
	case len(c.Users) > 0:
		return peer{}, errNotPermitted
	case r.TLS != nil && len(r.TLS.VerifiedChains) > 0:
		p.user = cmp.Or(r.TLS.VerifiedChains[0][0].Subject.CommonName, "certificate")
	case g.exposed:
		return peer{}, errNotPermitted
	}
	return p, nil
}

// note logs once why the file lets no client in.
func (g *gate) note(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err != nil && !g.broken {
		g.server.options.Logger.Error("no client of the port is let in", "error", err)
	}
	g.broken = err != nil
}

// mayTry reports whether the password of a request may be checked. One that was right before
// costs nothing: clients that guess do not keep its user out.
func (g *gate) mayTry(r *http.Request) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.known[credentialsOf(r)] {
		return true
	}
	now := g.now()
	g.tries = min(g.tries+now.Sub(g.last).Seconds()*triesPerSecond, mostTries)
	g.last = now
	if g.tries < 1 {
		return false
	}
	g.tries--
	return true
}

// know notes credentials that were right.
func (g *gate) know(r *http.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.known) >= mostKnown {
		clear(g.known)
	}
	g.known[credentialsOf(r)] = true
}

func credentialsOf(r *http.Request) [sha256.Size]byte {
	return sha256.Sum256([]byte(r.Header.Get("Authorization")))
}
