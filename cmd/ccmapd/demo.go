package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/ccmapd/ccmapd/ccmap/query"
	"github.com/ccmapd/ccmapd/internal/demo"
	"github.com/ccmapd/ccmapd/internal/session"
	"github.com/ccmapd/ccmapd/internal/signals"
	"github.com/ccmapd/ccmapd/internal/terminal"
	"github.com/ccmapd/ccmapd/internal/usage"
	"github.com/ccmapd/ccmapd/manager"
	"github.com/ccmapd/ccmapd/view"
)

const demoLong = `Demo starts a small server with clients of its own, as another process, and
samples it like any other program. It writes demo.pb.gz, demo.xml and demo.json to
the working directory, and shows what ccmapd finds in them, and with which commands.

The server parses and evaluates formulas (recursion, an interface with four types),
sums areas (an interface with two types, 3 to 1), counts words (generics) and places
queens (deep recursion, inlining), with a goroutine for each request.

docs/sampling.md explains --hits and the flags of value tables.`

const demoExample = `  ccmapd demo
  ccmapd demo -d 30s`

// demoOutputs are the files that the demo writes.
var demoOutputs = []string{"demo.pb.gz", "demo.xml", "demo.json"}

func newDemoCmd(env *environment) *cobra.Command {
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
	return cmd
}

// checkDemo checks the flags: unlike other sessions, a demo has an end.
func checkDemo(f *samplingFlags) error {
	if f.duration == 0 {
		return usage.Errorf("--duration 0 has no end")
	}
	return f.check()
}

const demoWorkloadName = "demo-workload"

// newDemoWorkloadCmd returns the program that the demo samples. It has its own
// flags (see package demo).
func newDemoWorkloadCmd(env *environment) *cobra.Command {
	return &cobra.Command{
		Use:                demoWorkloadName,
		Short:              "What ccmapd demo samples",
		Hidden:             true,
		DisableFlagParsing: true,
		RunE: func(_ *cobra.Command, args []string) error {
			if code := demo.Main(args, env.stdin, env.stdout, env.stderr); code != 0 {
				return exitError{code: code}
			}
			return nil
		},
	}
}

func runDemo(ctx context.Context, env *environment, f *samplingFlags) error {
	ctx, stop := signals.UntilInterrupted(ctx)
	defer stop()
	r, err := sampleDemo(ctx, env, f)
	if err != nil {
		return err
	}
	return showDemo(env, session.Profile(r))
}

// sampleDemo samples the workload, which has ended when it returns.
func sampleDemo(ctx context.Context, env *environment, f *samplingFlags) (manager.Report, error) {
	defer signals.SurvivePipes()()
	w, err := startWorkload(env)
	if err != nil {
		return manager.Report{}, err
	}
	defer w.stop()
	s, err := session.Open(f.config(env), env.toProcess(ctx, f, w.Process.Pid))
	if err != nil {
		return manager.Report{}, err
	}
	fmt.Fprintln(env.stderr, "The demo's workload is a server with clients of its own, in another process.")
	s.Announce(env.stderr, "Ctrl-C ends it.")
	return s.Run(ctx, env.stderr, terminal.AboveLive(env.stderr))
}

// demoWorkload is the program that the demo samples.
type demoWorkload struct{ *exec.Cmd }

// startWorkload starts this executable again as the workload, and returns when
// that is ready. The workload ends with its standard input, so it outlives no demo
// that is killed.
func startWorkload(env *environment) (*demoWorkload, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("start workload: %w", err)
	}
	cmd := exec.Command(self, demoWorkloadName, "-attended")
	cmd.Stderr = terminal.Unguarded(env.stderr)
	_, err = cmd.StdinPipe() // stays open as long as this process lives
	stdout, err2 := cmd.StdoutPipe()
	if err = errors.Join(err, err2); err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("start workload: %w", err)
	}
	w := &demoWorkload{cmd}
	if _, err := bufio.NewReader(stdout).ReadString('\n'); err != nil {
		w.stop()
		return nil, fmt.Errorf("start workload: %w", err)
	}
	return w, nil
}

// stop ends the workload.
func (w *demoWorkload) stop() {
	_ = w.Process.Signal(unix.SIGTERM) // fails only if it has ended
	_ = w.Wait()                       // how it ends is of no interest
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
