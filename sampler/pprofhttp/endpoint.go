package pprofhttp

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
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/loopback"
	"github.com/ccmapd/ccmapd/sampler"
)

// Credentials name the file with the secret that a server asks for. It is read at each request, so
// that it can be renewed. At most one file is named.
type Credentials struct {
	BearerFile   string // a token
	BasicFile    string // user:password
	PasswordFile string // the password of User
	User         string

	// Private refuses a file that every user of this machine may read or change.
	Private bool
}

// given reports whether there is a secret.
func (c Credentials) given() bool { return c.files() > 0 }

func (c Credentials) files() (n int) {
	for _, file := range []string{c.BearerFile, c.BasicFile, c.PasswordFile} {
		if file != "" {
			n++
		}
	}
	return n
}

// endpoint is the server.
type endpoint struct {
	base        *url.URL
	client      *http.Client
	credentials Credentials
	longest     *atomic.Int64 // seconds of a profile that the server permits; 0: not known
}

const (
	dialTimeout = 10 * time.Second
	// mostRedirects, mostHeader, mostCommandLine and mostCredentials bound an answer and a file.
	mostRedirects   = 5
	mostHeader      = 64 << 10 // bytes
	mostCommandLine = 64 << 10 // bytes
	mostCredentials = 16 << 10 // bytes
)

// refusal is an error that further requests would meet, too.
type refusal struct{ error }

func (r refusal) Unwrap() error { return r.error }

func isRefusal(err error) bool { return errors.As(err, new(refusal)) }

// newEndpoint checks the options.
func newEndpoint(o Options) (endpoint, error) {
	base, err := parseURL(o.URL, o.Credentials)
	if err != nil {
		return endpoint{}, err
	}
	trusted, err := authorities(o.CAFile)
	if err != nil {
		return endpoint{}, err
	}
	transport := &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            inTime(o.Dial),
		TLSClientConfig:        &tls.Config{RootCAs: trusted, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    dialTimeout,
		MaxResponseHeaderBytes: mostHeader,
		DisableCompression:     true, // profiles are compressed already, and their reader bounds the expansion
		MaxConnsPerHost:        1,
	}
	client := &http.Client{Transport: transport, CheckRedirect: stayOnHost}
	return endpoint{base: base, client: client, credentials: o.Credentials, longest: new(atomic.Int64)}, nil
}

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

// defaultPath is where net/http/pprof registers itself.
const defaultPath = "/debug/pprof"

