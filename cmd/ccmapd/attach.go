package main

import (
	"context"
	"errors"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/ccmapd/ccmapd/internal/session"
	"github.com/ccmapd/ccmapd/internal/signals"
	"github.com/ccmapd/ccmapd/internal/terminal"
	"github.com/ccmapd/ccmapd/internal/usage"
)

const attachLong = `Attach samples a running Go program from outside, until --duration is over, the
profile is settled to --until, the program ends or ccmapd is interrupted. It then
writes the profile and prints the hottest methods. A second interrupt ends ccmapd
at once, and nothing is written.

docs/sampling.md explains the interval and all flags, docs/permissions.md the rights
that it takes: for a program of your own, kernel.perf_event_paranoid of 2 or less.`

const attachExample = `  ccmapd attach 4242                         until Ctrl-C, into ccmapd-4242.pb.gz
  ccmapd attach $(pidof web) -d 30s -o web.pb.gz
  ccmapd attach 4242 -o web.pb.gz -o web.xml.zst -o web.folded
  ccmapd attach 4242 --until 95% -d 10m      until hot edges have settled to 95 %
  ccmapd attach 4242 --max-memory 16MiB --window 5m
                                             for weeks, in bounded memory
  ccmapd attach 4242 -i 20ms --tune=false    every 20 ms of CPU time, come what may
  ccmapd attach 4242 --hits 1000 -d 1m -o web.json && ccmapd receivers web.json
                                             which types calls reach, for 1.6 % of
                                             one core instead of 0.4 %
  ccmapd attach 4242 -d 1m --json | jq .profile.samples`

func newAttachCmd(env *environment) *cobra.Command {
	f := newSamplingFlags(env.engines)
	cmd := &cobra.Command{
		Use:     "attach PID",
		Short:   "Sample a running Go program",
		Long:    attachLong,
		Example: attachExample,
		GroupID: groupSample,
		Args:    argCount(1, 1, "one process id"),

		ValidArgsFunction: cobra.NoFileCompletions,

		RunE: func(cmd *cobra.Command, args []string) error {
			pid, err := strconv.Atoi(args[0])
			if err != nil || pid <= 0 {
				return withHint(usage.Errorf("%q is not a process id", args[0]), "'pgrep -l NAME' finds it.")
			}
			env, err := f.apart(env)
			if err != nil {
				return err
			}
			return runAttach(cmd.Context(), env, f, pid)
		},
	}
	f.register(cmd)
	return cmd
}

func runAttach(ctx context.Context, env *environment, f *samplingFlags, pid int) error {
	ctx, stop := signals.UntilInterrupted(ctx)
	defer stop()
	restore := signals.SurvivePipes()
	defer restore()
	s, err := session.Open(f.config(env), env.toProcess(ctx, f, pid))
	if err != nil {
		return err
	}
	s.Announce(env.stderr, "Ctrl-C ends it.")
	r, err := s.Run(ctx, env.stderr, terminal.AboveLive(env.stderr))
	restore()
	return errors.Join(err, s.Report(env.stdout, r))
}
