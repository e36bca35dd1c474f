package pages

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// IsForeign reports whether a page of another site has had a request sent. Browsers say in Sec-Fetch-Site
// where a request comes from, and a page cannot change that (Fetch Metadata of the W3C): same-site is
// another port of this host, say; none is the user. Older browsers have Origin alone, and clients that are no
// browsers have neither.
func IsForeign(r *http.Request) bool {
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

// IsVisit reports whether a browser opens a page for the user, perhaps by a link of another site: not in a frame, and
// not for a script.
func IsVisit(r *http.Request) bool {
	return (r.Method == http.MethodGet || r.Method == http.MethodHead) &&
		r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document"
}
