package api

import (
	"errors"
	"net"
	"net/http"
	"slices"
	"strings"

	"github.com/ccmapd/ccmapd/internal/pages"
	"github.com/ccmapd/ccmapd/internal/view"
)

var (
	errForeignOrigin = &view.Error{Code: view.CodeNotPermitted, Err: errors.New("a page of another site sent the request"), Hint: "Type the address into the browser, or use curl: links and scripts of other pages are refused."}
	errForeignHost   = &view.Error{Code: view.CodeNotPermitted, Err: errors.New("the request is for another host"), Hint: "Use the address in [listen] tcp, or localhost."}
)

// ownSite refuses requests that a page of another site has a browser send, but for visits to pages, which have no
// data. Behind a web configuration it refuses these, too: a visit would try a password. Cross-Origin-Resource-Policy
// has browsers keep answers from pages of other sites.
func (s *Server) ownSite(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cross-Origin-Resource-Policy", "same-origin")
		if pages.IsForeign(r) && !(s.isPage(r) && pages.IsVisit(r)) {
			s.refuse(w, r, errForeignOrigin)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// isPage reports whether a request is for a page or a file of one.
func (s *Server) isPage(r *http.Request) bool {
	return s.options.Pages != nil && s.gate == nil && s.options.Pages.Has(r.URL.Path)
}

// page answers with a page or a file of one, which hold no data. On the socket there are no browsers.
func (c *call) page() error {
	if !c.peer.tcp {
		return errNoRoute
	}
	c.deadline()
	c.options.Pages.ServeHTTP(c.w, c.Request)
	return nil
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
