package client

import (
	"crypto/x509"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ccmapd/ccmapd/internal/advice"
)

// Stdin is the name of standard input.
const Stdin = "-"

// IsRemote reports whether a name is not of a file here, but of a profile that a server has.
func IsRemote(where string) bool {
	return slices.ContainsFunc([]string{"@", unixScheme, "http://", "https://"}, func(prefix string) bool {
		return strings.HasPrefix(where, prefix)
	})
}

const (
	unixScheme = "unix:"

	// host stands in the URL of a request to a socket, where it means nothing.
	host = "ccmapd"
)

// remote is the address of a profile that a server has.
type remote struct {
	name    string
	sockets []string // the first that answers is asked; nil: the URL has a host
	url     *url.URL
	codings string // that are accepted

	token string         // that opens it; empty: none
	roots *x509.CertPool // that vouch for it; nil: those of the system
}

// profileCodings are the codings that package export undoes.
const profileCodings = "zstd, gzip"

// parse takes a name apart. Sockets are those to try for @REF.
func parse(where string, sockets []string) (remote, error) {
	if ref, ok := strings.CutPrefix(where, "@"); ok {
		return ofDaemon(where, ref, sockets)
	}
	if rest, ok := strings.CutPrefix(where, unixScheme); ok {
		path, ref, found := strings.Cut(rest, "#")
		if !found || path == "" {
			return remote{}, wrongName(where, "write unix:PATH#REF, for example unix:/run/ccmapd/ccmapd.sock#web")
		}
		return ofDaemon(where, ref, []string{path})
	}
	u, err := url.Parse(where)
	if err != nil || u.Host == "" {
		return remote{}, wrongName(where, "write http://HOST/PATH")
	}
	return remote{name: u.Redacted(), url: u, codings: profileCodings}, nil
}

func ofDaemon(where, ref string, sockets []string) (remote, error) {
	if ref == "" {
		return remote{}, wrongName(where, "name a target after it, for example @web: 'ccmapd targets' lists them")
	}
	return remote{name: where, sockets: sockets, url: route("p", FullRef(ref), "map"), codings: profileCodings}, nil
}

// route returns the URL of a route, whose parts may have any characters.
func route(parts ...string) *url.URL {
	return (&url.URL{Scheme: "http", Host: host}).JoinPath(slices.Concat([]string{"v1"}, escaped(parts))...)
}

func escaped(parts []string) []string {
	all := slices.Clone(parts)
	for i, part := range all {
		all[i] = url.PathEscape(part)
	}
	return all
}

// kinds are the kinds of references to profiles of a daemon, or of a program that shows files.
var kinds = []string{"live", "best", "recent", "period", "build", "span", "up", "file"}

// FullRef returns a reference with its kind: NAME alone is the live profile of a target. Those of a hub have theirs.
func FullRef(ref string) string {
	if strings.HasPrefix(ref, hubPrefix) {
		return ref
	}
	if kind, _, found := strings.Cut(ref, ":"); found && slices.Contains(kinds, kind) {
		return ref
	}
	return "live:" + ref
}

func wrongName(where, want string) error {
	return &Error{Code: advice.CodeUsage, Err: fmt.Errorf("%q names no profile: %s", where, want)}
}

// Sockets returns where a daemon may listen: $CCMAPD_SOCKET alone, if it is set, or else the
// user's own daemon before the machine's.
func Sockets() []string {
	if socket := os.Getenv("CCMAPD_SOCKET"); socket != "" {
		return []string{socket}
	}
	sockets := []string{"/run/ccmapd/ccmapd.sock"}
	if dir := os.Getenv("XDG_RUNTIME_DIR"); dir != "" {
		sockets = slices.Insert(sockets, 0, filepath.Join(dir, "ccmapd.sock"))
	}
	return sockets
}
