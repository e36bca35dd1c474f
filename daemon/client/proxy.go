package client

import (
	"context"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"

	"github.com/ccmapd/ccmapd/internal/advice"
	"github.com/ccmapd/ccmapd/internal/terminal"
)

// mostProxied bounds the connections to a daemon that a proxy holds: one user may have 32.
const mostProxied = 8

// answered are the headers of a daemon's answer that a proxy passes on.
var answered = []string{
	"Content-Type", "Content-Encoding", "Content-Length", "ETag", "Cache-Control", "Vary", "Location", "Retry-After", "Ask-After", "Allow",
}

// Proxy returns a handler that passes requests on to a daemon with a socket here, with the rights of this process. It
// is for a server that permits requests before: the daemon takes them for this process's own.
func (d Daemon) Proxy() http.Handler {
	to := remote{name: "daemon", sockets: (&Reader{Sockets: d.Sockets}).sockets()}
	return &httputil.ReverseProxy{
		Transport: &http.Transport{
			MaxConnsPerHost: mostProxied, DisableCompression: true, MaxResponseHeaderBytes: mostProblem, ResponseHeaderTimeout: patience,
			DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
				return to.dial(ctx, network, address)
			},
		},
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: "http", Host: host})
			r.Out.Header.Set("User-Agent", "ccmapd")
		},
		ModifyResponse: func(r *http.Response) error {
			header := make(http.Header)
			for _, name := range answered {
				if values := r.Header.Values(name); values != nil {
					header[http.CanonicalHeaderKey(name)] = values
				}
			}
			r.Header = header
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) { refuse(w, explain(to, err)) },
	}
}

// refuse answers that the daemon cannot be asked.
func refuse(w http.ResponseWriter, err error) {
	known := advice.Coded(err)
	if known == nil {
		known = &Error{Code: advice.CodeFailed, Err: err}
	}
	p := Problem{
		Title: strings.ReplaceAll(string(known.Code), "-", " "), Status: http.StatusBadGateway,
		Detail: known.Error(), Hint: known.Hint, Code: known.Code,
	}
	text, _ := terminal.LineJSON(p) // strings and a number
	w.Header().Set("Content-Type", ProblemType)
	w.WriteHeader(p.Status)
	_, _ = w.Write(append(text, '\n')) // the client may have gone
}
