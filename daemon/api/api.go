// Package api lets a program that hosts VMs answer HTTP requests about them, by the routes of a daemon that read.
// docs/daemon.md has the routes, docs/embedding-a-vm.md more about such programs.
package api

import (
	"context"
	"net/http"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/api"
)

// Session has the profile of code that a program runs and samples itself. [manager.Session] is one. Any goroutine may
// call its methods.
type Session interface {
	// Snapshot returns a profile at once.
	Snapshot() *ccmap.Snapshot

	// Fresh returns the profile of a moment after the call.
	Fresh(context.Context) (*ccmap.Snapshot, error)
}

// Handler returns the routes below /v1 that read, for a program that hosts VMs: each of its sessions is a target of its
// name. A daemon can follow the program by the URL below which the routes are. Requests that a page of another origin
// has a browser send are refused, by Sec-Fetch-Site and Origin. The program has to permit requests, to check their Host,
// and to bound connections and times, as for its other handlers. The sessions must not change any more.
func Handler(sessions map[string]Session) http.Handler {
	hosted := make(map[string]api.Session, len(sessions))
	for name, s := range sessions {
		hosted[name] = s
	}
	return api.Handler(hosted)
}
