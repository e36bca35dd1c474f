package hub

import (
	"net"
	"net/http"

	"github.com/ccmapd/ccmapd/internal/contribution"
	"github.com/ccmapd/ccmapd/internal/fleet"
)

// The log has a line of each write, deletion and refused token. Tokens are named by the first digits of their SHA-256,
// as the hub's file has them; of an unknown one nothing is written: it may be a password that was mistyped.

// auditBurst is how many lines an instance, or a host without a right, may cause at once.
const auditBurst = 20

func hostOf(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

func (h *Hub) auditWrite(r *http.Request, t token, f contribution.Frame, fresh bool) {
	k := f.Key
	h.audit.Info("instance "+k.Instance, "took a contribution", "target", k.Target, "build", k.Build, "instance", k.Instance,
		"epoch", k.Epoch, "seq", k.Seq, "bytes", len(f.Bytes), "known", !fresh, "token", t.id, "host", hostOf(r))
}

// auditDeletion leaves no line out: deletions are few, and their token is trusted with them.
func (h *Hub) auditDeletion(r *http.Request, t token, b fleet.Build) {
	h.Logger.Warn("deleted a build", "target", b.Target, "build", b.Build, "unit", b.Unit, "samples", b.Samples, "token", t.id, "host", hostOf(r))
}

func (h *Hub) auditRefusal(r *http.Request, t token, why *refusal) {
	args := []any{"method", r.Method, "path", r.URL.Path, "status", why.status, "host", hostOf(r)}
	if t.id != "" {
		args = append(args, "token", t.id)
	}
	h.audit.Info("host "+hostOf(r), "refused a token", args...)
}
