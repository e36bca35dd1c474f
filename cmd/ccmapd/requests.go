package main

import (
	"context"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ccmapd/ccmapd/cmd/ccmapd/internal/session"
	"github.com/ccmapd/ccmapd/cmd/internal/signals"
	"github.com/ccmapd/ccmapd/cmd/internal/usage"
	"github.com/ccmapd/ccmapd/internal/terminal"
	"github.com/ccmapd/ccmapd/internal/view"
	"github.com/ccmapd/ccmapd/sampler/engine"
)

// defaultOfRequests is how long a process is sampled for its requests.
const defaultOfRequests = 10 * time.Second

// ofProcesses lets the first argument of a question be a process. It is sampled first, for what its goroutines do.
func (a *asking) ofProcesses(env *environment) subcommand {
	f := newSamplingFlags(env.engines)
	f.event.Value, f.interval, f.duration = engine.Wall.Kind(), waitInterval, defaultOfRequests
	flags := a.Flags()
	flags.DurationVarP(&f.duration, "duration", "d", f.duration, "sample a process for `TIME`; 0: until Ctrl-C")
	flags.DurationVarP(&f.interval, "interval", "i", f.interval, "`TIME` between two looks at its goroutines")
	flags.StringArrayVar(&f.under, underFlag, nil, "`FUNCTION` of the process that answers requests, too; may be repeated")
	var event string
	flags.StringVar(&event, "event", f.event.Value, "read this `EVENT` of a daemon's target or stored profiles: wait or wall")
	file := a.subcommand()
	check := a.RunE
	a.RunE = func(cmd *cobra.Command, args []string) error {
		if isProcess(args[0]) {
			return a.ofProcess(cmd, env, f, args)
		}
		for _, name := range []string{"duration", "interval", underFlag} {
			if cmd.Flags().Changed(name) {
				return withHint(usage.Errorf("--%s is for processes, and %s is a profile", name, args[0]), "'ccmapd attach' takes it, too.")
			}
		}
		return check(cmd, args)
	}
	return subcommand{a.Command, func(env *environment, cmd *cobra.Command, args []string) error {
		if len(args) > 0 && isProcess(args[0]) {
			return attaching(nil)(env, cmd, args)
		}
		return file.rights(env, cmd, args)
	}}
}

// isProcess reports whether an argument is a number, or a word that can name no profile, because there is no such file.
func isProcess(arg string) bool {
	if arg == "" || strings.ContainsAny(arg, "@:/.") || strings.Trim(arg, "-") == "" {
		return false
	}
	_, err := os.Stat(arg)
	return err != nil
}

// ofProcess samples a process, and asks the question about that.
func (a *asking) ofProcess(cmd *cobra.Command, env *environment, f *samplingFlags, args []string) error {
	switch {
	case f.duration < 0:
		return usage.Errorf("--duration %v is negative", f.duration)
	case f.interval <= 0:
		return usage.Errorf("--interval %v is not positive", f.interval)
	}
	if err := a.params.setParams(); err != nil {
		return err
	}
	about, _, err := a.about(args)
	if err != nil {
		return err
	}
	p, err := sampleProcess(cmd.Context(), env, f, args[0])
	if err != nil {
		return err
	}
	about.Profiles = []*view.Profile{p}
	return a.answer(env, about)
}

// sampleProcess samples a process, and returns the profile. It writes none.
func sampleProcess(ctx context.Context, env *environment, f *samplingFlags, name string) (*view.Profile, error) {
	of, err := findProcess([]string{name}, "")
	if err != nil {
		return nil, err
	}
	defer of.close()
	one, err := env.sampledBy(f, of.pid)
	if err != nil {
		return nil, err
	}
	defer one.close()
	ctx, stop := signals.UntilInterrupted(ctx)
	defer stop()
	s, err := session.Open(one.config, of.checked(one.opener(ctx)))
	if err != nil {
		return nil, err
	}
	s.Announce(env.stderr, "Ctrl-C ends it.")
	r, err := s.Run(ctx, env.stderr, terminal.AboveLive(env.stderr))
	if err != nil {
		return nil, err
	}
	s.Warn(env.stderr, r)
	p := view.New(s.Name(), r.Snapshot)
	p.Hints = hints
	return p, nil
}
