package client

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/internal/advice"
	"github.com/ccmapd/ccmapd/internal/loopback"
)

const (
	// patience is how long a server may be silent.
	patience = 30 * time.Second

	// mostProblem bounds the body of an error.
	mostProblem = 64 << 10
)

// ErrNoDaemon means that no daemon answers.
var ErrNoDaemon = errors.New("no daemon answers")

// get fetches a part of a remote profile, of at most limit bytes: its "map", which is all that a URL names, or its
// "moments".
func (r *Reader) get(ctx context.Context, where, part string, limit int64) ([]byte, error) {
	from, err := parse(where, r.sockets())
	if ref, is := strings.CutPrefix(where, hubPrefix); is {
		from, err = r.Hub.profile(where, ref, r.Event)
	}
	if err != nil {
		return nil, err
	}
	if part != "map" {
		from.url = from.url.JoinPath("..", part)
	}
	if r.Event != "" && from.sockets != nil { // a daemon's
		from.url.RawQuery = url.Values{"event": {r.Event}}.Encode()
	}
	response, err := do(ctx, from, http.MethodGet, nil)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(io.LimitReader(response.Body, limit+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read %s: %w", from.name, cutShort(ctx, err))
	case int64(len(data)) > limit:
		return nil, fmt.Errorf("read %s: %w: it has more than %d bytes", from.name, export.ErrMemory, limit)
	}
	return data, nil
}

func (r *Reader) sockets() []string {
	if r.Sockets != nil {
		return r.Sockets
	}
	return Sockets()
}

// do sends a request and returns the response to it if that is a success. The body must be closed, and
// fails if it makes no progress for the time of patience. Profiles come as zstd or gzip, which package
// export undoes; other answers as they are.
func do(ctx context.Context, to remote, method string, content io.Reader) (*http.Response, error) {
	if to.url.User != nil && to.url.Scheme == "http" && !loopback.IsHost(to.url.Hostname()) {
		return nil, &Error{Code: advice.CodeUsage, Err: fmt.Errorf("%s: the password would cross the network in clear text", to.name),
			Hint: "Use https, or an SSH tunnel to a port of loopback."}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(patience+asked(to.url), func() { cancel(errSilent) })
	request, err := http.NewRequestWithContext(ctx, method, to.url.String(), content)
	if err != nil {
		cancel(nil)
		return nil, fmt.Errorf("ask %s: %w", to.name, err)
	}
	request.Header.Set("Accept-Encoding", to.codings)
	request.Header.Set("User-Agent", "ccmapd")
	if content != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if to.token != "" {
		request.Header.Set("Authorization", "Bearer "+to.token)
	}
	transport := &http.Transport{DisableKeepAlives: true, Proxy: http.ProxyFromEnvironment, MaxResponseHeaderBytes: mostProblem}
	if to.roots != nil {
		transport.TLSClientConfig = &tls.Config{RootCAs: to.roots}
	}
	if to.sockets != nil {
		transport.Proxy, transport.DialContext = nil, to.dial
	}
	response, err := (&http.Client{Transport: transport, CheckRedirect: stayOnHost}).Do(request)
	if err != nil {
		defer cancel(nil)
		return nil, explain(to, cutShort(ctx, err))
	}
	response.Body = &patient{response.Body, timer, cancel}
	if response.StatusCode/100 != 2 {
		defer response.Body.Close()
		return nil, problemOf(to, response)
	}
	return response, nil
}

// mostRedirects bounds the redirects that are followed.
const mostRedirects = 5

// errRedirect says that a server redirects to where requests must not go.
var errRedirect = errors.New("the server redirects")

// stayOnHost follows a redirect within the server alone. Who names a server trusts that one, and this machine can
// reach others that the server cannot.
func stayOnHost(r *http.Request, via []*http.Request) error {
	first := via[0].URL
	if r.URL.Scheme != first.Scheme || r.URL.Host != first.Host {
		from, to := first.Scheme+"://"+first.Host, r.URL.Scheme+"://"+r.URL.Host
		return &Error{Code: advice.CodeFailed, Err: fmt.Errorf("%w from %s to another one, %q, which is not asked", errRedirect, from, to),
			Hint: "If you trust that server, name its URL."}
	}
	if len(via) > mostRedirects {
		return fmt.Errorf("%w in a circle", errRedirect)
	}
	return nil
}

// asked returns how long a URL asks a server to profile for.
func asked(u *url.URL) time.Duration {
	const longest = 24 * time.Hour
	seconds, err := strconv.ParseUint(u.Query().Get("seconds"), 10, 32)
	if err != nil {
		return 0
	}
	return min(time.Duration(seconds)*time.Second, longest)
}

var errSilent = fmt.Errorf("the server is silent for %v", patience)

// cutShort returns why a request has ended, if its context says so.
func cutShort(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// patient is a body that must make progress.
type patient struct {
	io.ReadCloser
	timer  *time.Timer
	cancel context.CancelCauseFunc
}

func (p *patient) Read(b []byte) (int, error) {
	n, err := p.ReadCloser.Read(b)
	p.timer.Reset(patience)
	return n, err
}

func (p *patient) Close() error {
	p.timer.Stop()
	defer p.cancel(nil)
	return p.ReadCloser.Close()
}

// dial connects to the first socket where something listens.
func (to remote) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	var d net.Dialer
	for _, socket := range to.sockets {
		conn, err := d.DialContext(ctx, "unix", socket)
		if err == nil || !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ECONNREFUSED) {
			return conn, err
		}
	}
	return nil, ErrNoDaemon
}

// explain names the server in an error, and says what to do about it.
func explain(to remote, err error) error {
	var inURL *url.Error
	if errors.As(err, &inURL) {
		err = inURL.Err // the URL of a socket says nothing
	}
	var coded *Error
	switch {
	case errors.As(err, &coded):
		return &Error{Code: coded.Code, Err: fmt.Errorf("%s: %w", to.name, coded.Err), Hint: coded.Hint}
	case errors.Is(err, ErrNoDaemon):
		hint := "Start one with 'ccmapd serve', or name its socket in CCMAPD_SOCKET."
		if strings.HasPrefix(to.name, "@") { // given in place of a file
			hint += " A file of that name is ./" + to.name + "."
		}
		return &Error{Code: advice.CodeFailed, Err: fmt.Errorf("%s: %w on %s", to.name, ErrNoDaemon, strings.Join(to.sockets, " or ")), Hint: hint}
	case errors.Is(err, fs.ErrPermission):
		return &Error{Code: advice.CodeNotPermitted, Err: fmt.Errorf("%s: %w", to.name, err),
			Hint: "The daemon's socket is for root, its own user and its group: 'usermod -a -G ccmapd USER' adds to it."}
	}
	return fmt.Errorf("%s: %w", to.name, err)
}

// Error is an error with its Code, one of those in docs/daemon.md, a Hint about the way out, and Candidates: the names
// that an ambiguous one stands for, or that are like an unknown one. Err has its text and its cause.
type Error = advice.Error

// Problem is the body of an error: application/problem+json of RFC 9457, with the code of an [Error], its hint and its
// candidates.
type Problem struct {
	Title      string      `json:"title"`
	Status     int         `json:"status"`
	Detail     string      `json:"detail,omitempty"`
	Hint       string      `json:"hint,omitempty"`
	Code       advice.Code `json:"code"`
	Candidates []string    `json:"candidates,omitempty"`
}

// ProblemType is the media type of [Problem].
const ProblemType = "application/problem+json"

// problemOf returns the error that a response tells.
func problemOf(to remote, response *http.Response) error {
	text, err := io.ReadAll(io.LimitReader(response.Body, mostProblem))
	var p Problem
	if err == nil && strings.HasPrefix(response.Header.Get("Content-Type"), ProblemType) && json.Unmarshal(text, &p) == nil && p.Code != "" {
		return &Error{Code: p.Code, Hint: p.Hint, Candidates: p.Candidates, Err: fmt.Errorf("%s: %s", to.name, p.Detail)}
	}
	code := advice.CodeFailed
	switch response.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden:
		code = advice.CodeNotPermitted
	case http.StatusNotFound:
		code = advice.CodeNoTarget
	}
	if to.token != "" && code == advice.CodeNotPermitted {
		return &Error{Code: code, Err: fmt.Errorf("%s: the hub answers %s: %.200s", to.name, response.Status, strings.TrimSpace(string(text))),
			Hint: "It takes a token that reads: 'read' in the hub's file of tokens."}
	}
	return &Error{Code: code, Err: fmt.Errorf("%s: the server answers %s", to.name, response.Status)}
}
