package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ccmapd/ccmapd/daemon/client"
	"github.com/ccmapd/ccmapd/internal/daemon"
	"github.com/ccmapd/ccmapd/internal/figure"
	"github.com/ccmapd/ccmapd/internal/terminal"
)

const targetsLong = `Targets lists what the daemon of this machine samples, as far as you may see it: its
own user, root and its group see all, others their own processes, if it is open.

  state    waiting (for a process), attaching, sampling, refused, paused or ended
  samples  of all its processes, ended ones with them, since the daemon began
  pids     of the processes that fit

The daemon is the one at $CCMAPD_SOCKET, or else your own before that of the machine.
docs/daemon.md explains states, docs/formats.md the JSON.`

const targetsExample = `  ccmapd targets
  ccmapd targets -v                          why a target is refused, and the cure
  ccmapd top @web                            the hottest methods of one`

func newTargetsCmd(env *environment) subcommand {
	var asJSON, all bool
	cmd := &cobra.Command{
		Use:     "targets",
		Short:   "List what a daemon samples",
		Long:    targetsLong,
		Example: targetsExample,
		GroupID: groupServe,
		Args:    argCount(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			list, err := targetsOf(cmd.Context())
			switch {
			case err != nil:
				return err
			case asJSON:
				return terminal.WriteJSON(env.stdout, list)
			}
			if len(list.Targets) == 0 {
				return printNone(cmd.Context(), env.stdout)
			}
			return list.print(env.stdout, all)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, which has every figure")
	cmd.Flags().BoolVarP(&all, "verbose", "v", false, "print rules, and by which engine processes are sampled, or why not")
	return subcommand{cmd, filesAlone}
}

// targetList is the answer of a daemon.
type targetList struct {
	Targets []daemon.TargetStatus `json:"targets"`
}

func targetsOf(ctx context.Context) (list targetList, err error) {
	err = client.Daemon{}.Get(ctx, &list, "targets")
	return list, err
}

// printNone says that the daemon has no targets, or none that the caller may see: only who sees all learns which.
func printNone(ctx context.Context, w io.Writer) error {
	may, err := rightsAtDaemon(ctx)
	if err != nil {
		return err
	}
	text := "No targets that you may see."
	if may != "own" {
		text = "No targets. 'ccmapd attach --daemon PID' adds one, and so does [[target]] in the configuration."
	}
	_, err = fmt.Fprintln(w, text)
	return err
}

// rightsAtDaemon returns what the daemon lets the caller do: "everything", "read" or "own".
func rightsAtDaemon(ctx context.Context) (may string, err error) {
	var info struct {
		You struct {
			May string `json:"may"`
		} `json:"you"`
	}
	err = client.Daemon{}.Get(ctx, &info, "info")
	return info.You.May, err
}

// print prints a table of targets. With all it has their rules and troubles.
func (l targetList) print(w io.Writer, all bool) error {
	t := &terminal.Table{Columns: []terminal.Column{
		{Title: "target"}, {Title: "state"}, {Title: "samples", Right: true}, {Title: "restarts", Right: true},
		{Title: "pids"}, {Title: "executable", Shorten: terminal.ShortenMiddle, Least: 16},
	}}
	for _, target := range l.Targets {
		t.Add(target.Name, string(target.State), figure.Count(int64(target.Counters.Samples)), figure.Count(int64(target.Restarts)), pidsOf(target), executablesOf(target))
	}
	out := terminal.NewPrinter(w, false)
	out.Table("", t)
	for _, target := range l.Targets {
		printTrouble(out, target, all)
	}
	return out.Err()
}

// printTrouble says why a target is not sampled. With all it says which processes belong to it.
func printTrouble(out *terminal.Printer, t daemon.TargetStatus, all bool) {
	if !all && t.Reason == "" && t.LeftOut == 0 {
		return
	}
	out.Line("")
	out.Line("%s: %s", t.Name, t.Rule)
	if t.Reason != "" {
		out.Line("  %s: %s", string(t.State), terminal.Reason(t.Reason))
	}
	if t.Cure != "" {
		out.Line("  %s", t.Cure)
	}
	if t.NextTry != nil {
		out.Line("  next try: %s", t.NextTry.Local().Format(time.TimeOnly))
	}
	if t.LeftOut > 0 {
		out.Line("  left out: %s more than its max", figure.Plural(int64(t.LeftOut), "process"))
	}
	for _, p := range t.Processes {
		if all && p.PID > 0 {
			printProcess(out, p)
		}
	}
}

// printProcess says by which engine a process is sampled, and why by that one, or why it is not.
func printProcess(out *terminal.Printer, p daemon.ProcessStatus) {
	state := string(p.State)
	if p.Engine != "" {
		state += " by " + p.Engine
	}
	if why := terminal.Reason(cmp.Or(p.Reason, p.Why)); why != "" {
		state += ": " + why
	}
	out.Line("  %d %s", p.PID, state)
}

func pidsOf(t daemon.TargetStatus) string {
	var pids []string
	for _, p := range t.Processes {
		if p.PID > 0 { // an endpoint and the whole host tell none
			pids = append(pids, strconv.Itoa(p.PID))
		}
	}
	return strings.Join(pids, " ")
}

// executablesOf names the programs of a target, each once: a rule may fit several.
func executablesOf(t daemon.TargetStatus) string {
	var names []string
	for _, p := range t.Processes {
		if name := path.Base(p.Exe); p.Exe != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return strings.Join(names, " ")
}
