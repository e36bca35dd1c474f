// Package served asks programs that serve their own profiles over HTTP. The sources that follow such
// programs share it.
//
// The server is not trusted. A connection must be there in time, and the caller gives each request a
// deadline and bounds the bytes that it reads. Redirects are followed to the same host and scheme only.
// Credentials are read from files at each request, and go to no other host, and without TLS to this
// machine only. An answer to a request with credentials is quoted in no error, since it may repeat them.
package served

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/ccmapd/ccmapd/internal/loopback"
)

// Server is a program that serves its profiles. Any goroutine may call its methods.
type Server struct {
	base        *url.URL
	client      *http.Client
	credentials Credentials
}

// Options of a Server.
type Options struct {
	Credentials Credentials
	CAFile      string // certificates, in PEM, of the authorities to trust; empty: the system's

	// Dial connects to the server, within 10 s; nil: by the network.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Patience is how long a program may take for an answer at most, beyond the time that the request asks it to
// wait: it collects garbage, or is stopped.
const Patience = 30 * time.Second

const (
	dialTimeout = 10 * time.Second
	// mostRedirects and mostHeader bound an answer.
	mostRedirects = 5
	mostHeader    = 64 << 10 // bytes
)

// New returns the server at an address that [Parse] has checked.
func New(base *url.URL, o Options) (*Server, error) {
	trusted, err := authorities(o.CAFile)
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            inTime(o.Dial),
		TLSClientConfig:        &tls.Config{RootCAs: trusted, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    dialTimeout,
		MaxResponseHeaderBytes: mostHeader,
		DisableCompression:     true, // the reader of a profile bounds its expansion
		MaxConnsPerHost:        1,
	}
	client := &http.Client{Transport: transport, CheckRedirect: stayOnHost}
	return &Server{base: base, client: client, credentials: o.Credentials}, nil
}

// Close closes the connection, unless a request uses it.
func (s *Server) Close() { s.client.CloseIdleConnections() }

// String returns the address.
func (s *Server) String() string { return s.base.Redacted() }

// Confidential reports whether the server gets credentials, which its answers may repeat.
func (s *Server) Confidential() bool { return s.credentials.given() }

// inTime returns a function that connects within dialTimeout; nil connects as package net does.
func inTime(dial func(ctx context.Context, network, address string) (net.Conn, error)) func(context.Context, string, string) (net.Conn, error) {
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, dialTimeout)
		defer cancel()
		return dial(ctx, network, address)
	}
}

// Parse checks an address, which may have a fragment. An error names the usual path.
func Parse(text, usual string, c Credentials) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return nil, errors.New("not a URL") // the parser's error has the text, with a password
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return nil, fmt.Errorf("want http://HOST%s or https://HOST%s", usual, usual)
	case u.User != nil:
		return nil, errors.New("a password does not belong into a URL, which other users see: put user:password into a file")
	case u.RawQuery != "":
		return nil, errors.New("want the address of the endpoint, without a query")
	case c.files() > 1:
		return nil, errors.New("want a token or a password, not both")
	case c.given() && u.Scheme == "http" && !loopback.IsHost(u.Hostname()):
		return nil, errors.New("credentials would cross the network in clear text: use https")
	}
	return u, nil
}

// authorities returns the certificates of a file; nil for none.
func authorities(file string) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read certificates: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("read certificates: %s has none in PEM", file)
	}
	return pool, nil
}

// ErrRedirect says that a server redirects to where requests must not go.
var ErrRedirect = errors.New("the server redirects")

// stayOnHost follows a redirect within the server: another one must get neither the
// credentials nor, from this machine, a request. One that would turn what deletes or sends into what asks
// is not followed either: its answer would say nothing of what was to be done.
func stayOnHost(r *http.Request, via []*http.Request) error {
	first := via[0].URL
	if r.URL.Scheme != first.Scheme || r.URL.Host != first.Host {
		return Refusal{fmt.Errorf("%w to another host, %s://%s", ErrRedirect, r.URL.Scheme, r.URL.Host)}
	}
	if r.Method != via[0].Method {
		return Refusal{fmt.Errorf("%w a %s to a %s", ErrRedirect, via[0].Method, r.Method)}
	}
	if len(via) > mostRedirects {
		return Refusal{fmt.Errorf("%w in a circle", ErrRedirect)}
	}
	return nil
}

// Get asks for a route below the address, whose parts may have any characters. Codings are those that the
// body may have; empty: none. The caller closes the body of an answer that is not an error.
func (s *Server) Get(ctx context.Context, query, codings string, parts ...string) (*http.Response, error) {
	return s.do(ctx, request{method: http.MethodGet, query: query, codings: codings, parts: parts})
}

// GetUnless asks as [Server.Get] does, unless the answer has a tag still: then the server answers 304. Without a tag it
// asks for any answer.
func (s *Server) GetUnless(ctx context.Context, tag, query string, parts ...string) (*http.Response, error) {
	return s.do(ctx, request{method: http.MethodGet, query: query, tag: tag, parts: parts})
}

// Delete deletes what a route names, as [Server.Get] asks for it.
func (s *Server) Delete(ctx context.Context, query string, parts ...string) (*http.Response, error) {
	return s.do(ctx, request{method: http.MethodDelete, query: query, parts: parts})
}

// Post sends a body to a route, as [Server.Get] asks for one.
func (s *Server) Post(ctx context.Context, body []byte, query string, parts ...string) (*http.Response, error) {
	return s.do(ctx, request{method: http.MethodPost, query: query, body: bytes.NewReader(body), parts: parts})
}

// request is what is asked of a server.
type request struct {
	method, query string
	codings       string // that the answer may have; empty: none
	tag           string // of an answer that is not wanted again; empty: any is wanted
	body          io.Reader
	parts         []string // of the route
}

func (s *Server) do(ctx context.Context, q request) (*http.Response, error) {
	escaped := make([]string, len(q.parts))
	for i, part := range q.parts {
		escaped[i] = url.PathEscape(part)
	}
	u := s.base.JoinPath(escaped...)
	u.RawQuery, u.Fragment, u.RawFragment = q.query, "", ""
	r, err := http.NewRequestWithContext(ctx, q.method, u.String(), q.body)
	if err != nil {
		return nil, err
	}
	if q.codings != "" {
		r.Header.Set("Accept-Encoding", q.codings)
	}
	if q.tag != "" {
		r.Header.Set("If-None-Match", q.tag)
	}
	if err := s.credentials.add(r); err != nil {
		return nil, Refusal{err}
	}
	answer, err := s.client.Do(r)
	return answer, unreachable(err)
}
