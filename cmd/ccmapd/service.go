package main

import (
	"log/slog"
	"os"
	"os/signal"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/ccmapd/ccmapd/cmd/internal/systemd"
	"github.com/ccmapd/ccmapd/internal/daemon"
	"github.com/ccmapd/ccmapd/internal/figure"
)

// service tells the manager of services how the daemon is.
type service struct {
	notifier systemd.Notifier
	log      *slog.Logger
	begun    sync.Once
	daemon   *daemon.Daemon
}

// turn tells that the daemon has looked for processes, and no session is stuck.
func (s *service) turn() {
	s.begun.Do(s.ready)
	s.warn(s.notifier.Alive())
}

func (s *service) ready() {
	status := "Configured: " + figure.Plural(int64(len(s.daemon.Config().Targets)), "target") + "."
	if s.daemon.LastReload() != nil {
		status = "The last reload was refused: the log has the reason."
	}
	s.warn(s.notifier.Ready(status))
}

func (s *service) stopping(cause error) {
	s.log.Info("the daemon stops", "cause", cause)
	s.warn(s.notifier.Stopping())
}

func (s *service) warn(err error) {
	if err != nil {
		s.log.Warn("cannot reach the service manager", "error", err)
	}
}

// reloadAtHangup loads the configuration again at each SIGHUP, until the result is called.
func (s *service) reloadAtHangup() (stop func()) {
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, unix.SIGHUP)
	var all sync.WaitGroup
	all.Go(func() {
		for range hangups {
			s.log.Info("a signal reloads the configuration", "signal", "SIGHUP")
			s.warn(s.notifier.Reloading())
			s.daemon.Reload() // logs its error
			s.ready()
		}
	})
	return func() {
		signal.Stop(hangups)
		close(hangups)
		all.Wait()
	}
}
