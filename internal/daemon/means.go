package daemon

import (
	"cmp"
	"log/slog"
	"strconv"

	"github.com/ccmapd/ccmapd/internal/audit"
	"github.com/ccmapd/ccmapd/internal/daemon/config"
	"github.com/ccmapd/ccmapd/internal/store"
	"github.com/ccmapd/ccmapd/internal/supervise"
	"github.com/ccmapd/ccmapd/sampler/engine"
)

// means is what all targets sample with. It never changes once Run has begun, and what it points to locks itself.
type means struct {
	log     *slog.Logger
	details *slog.Logger // of sessions
	audit   *audit.Log   // of what processes do, by their owners
	events  *hub
	config  func() *config.Config // in force
	hold    func(pid int, s config.Settings) config.Settings
	host    host
	gate    *supervise.Gate
	engines []engine.Engine
	// endpoint is one of the engines, unless they are the caller's.
	endpoint   engine.Engine
	unreadable engine.Unreadable
	// openWhole opens the source of the whole host. Nil: no engine can.
	openWhole func(engine.WholeOptions) (engine.Source, error)
	// hasMemory reports whether there is memory for the symbols of another program of the whole host.
	hasMemory  func() bool
	controller *controller
	recorder   *recorder
	archive    *store.Reader // of what is stored; nil: nothing is
	learner    *learner
	tellFiled  func() // is told that a period was filed
	users      bool   // may see the samples of their own processes: listen.open, as it was at the start
}

// note logs that a session begins or ends. The name of the program is foreign.
func (m *means) note(s *session, what string, args ...any) {
	f, info := s.follower, s.Info()
	all := []any{"target", f.aim.Name, f.attr(f.facts.PID)}
	if !f.hasNoProcess() {
		all = append(all, "uid", f.facts.UID, "executable", cmp.Or(f.facts.Executable, info.Target.Executable))
	}
	all = append(all, "engine", info.Engine)
	m.audit.Info("processes of "+strconv.Itoa(f.facts.UID), what, append(all, args...)...)
}