// parseURL checks an address.
func parseURL(text string, c Credentials) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return nil, errors.New("not a URL") // the parser's error has the text, with a password
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return nil, errors.New("want http://HOST/debug/pprof or https://HOST/debug/pprof")
	case u.User != nil:
		return nil, errors.New("a password does not belong into a URL, which other users see: put user:password into a file")
	case u.RawQuery != "" || u.Fragment != "":
		return nil, errors.New("want the address of the endpoint, without a query")
	case c.files() > 1:
		return nil, errors.New("want a token or a password, not both")
	case c.given() && u.Scheme == "http" && !loopback.IsHost(u.Hostname()):
		return nil, errors.New("credentials would cross the network in clear text: use https")
	}
	u.Path = strings.TrimSuffix(u.Path, "/")
	if path, isProfile := strings.CutSuffix(u.Path, "/profile"); isProfile {
		u.Path = path
	}
	if u.Path == "" {
		u.Path = defaultPath
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

// stayOnHost follows a redirect within the server: another one must get neither the
// credentials nor, from this machine, a request.
func stayOnHost(r *http.Request, via []*http.Request) error {
	first := via[0].URL
	if r.URL.Scheme != first.Scheme || r.URL.Host != first.Host {
		return refusal{fmt.Errorf("the server redirects to another host, %s://%s", r.URL.Scheme, r.URL.Host)}
	}
	if len(via) > mostRedirects {
		return refusal{errors.New("the server redirects in a circle")}
	}
	return nil
}

// get sends a request. The caller closes the body of an answer that is not an error.
func (e *endpoint) get(ctx context.Context, what, query string) (*http.Response, error) {
	u := *e.base
	u.Path += "/" + what
	u.RawQuery = query
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	if err := e.credentials.add(r); err != nil {
		return nil, refusal{err}
	}
	return e.client.Do(r)
}

// add adds the credentials to a request.
func (c Credentials) add(r *http.Request) error {
	switch {
	case c.BearerFile != "":
		token, err := c.read(c.BearerFile)
		if err != nil {
			return fmt.Errorf("read token: %w", err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
	case c.PasswordFile != "":
		password, err := c.read(c.PasswordFile)
		if err != nil {
			return fmt.Errorf("read password: %w", err)
		}
		r.SetBasicAuth(c.User, password)
	case c.BasicFile != "":
		text, err := c.read(c.BasicFile)
		if err != nil {
			return fmt.Errorf("read password: %w", err)
		}
		user, password, found := strings.Cut(text, ":")
		if !found {
			return fmt.Errorf("read password: %s is not user:password", c.BasicFile)
		}
		r.SetBasicAuth(user, password)
	}
	return nil
}

// ErrExposed says that every user of this machine may read or change a file with credentials.
var ErrExposed = errors.New("every user may read or change the file")

// read reads the only line of a file.
func (c Credentials) read(file string) (string, error) {
	flag := os.O_RDONLY
	if c.Private {
		flag |= syscall.O_NONBLOCK // a pipe, which is refused then, must not keep it waiting
	}
	f, err := os.OpenFile(file, flag, 0)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if c.Private {
		if err := checkPrivate(f); err != nil {
			return "", err
		}
	}
	text, err := io.ReadAll(io.LimitReader(f, mostCredentials))
	if err != nil {
		return "", err
	}
	line := strings.TrimSpace(string(text))
	if line == "" || strings.ContainsAny(line, "\r\n\x00") {
		return "", fmt.Errorf("%s has not one line", file)
	}
	return line, nil
}

// checkPrivate refuses a file that every user may read or change.
func checkPrivate(f *os.File) error {
	info, err := f.Stat()
	switch {
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is not a regular file", f.Name())
	case info.Mode().Perm()&0o007 != 0:
		return fmt.Errorf("%s: %w", f.Name(), ErrExposed)
	}
	return nil
}

// describe asks for the command line of the program. A server may not tell it.
func (e *endpoint) describe(ctx context.Context) (ccmap.Target, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	r, err := e.get(ctx, "cmdline", "")
	if err != nil {
		return ccmap.Target{}, unreachable(err)
	}
	defer r.Body.Close()
	switch r.StatusCode {
	case http.StatusOK:
	case http.StatusUnauthorized, http.StatusForbidden:
		return ccmap.Target{}, e.refused(r)
	default:
		return ccmap.Target{}, nil
	}
	text, err := io.ReadAll(io.LimitReader(r.Body, mostCommandLine))
	if err != nil {
		return ccmap.Target{}, unreachable(err)
	}
	arguments := strings.Split(string(bytes.TrimRight(text, "\x00")), "\x00")
	return ccmap.Target{Executable: arguments[0], CommandLine: arguments}, nil
}

// unreachable tells a server that is away from other errors of a request.
func unreachable(err error) error {
	if errors.As(err, new(*net.OpError)) {
		return fmt.Errorf("%w: %w", sampler.ErrNoProcess, err)
	}
	return err
}

// refused explains a status that will stay.
func (e *endpoint) refused(r *http.Response) error {
	of := sampler.ErrUnsupported
	switch r.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden:
		of = sampler.ErrPermission
	}
	return refusal{fmt.Errorf("%w: %s", of, e.statusText(r))}
}

// statusText returns the status of an answer, and the beginning of its text. A server may repeat
// the credentials in its text, and in the words of its status.
func (e *endpoint) statusText(r *http.Response) string {
	if e.credentials.given() {
		return fmt.Sprintf("the server answers %d %s", r.StatusCode, http.StatusText(r.StatusCode))
	}
	const most = 200
	text, _ := io.ReadAll(io.LimitReader(r.Body, most))
	return fmt.Sprintf("the server answers %s: %q", r.Status, text)
}

// profile asks for a profile of some seconds.
func (e *endpoint) profile(ctx context.Context, seconds int, read func(io.Reader) (*ccmap.Map, error)) (*ccmap.Map, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(seconds)*time.Second+patience)
	defer cancel()
	r, err := e.get(ctx, "profile", "seconds="+strconv.Itoa(seconds))
	if err != nil {
		return nil, unreachable(err)
	}
	defer r.Body.Close()
	switch status := r.StatusCode; {
	case status == http.StatusOK:
		return read(r.Body)
	case status == http.StatusBadRequest && seconds > 1:
		// The server's WriteTimeout is shorter (durationExceedsWriteTimeout of net/http/pprof).
		e.longest.Store(int64(seconds / 2))
		return nil, fmt.Errorf("%s; the next profile is shorter", e.statusText(r))
	case status == http.StatusTooManyRequests, status == http.StatusRequestTimeout, status >= http.StatusInternalServerError:
		return nil, errors.New(e.statusText(r))
	}
	return nil, e.refused(r)
}

// seconds returns the length of the next profile.
func (e *endpoint) seconds(wanted int) int {
	if longest := int(e.longest.Load()); longest > 0 {
		return min(wanted, longest)
	}
	return wanted
}
