package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/ccmapd/ccmapd/cmd/ccmapd/internal/session"
	"github.com/ccmapd/ccmapd/cmd/internal/signals"
	"github.com/ccmapd/ccmapd/cmd/internal/usage"
	"github.com/ccmapd/ccmapd/internal/terminal"
	"github.com/ccmapd/ccmapd/manager"
)

const attachLong = `Attach samples a running Go program or JVM from outside, until --duration is over, the
profile is settled to --until, the program ends or ccmapd is interrupted. It then
writes the profile and prints the hottest methods; after a second interrupt it does not.

A NAME names the process or its executable; if it names several, they are listed, and none
is sampled. A URL is a program that serves its profiles, by pprof or of VMs: they add up.
docs/sampling.md explains all flags, docs/permissions.md the rights that it takes.`

const attachExample = `  ccmapd attach 4242                         until Ctrl-C, into ccmapd-4242.pb.gz
  ccmapd attach web --children -o web.pb.gz  by its name, with its child processes
  ccmapd attach --match 'web.* -addr :8080'  by its command line
  ccmapd attach --daemon web                 by 'ccmapd serve', until the program ends
  ccmapd attach 4242 --open                  its flame graph in the browser meanwhile
  ccmapd attach 4242 --until 95% -d 10m      until hot edges have settled to 95 %
  ccmapd attach https://web:6060/debug/pprof --bearer-file token -d 5m -o web.pb.gz`

func newAttachCmd(env *environment) subcommand {
	f, match, server := newSamplingFlags(env.engines), "", serverFlags{}
	var live, byDaemon bool
	cmd := &cobra.Command{
		Use:     "attach PID|NAME|URL",
		Short:   "Sample a running Go program or JVM",
		Long:    attachLong,
		Example: attachExample,
		GroupID: groupSample,
		Args: func(cmd *cobra.Command, args []string) error {
			if match != "" {
				return argCount(0, 0, "no process beside --match")(cmd, args)
			}
			return argCount(1, 1, "one process id, name or URL")(cmd, args)
		},

		ValidArgsFunction: cobra.NoFileCompletions,

		RunE: func(cmd *cobra.Command, args []string) error {
			if live && terminal.Width(env.stdout) == 0 {
				return explainTerminal(terminal.ErrNoTerminal)
			}
			if len(args) > 0 && isURL(args[0]) {
				if f.children {
					return usage.Errorf("--%s is for processes on this machine", childrenFlag)
				}
				return attachURL(cmd, env, f, server, args[0], live)
			}
			if err := server.refuse(cmd); err != nil {
				return err
			}
			p, err := findProcess(args, match)
			if err != nil {
				return err
			}
			defer p.close()
			if byDaemon {
				return attachByDaemon(cmd, env.stdout, p.pid)
			}
			env, err := f.apart(env)
			if err != nil {
				return err
			}
			one, err := env.sampledBy(f, p.pid)
			if err != nil {
				return err
			}
			defer one.close()
			return runAttach(cmd.Context(), env, one.config, live, func(ctx context.Context) session.Opener { return p.checked(one.opener(ctx)) })
		},
	}
	f.register(cmd)
	server.register(cmd)
	registerOpen(cmd)
	cmd.Flags().StringVar(&match, "match", "", "attach to the process whose command line has a match of `REGEXP`")
	cmd.Flags().BoolVar(&live, "live", false, "show the hottest methods, redrawn once a second: see 'ccmapd top --help'")
	cmd.Flags().BoolVar(&byDaemon, daemonFlag, false, "have the daemon sample the process, as its configuration says")
	cmd.MarkFlagsMutuallyExclusive("live", daemonFlag, childrenFlag)
	cmd.MarkFlagsMutuallyExclusive(openFlag, daemonFlag)
	check := cmd.PreRunE
	cmd.PreRunE = func(cmd *cobra.Command, args []string) error {
		if byDaemon { // the flags of sampling are refused later, and the daemon writes the outputs
			return nil
		}
		return check(cmd, args)
	}
	return subcommand{cmd, withPage(attaching(isURL))}
}

// runAttach samples by the source that opener opens.
func runAttach(ctx context.Context, env *environment, c session.Config, live bool, opener func(context.Context) session.Opener) error {
	ctx, stop := signals.UntilInterrupted(ctx)
	defer stop()
	restore := signals.SurvivePipes()
	defer restore()
	s, err := session.Open(c, opener(ctx))
	if err != nil {
		return err
	}
	env.showPage(s)
	s.Announce(env.stderr, "Ctrl-C ends it.")
	var r manager.Report
	if live {
		r, err = runLive(ctx, env, s)
	} else {
		r, err = s.Run(ctx, env.stderr, terminal.AboveLive(env.stderr))
	}
	restore()
	s.Warn(env.stderr, r)
	err = errors.Join(err, s.Report(env.stdout, r))
	stop()
	env.keepPage()
	return err
}
