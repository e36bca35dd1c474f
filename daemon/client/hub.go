package client

import (
	"context"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/ccmapd/ccmapd/internal/advice"
	"github.com/ccmapd/ccmapd/internal/loopback"
)

// Hub is the way to the hub of a fleet. Any goroutine may call its methods.
type Hub struct {
	URL       string // for example https://hub.example.com:7800
	TokenFile string // of a token that may read
	CAFile    string // of certificates that vouch for the hub, in PEM; empty: those of the system
}

// hubPrefix begins the names of a hub's profiles: @hub/best:web.
const hubPrefix = "@hub/"

// mostSecret bounds the files of tokens and certificates, bytes.
const mostSecret = 1 << 20

// noHub is the error without a hub.
func noHub(name string) error {
	return &Error{Code: advice.CodeUsage, Err: fmt.Errorf("%s: no hub is known", name),
		Hint: "Name its URL in CCMAPD_HUB, and the file of a token that reads in CCMAPD_HUB_TOKEN_FILE: 'ccmapd fleet --help'."}
}

// Get decodes the JSON of a route below /v1, whose parts may have any characters. A *[]byte gets the answer as it is.
func (h Hub) Get(ctx context.Context, into any, query url.Values, parts ...string) error {
	to, err := h.remote("hub", parts...)
	if err != nil {
		return err
	}
	to.url.RawQuery, to.codings = query.Encode(), "identity"
	response, err := do(ctx, to, http.MethodGet, nil)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if err := readAnswer(response.Body, into); err != nil {
		return fmt.Errorf("read answer of the hub: %w", err)
	}
	return nil
}

// profile returns where a profile is.
func (h *Hub) profile(where, ref, event string) (remote, error) {
	if h == nil {
		return remote{}, noHub(where)
	}
	to, err := h.remote(where, "p", ref)
	if err == nil && event != "" {
		to.url.RawQuery = url.Values{"event": {event}}.Encode()
	}
	return to, err
}

// remote returns the address of a route, with the token that opens it.
func (h *Hub) remote(name string, parts ...string) (remote, error) {
	if h.URL == "" {
		return remote{}, noHub(name)
	}
	u, err := url.Parse(h.URL)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || u.User != nil {
		return remote{}, &Error{Code: advice.CodeUsage, Err: fmt.Errorf("%s: %q is no URL of a hub", name, h.URL), Hint: "Write https://HOST:PORT."}
	}
	if u.Scheme == "http" && !loopback.IsHost(u.Hostname()) {
		return remote{}, &Error{Code: advice.CodeUsage, Err: fmt.Errorf("%s: the token would cross the network in clear text to %s", name, u.Host),
			Hint: "Use https, or an SSH tunnel to a port of loopback."}
	}
	to := remote{name: name, url: u.JoinPath(route(parts...).EscapedPath()), codings: profileCodings}
	token, err := readSecret(h.TokenFile)
	if err != nil {
		return to, &Error{Code: advice.CodeNotPermitted, Err: fmt.Errorf("%s: read token of the hub: %w", name, err),
			Hint: "Name the file of a token that reads in CCMAPD_HUB_TOKEN_FILE."}
	}
	if to.token = strings.TrimSpace(string(token)); to.token == "" || strings.ContainsFunc(to.token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return to, &Error{Code: advice.CodeUsage, Err: fmt.Errorf("%s: %s has no token, which is one line", name, h.TokenFile)}
	}
	if h.CAFile == "" {
		return to, nil
	}
	pem, err := readSecret(h.CAFile)
	if err != nil {
		return to, fmt.Errorf("%s: read certificates: %w", name, err)
	}
	if to.roots = x509.NewCertPool(); !to.roots.AppendCertsFromPEM(pem) {
		return to, &Error{Code: advice.CodeUsage, Err: fmt.Errorf("%s: %s has no certificate in PEM", name, h.CAFile)}
	}
	return to, nil
}

func readSecret(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, mostSecret))
}
