package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"sync"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/ccmapd/ccmapd/cmd/internal/signals"
	"github.com/ccmapd/ccmapd/cmd/internal/systemd"
	"github.com/ccmapd/ccmapd/internal/api"
	"github.com/ccmapd/ccmapd/internal/daemon"
	"github.com/ccmapd/ccmapd/internal/daemon/config"
	"github.com/ccmapd/ccmapd/internal/figure"
	"github.com/ccmapd/ccmapd/sampler/engine"
)

const serveLong = `Serve keeps the processes of many targets under profile, through their restarts, and
answers on a socket while it samples. A target is a name and a rule: see
packaging/ccmapd.toml. Without a file it has the targets alone that
'ccmapd attach --daemon PID' adds, and works for an ordinary user.

SIGHUP loads the file again: unchanged targets go on undisturbed, and a file with an
error changes nothing. SIGTERM ends all sessions; with files = true in [store] the next
daemon goes on with all that was counted. The log, on standard error, says who has
attached to what, which processes are sampled, and how that ends. docs/daemon.md explains
targets, states, files and the log.`

const serveExample = `  ccmapd serve --config /etc/ccmapd/ccmapd.toml
  ccmapd serve --check --config ccmapd.toml      what would be sampled now
  ccmapd serve & ccmapd attach --daemon 4242 && ccmapd targets`

// serveFlags are the flags of serve.
type serveFlags struct {
	file           string
	check, verbose bool
}

func newServeCmd(env *environment) subcommand {
	var f serveFlags
	cmd := &cobra.Command{
		Use:     "serve",
		Short:   "Sample many programs, for months",
		Long:    serveLong,
		Example: serveExample,
		GroupID: groupServe,
		Args:    argCount(0, 0, "no arguments"),
		RunE:    func(cmd *cobra.Command, _ []string) error { return runServe(cmd.Context(), env, f) },
	}
	cmd.Flags().StringVarP(&f.file, "config", "c", "", "configuration `FILE`, in TOML")
	cmd.Flags().BoolVar(&f.check, "check", false, "check the file, print what would be sampled, and end")
	cmd.Flags().BoolVarP(&f.verbose, "verbose", "v", false, "log changes of intervals and more of each session")
	return subcommand{cmd, sampling}
}

// load reads the configuration. A daemon without a file is its user's own, and needs no group.
func (f serveFlags) load() (*config.Config, error) {
	if f.file != "" {
		return config.Load(f.file)
	}
	c := config.Default()
	c.Listen.Group = ""
	return c, nil
}

// inBounds returns the engines for the daemon's reports of doctor: users choose the processes, whose own
// profiles must not take more memory than those of targets.
func inBounds(all []engine.Engine, d *daemon.Daemon) []engine.Engine {
	all = slices.Clone(all)
	if i := slices.IndexFunc(all, func(e engine.Engine) bool { return e.Name == engine.PProfHTTP }); i >= 0 {
		all[i] = d.Endpoint()
	}
	return all
}

func runServe(ctx context.Context, env *environment, f serveFlags) error {
	log, details := f.logs(env.stderr)
	wakePromptly(log)
	tell := &service{notifier: systemd.NewNotifier(), log: log}
	d, err := daemon.New(daemon.Options{Load: f.load, Hold: env.holdServed, Logger: log, Details: details, Turn: tell.turn})
	if err != nil {
		return err
	}
	tell.daemon = d
	listen := d.Config().Listen
	sockets, err := systemd.Listeners()
	if err != nil {
		return err
	}
	shell, err := env.shell()
	if err != nil {
		return err
	}
	server, err := api.New(api.Options{
		Pages: shell, Fleet: pagesOfDaemon(d.Config),
		Daemon: d, Version: buildVersion(), Engines: inBounds(env.engines, d), Logger: log, Spent: d.Spent,
		Memory: d.Config().Budget.Memory, CPU: d.Config().Budget.CPU,
		Socket: listen.Socket, Opened: sockets, Open: listen.Open, Group: listen.Group, TCP: listen.TCP, WebConfig: listen.WebConfig,
		FullMetrics: listen.Metrics == config.FullMetrics,
	})
	if err != nil {
		return err
	}
	if f.check {
		return printCandidates(env.stdout, d)
	}
	if err := d.OpenStore(); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(ctx, unix.SIGINT, unix.SIGTERM)
	told := make(chan struct{})
	context.AfterFunc(ctx, func() { // a second one ends ccmapd at once
		defer close(told)
		cause := context.Cause(ctx)
		stop()
		tell.stopping(cause)
	})
	defer func() { stop(); <-told }()
	defer signals.SurvivePipes()()
	defer tell.reloadAtHangup()()
	if err := server.Listen(); err != nil {
		return err
	}
	where := listen.Socket
	if len(sockets) > 0 {
		where = sockets[0].Addr().String()
	}
	if at := server.Addr(); at != nil {
		where += " and " + at.String()
	}
	fmt.Fprintf(env.stderr, "Listening on %s, %s.\n", where, figure.Plural(int64(len(d.Config().Targets)), "target"))
	log.Info("the daemon has started", "version", buildVersion(), "pid", os.Getpid(), "uid", os.Geteuid(), "listens", where,
		"open", listen.Open, "group", listen.Group, "targets", len(d.Config().Targets))
	if err := runBoth(ctx, d.Run, server.Serve); err != nil {
		return err
	}
	log.Info("the daemon has stopped, and all sessions have ended")
	return nil
}

// logs returns the log of the daemon, and the one of single sessions, which has only warnings unless the user
// wants more. A string that is not printable is quoted by both.
func (f serveFlags) logs(w io.Writer) (log, details *slog.Logger) {
	log = slog.New(slog.NewTextHandler(w, nil))
	if f.verbose {
		return log, log
	}
	return log, slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// runBoth runs two services until ctx is done or one of them fails.
func runBoth(ctx context.Context, services ...func(context.Context) error) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	errs := make([]error, len(services))
	var all sync.WaitGroup
	for i, run := range services {
		all.Go(func() {
			defer end()
			errs[i] = run(ctx)
		})
	}
	all.Wait()
	return errors.Join(errs...)
}
