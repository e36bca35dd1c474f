package daemon

import (
	"context"
	"log/slog"

	"github.com/ccmapd/ccmapd/internal/compilation"
	"github.com/ccmapd/ccmapd/internal/daemon/config"
	"github.com/ccmapd/ccmapd/internal/feedback/hotspot"
	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/internal/store"
)

// recorder keeps records of what the compilers of JVMs make of their methods, if the configuration has it so
// (feedback.record). It watches a JVM beside its session. A JVM that refuses the daemon's user is sampled all the same.
//
// The fields never change once Run has begun.
type recorder struct {
	config func() *config.Config
	log    *slog.Logger
	append func(store.Key, ...compilation.Record) error // nil: nothing is kept
	watch  func(ctx context.Context, pid int, c *hotspot.Compilations) error
}

func newRecorder(c func() *config.Config, log *slog.Logger) *recorder {
	return &recorder{config: c, log: log, watch: func(ctx context.Context, pid int, c *hotspot.Compilations) error { return c.Watch(ctx, pid) }}
}

// record watches the JVM of a session, if it is one, until the function that it returns is called.
func (r *recorder) record(ctx context.Context, s *session) (end func()) {
	pattern := r.config().Feedback.Record
	if pattern == "" || r.append == nil || s.follower.hasNoProcess() || !hotspot.Runs(s.Info().Target) {
		return func() {}
	}
	ctx, stop := context.WithCancel(ctx)
	identity := s.follower.identity
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := r.follow(ctx, s, identity, pattern); err != nil && ctx.Err() == nil {
			r.log.Warn("compilations are not recorded", "target", s.follower.Name, s.follower.attr(s.follower.facts.PID), "error", err)
		}
	}()
	return func() { stop(); <-ended }
}

// follow watches until ctx is done, or the JVM has ended.
func (r *recorder) follow(ctx context.Context, s *session, identity process.Identity, pattern string) error {
	f := s.follower
	pin, err := f.host.Pin(f.facts.PID)
	if err != nil {
		return err
	}
	defer pin.Close()
	if err := f.isStill(identity); err != nil {
		return err
	}
	failed := false
	return r.watch(ctx, f.facts.PID, &hotspot.Compilations{Pattern: pattern, Record: func(records []compilation.Record) {
		err := r.append(f.shelf.keyOf(s, f.Name), records...)
		if err != nil && !failed {
			r.log.Error("cannot keep compile records", "target", f.Name, "error", err)
		}
		failed = err != nil
	}})
}

// keyOf returns what the records of a session are found by.
func (h *shelf) keyOf(s *session, name string) store.Key {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.knowBuild(s.slot)
	return store.Key{Target: name, Build: s.slot.build, Owner: s.slot.owner}
}
