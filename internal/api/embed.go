package api

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"slices"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/daemon"
)

// Session is that of the public package, daemon/api.
type Session interface {
	// Snapshot returns a profile at once.
	Snapshot() *ccmap.Snapshot

	// Fresh returns the profile of a moment after the call.
	Fresh(context.Context) (*ccmap.Snapshot, error)
}

// Handler is that of the public package, daemon/api, which lists the duties of its caller.
func Handler(sessions map[string]Session) http.Handler {
	s := makeServer(hosted(sessions), Options{Logger: slog.New(slog.DiscardHandler)})
	s.embedded = true
	return s.toReaders(readingRoutes())
}

// toReaders answers routes to whoever asks.
func (s *Server) toReaders(routes []route) http.Handler {
	mux := http.NewServeMux()
	for _, r := range routes {
		mux.Handle(r.pattern, s.route(r.needs, r.answer))
	}
	mux.Handle("/", s.route(anybody, func(c *call) error { return c.unknown(mux) }))
	own := s.ownSite(mux)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		own.ServeHTTP(w, r.WithContext(withPeer(r.Context(), peer{known: true, tcp: true, reads: true})))
	})
}

// hosted are the sessions of this process, by name.
type hosted map[string]Session

func (h hosted) Targets() []daemon.TargetStatus {
	all := make([]daemon.TargetStatus, 0, len(h))
	for _, name := range slices.Sorted(maps.Keys(h)) {
		all = append(all, hostedStatus(name, h[name].Snapshot()))
	}
	return all
}

// hostedStatus describes a session as far as its profile does.
func hostedStatus(name string, s *ccmap.Snapshot) daemon.TargetStatus {
	meta, state := s.Meta(), daemon.Sampling
	if meta.Ended != "" {
		state = daemon.Ended
	}
	figures := figuresOf(s)
	return daemon.TargetStatus{
		Name: name, Rule: fmt.Sprintf("hosted by process %d", os.Getpid()), State: state, Reason: meta.Ended, Hosted: true, Status: figures,
		Processes: []daemon.ProcessStatus{{
			PID: os.Getpid(), Start: meta.Start, Exe: meta.Target.Executable, BuildID: meta.Target.BuildID, Runtime: meta.Target.Runtime,
			Engine: meta.Engine, Since: meta.Start, State: state, Status: figures,
		}},
	}
}

// figuresOf returns the figures that a profile has.
func figuresOf(s *ccmap.Snapshot) daemon.Figures {
	meta, total := s.Meta(), s.Total()
	f := daemon.Figures{
		ElapsedNS: int64(meta.Duration), Samples: uint64(total.Samples), SampledNS: total.Time, Known: meta.Known, Repeated: meta.Repeated,
		LostSource: meta.Loss.Source, LostQueue: meta.Loss.Queue, LostCorrupt: meta.Loss.Corrupt, Orphaned: meta.Loss.Orphaned, Throttled: meta.Loss.Throttled,
		Nodes: s.Len(), PrunedTimes: meta.Pruned.Times, PrunedNodes: meta.Pruned.Nodes,
		Settled: daemon.Settled{Methods: meta.Settled.Methods, Edges: meta.Settled.Edges, Contexts: meta.Settled.Contexts},
	}
	if n := len(meta.Interval); n > 0 {
		f.IntervalNS = int64(meta.Interval[n-1].Interval)
	}
	return f
}

func (h hosted) Target(name string) (daemon.TargetStatus, error) {
	session, ok := h[name]
	if !ok {
		return daemon.TargetStatus{}, daemon.ErrNoTarget
	}
	return hostedStatus(name, session.Snapshot()), nil
}

func (h hosted) Snapshot(ctx context.Context, target string, _ int) (*ccmap.Snapshot, error) {
	session, ok := h[target]
	if !ok {
		return nil, daemon.ErrNoTarget
	}
	return session.Fresh(ctx)
}
