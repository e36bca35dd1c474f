package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ccmapd/ccmapd/ccmap/query"
	"github.com/ccmapd/ccmapd/cmd/ccmapd/internal/demo"
	"github.com/ccmapd/ccmapd/cmd/ccmapd/internal/session"
	"github.com/ccmapd/ccmapd/cmd/internal/signals"
	"github.com/ccmapd/ccmapd/cmd/internal/usage"
	"github.com/ccmapd/ccmapd/internal/terminal"
	"github.com/ccmapd/ccmapd/internal/view"
	"github.com/ccmapd/ccmapd/manager"
)

const demoLong = `Demo starts a small server with clients of its own, as another process, and
samples it like any other program. It writes demo.pb.gz, demo.xml and demo.json to
the working directory, and shows what ccmapd finds in them, and with which commands.

The server parses and evaluates formulas (recursion, an interface with four types),
sums areas (an interface with two types, 3 to 1), counts words (generics) and places
queens (deep recursion, inlining), with a goroutine for each request.

docs/sampling.md explains --hits and the flags of value tables.`

const demoExample = `  ccmapd demo
  ccmapd demo -d 30s
  ccmapd demo --open     its flame graph in the browser meanwhile`

// demoOutputs are the files that the demo writes.
var demoOutputs = []string{"demo.pb.gz", "demo.xml", "demo.json"}

func newDemoCmd(env *environment) subcommand {
	f := newSamplingFlags(env.engines)
	f.outputs = demoOutputs
	cmd := &cobra.Command{
		Use:     "demo",
		Short:   "Try it on a workload of its own",
		Long:    demoLong,
		Example: demoExample,
		GroupID: groupSample,
		Args:    argCount(0, 0, "no arguments"),
		PreRunE: func(*cobra.Command, []string) error { return checkDemo(f) },
		RunE:    func(cmd *cobra.Command, _ []string) error { return runDemo(cmd.Context(), env, f) },
	}
	cmd.Flags().DurationVarP(&f.duration, "duration", "d", 10*time.Second, "sample for `TIME`")
	f.values.register(cmd)
	registerOpen(cmd)
	return subcommand{cmd, withPage(starting)}
}

// checkDemo checks the flags: unlike other sessions, a demo has an end.
func checkDemo(f *samplingFlags) error {
	if f.duration == 0 {
		return usage.Errorf("--duration 0 has no end")
	}
	return f.check()
}

// newDemoWorkloadCmd returns the program that the demo samples. It has its own
// flags (see package demo).
func newDemoWorkloadCmd(env *environment) subcommand {
	return subcommand{&cobra.Command{
		Use:                demo.Command,
		Short:              "What ccmapd demo samples",
		Hidden:             true,
		DisableFlagParsing: true,
		RunE: func(_ *cobra.Command, args []string) error {
			if code := demo.Main(args, env.stdin, env.stdout, env.stderr); code != 0 {
				return exitError{code: code}
			}
			return nil
		},
	}, filesAlone}
}

func runDemo(ctx context.Context, env *environment, f *samplingFlags) error {
	ctx, stop := signals.UntilInterrupted(ctx)
	defer stop()
	r, err := sampleDemo(ctx, env, f)
	if err != nil {
		return err
	}
	err = showDemo(env, session.Profile(r))
	stop()
	env.keepPage()
	return err
}

// sampleDemo samples the workload, which has ended when it returns.
func sampleDemo(ctx context.Context, env *environment, f *samplingFlags) (manager.Report, error) {
	defer signals.SurvivePipes()()
	w, err := demo.Start(terminal.Unguarded(env.stderr))
	if err != nil {
		return manager.Report{}, err
	}
	defer w.Stop()
	s, err := session.Open(f.config(env), env.toProcess(ctx, f, w.PID()))
	if err != nil {
		return manager.Report{}, err
	}
	fmt.Fprintln(env.stderr, "The demo's workload is a server with clients of its own, in another process.")
	env.showPage(s)
	s.Announce(env.stderr, "Ctrl-C ends it.")
	return s.Run(ctx, env.stderr, terminal.AboveLive(env.stderr))
}

// showDemo shows a profile the way a user would look at it.
func showDemo(env *environment, p *view.Profile) error {
	method, ok := interesting(p)
	if !ok {
		return errors.New("demo: no samples were taken")
	}
	file := demoOutputs[0]
	for _, args := range [][]string{
		{"top", "-n", "10", file},
		{"contexts", "-n", "3", file, method},
		{"sites", "-n", "5", file},
		{"receivers", "-n", "3", file},
	} {
		if err := showCommand(env, args); err != nil {
			return err
		}
	}
	return printDemoNext(env.stdout)
}

// interesting returns the method that is reached in the most ways, of the hottest ones.
// It leaves out pseudo methods, for example [kernel].
func interesting(p *view.Profile) (method string, ok bool) {
	const nearCallers = 2                                             // told apart; math.Pow alone stands between a caller and math.pow
	top, _ := view.NewTop(p, view.List{Order: view.ByFlat, Limit: 5}) // fails by other orders only
	most := 0
	for _, row := range top.Rows {
		name := row.Method.Name
		set := query.Select(p.Names(), func(s string) bool { return s == name })
		if n := len(query.Contexts(p.Snapshot, set, nearCallers).Contexts); n > most && !strings.HasPrefix(name, "[") {
			method, most = name, n
		}
	}
	return method, most > 0
}

// showCommand prints a command and runs it.
func showCommand(env *environment, args []string) error {
	quoted := make([]string, len(args))
	for i, arg := range args {
		quoted[i] = terminal.ShellQuote(arg)
	}
	fmt.Fprintf(env.stdout, "\n$ ccmapd %s\n", strings.Join(quoted, " "))
	shown := *env
	shown.process = nil // it has been confined to what the demo needs
	root := newRoot(&shown)
	root.SetArgs(args)
	return root.Execute()
}

func printDemoNext(w io.Writer) error {
	_, err := fmt.Fprintf(w, `
Written: %s, the same profile in three formats. Next:
  ccmapd query demo.pb.gz 'server.handle > evalService.answer'
                                       the weight of one call, in any context
  ccmapd overlap demo.xml demo.json    how far two profiles agree
  go tool pprof -http=: demo.pb.gz     flame graph and source
  ccmapd attach PID                    a program of your own
`, strings.Join(demoOutputs, ", "))
	return err
}
