package api

import (
	"errors"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/ccmapd/ccmapd/view"
)

var (
	errForeignOrigin = &view.Error{Code: view.CodeNotPermitted, Err: errors.New("a page of another site sent the request"), Hint: "Type the address into the browser, or use curl: links and scripts of other pages are refused."}
	errForeignHost   = &view.Error{Code: view.CodeNotPermitted, Err: errors.New("the request is for another host"), Hint: "Use the address in [listen] tcp, or localhost."}
)

// ownSite refuses requests that a page of another site has a browser send. This holds for every route: each
// answers data, and none answers a page to which another site may link. Cross-Origin-Resource-Policy has
// browsers keep answers from pages of other sites.
func (s *Server) ownSite(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cross-Origin-Resource-Policy", "same-origin")
		if isForeign(r) {
			s.refuse(w, r, errForeignOrigin)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// isForeign reports whether a page of another site has had a request sent. Browsers say in Sec-Fetch-Site
// where a request comes from, and a page cannot change that (Fetch Metadata of the W3C): same-site is
// another port of this host, say; none is the user. Older browsers have Origin alone, and clients that are no
// browsers have neither.
func isForeign(r *http.Request) bool {
	for _, site := range r.Header.Values("Sec-Fetch-Site") {
		if site != "same-origin" && site != "none" {
			return true
		}
	}
	if r.Header.Get("Sec-Fetch-Site") == "same-origin" { // a proxy may have changed Host
		return false
	}
	return slices.ContainsFunc(r.Header.Values("Origin"), func(origin string) bool {
		u, err := url.Parse(origin)
		return err != nil || u.Host == "" || !strings.EqualFold(u.Host, r.Host)
	})
}

// ownHost refuses requests for another host. A page of another site may have its name lead to loopback,
// but not change the Host that a browser sends. A browser shows such a page no name and password of the
// server's, so users are of no other site.
func (s *Server) ownHost(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if peer := peerOf(r.Context()); peer.tcp && peer.user == "" && !s.isHost(r.Host) {
			s.refuse(w, r, errForeignHost)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// isHost reports whether a host is this server.
func (s *Server) isHost(host string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = host
	}
	configured, _, _ := net.SplitHostPort(s.options.TCP)
	return slices.Contains([]string{"localhost", "127.0.0.1", "::1", strings.ToLower(configured)}, strings.ToLower(strings.Trim(name, "[]")))
}
