package api

import (
	"os/user"
	"strconv"

	"github.com/ccmapd/ccmapd/internal/audit"
)

// auditBurst is how many lines of the log a peer may cause at once by what it does.
const auditBurst = 20

// newAudit returns the log of what peers do. Clients are told apart by [peer.name].
func newAudit(o Options) *audit.Log { return audit.New(o.Logger, auditBurst) }

// note logs what the peer of a request has done, and who the peer is.
func (c *call) note(what string, args ...any) {
	c.audit.Info(c.peer.name(), what, append(args, c.peer.identity()...)...)
}

// identity returns who a peer is, for the log. The kernel says it as of the connect, in this process's
// namespaces: the process may have ended since, and its number be another's.
func (p peer) identity() []any {
	if p.tcp {
		return []any{"client", p.name(), "host", p.host}
	}
	id := strconv.FormatUint(uint64(p.uid), 10)
	all := []any{"uid", p.uid, "gid", p.gid, "client", p.pid}
	if account, err := user.LookupId(id); err == nil {
		all = append(all, "user", account.Username)
	}
	return all
}
