package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ccmapd/ccmapd/daemon/client"
	"github.com/ccmapd/ccmapd/internal/daemon"
	"github.com/ccmapd/ccmapd/internal/figure"
	"github.com/ccmapd/ccmapd/internal/terminal"
)

const statusLong = `Status says in some lines how the daemon of this machine does: whether it is healthy, how
many of the targets that you may see are sampled, what was sampled and lost, and what is
refused, with the cure. 'ccmapd targets' lists each target.

It exits with 1 if the daemon is not healthy, or if the last reload was refused.
The daemon is the one at $CCMAPD_SOCKET, or else your own before that of the machine.`

const statusExample = `  ccmapd status
  ccmapd status --json | jq .healthy`

func newStatusCmd(env *environment) subcommand {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "status",
		Short:   "Say how the daemon does",
		Long:    statusLong,
		Example: statusExample,
		GroupID: groupServe,
		Args:    argCount(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := statusOf(cmd.Context())
			switch {
			case err != nil:
				return err
			case asJSON:
				err = terminal.WriteJSON(env.stdout, s)
			default:
				err = s.print(env.stdout)
			}
			if err == nil && (!s.Healthy || !s.Loaded) {
				return exitError{exitFailed, nil}
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return subcommand{cmd, filesAlone}
}

// daemonStatus is how a daemon does, of the targets that the caller may see.
type daemonStatus struct {
	Version string               `json:"version"`
	Engines []string             `json:"engines"` // best first
	Ready   bool                 `json:"ready"`   // the first look for processes is done
	Healthy bool                 `json:"healthy"` // no session is stuck
	Loaded  bool                 `json:"loaded"`  // the last reload took effect
	May     string               `json:"may"`     // what the caller may do: everything, read or own
	States  map[daemon.State]int `json:"states"`  // targets in each
	Totals  daemon.Counters      `json:"totals"`  // of all these targets
	Bytes   int64                `json:"bytes"`   // that their maps take
	Refused []refusedTarget      `json:"refused"`
	Hub     *daemon.Sending      `json:"hub,omitempty"` // that gets what is filed, for those who may see all targets

	processes int
}

type refusedTarget struct {
	Target string `json:"target"`
	Reason string `json:"reason"`
	Cure   string `json:"cure,omitempty"`
}

// statusOf asks the daemon.
func statusOf(ctx context.Context) (s daemonStatus, err error) {
	var info struct {
		Version                string
		Engines                []string
		Ready, Healthy, Loaded bool
		You                    struct{ May string }
		Hub                    *daemon.Sending
	}
	if err := (client.Daemon{}).Get(ctx, &info, "info"); err != nil {
		return s, err
	}
	list, err := targetsOf(ctx)
	if err != nil {
		return s, err
	}
	s = daemonStatus{
		Version: info.Version, Engines: info.Engines, Ready: info.Ready, Healthy: info.Healthy, Loaded: info.Loaded, May: info.You.May,
		States: make(map[daemon.State]int), Refused: []refusedTarget{}, Hub: info.Hub,
	}
	for _, t := range list.Targets {
		s.add(t)
	}
	return s, nil
}

// add adds a target.
func (s *daemonStatus) add(t daemon.TargetStatus) {
	s.States[t.State]++
	s.Totals.Add(t.Counters)
	s.Bytes += t.Status.Bytes
	s.processes += len(t.Processes)
	if t.State == daemon.Refused {
		s.Refused = append(s.Refused, refusedTarget{t.Name, t.Reason, t.Cure})
	}
}

// mostRefused bounds the refused targets that a text names.
const mostRefused = 3

// print prints the status. Names of targets and reasons are foreign.
func (s daemonStatus) print(w io.Writer) error {
	out := terminal.NewPrinter(w, false)
	out.Line("ccmapd %s, %s; engines: %s", s.Version, s.health(), strings.Join(s.Engines, ", "))
	out.Line("You may %s.", s.rights())
	out.Line("Targets: %s, %s.", s.targets(), figure.PluralOf(int64(s.processes), "process", "processes"))
	if t := s.Totals; t.Samples > 0 {
		lost := t.LostSource + t.LostQueue + t.LostCorrupt + t.Orphaned
		out.Line("Sampled: %s, %s of CPU time, %s lost; maps take %s.", figure.Plural(int64(t.Samples), "sample"),
			figure.Time(t.SampledNS), figure.Percent(figure.Share(int64(lost), int64(t.Samples+lost))), figure.Bytes(s.Bytes))
	}
	if n := s.Totals.Unfiled; n > 0 {
		out.Line("Files: %s to write one failed; %s were given up.", figure.Plural(int64(n), "attempt"), figure.Plural(int64(s.Totals.GivenUp), "sample"))
	}
	if s.Hub != nil {
		printHub(out, s.Hub)
	}
	for _, r := range s.Refused[:min(len(s.Refused), mostRefused)] {
		out.Line("Refused: %s: %s", r.Target, terminal.Reason(r.Reason))
		if r.Cure != "" {
			out.Line("  %s", r.Cure)
		}
	}
	if more := len(s.Refused) - mostRefused; more > 0 {
		out.Line("and %s more refused: 'ccmapd targets' lists them.", figure.Count(int64(more)))
	}
	return out.Err()
}

// printHub says how what is filed gets to the hub. The reason may quote what is foreign.
func printHub(out *terminal.Printer, h *daemon.Sending) {
	out.Line("Hub: %s, %s; %s sent, %s waiting, %s lost.", h.URL, h.State, figure.Plural(int64(h.Sent), "contribution"),
		figure.Plural(int64(h.Waiting), "file"), figure.Count(int64(h.Lost)))
	printWhy(out, h.Reason, h.Cure)
	if f := h.FanIn; f != nil {
		out.Line("Fan-in of the fleet: %s of %s.", figure.Plural(int64(f.Methods), "method"), figure.Plural(int64(f.Programs), "program"))
		printWhy(out, f.Reason, f.Cure)
	}
}

// printWhy says why something fails, and what to do, if it does.
func printWhy(out *terminal.Printer, reason, cure string) {
	if reason != "" {
		out.Line("  %s", terminal.Reason(reason))
	}
	if cure != "" {
		out.Line("  %s", cure)
	}
}

func (s daemonStatus) health() string {
	switch {
	case !s.Healthy:
		return "not healthy: a session is stuck ('journalctl -u ccmapd')"
	case !s.Ready:
		return "still looking for processes"
	case !s.Loaded:
		return "healthy, but the last reload was refused ('ccmapd serve --check')"
	}
	return "healthy"
}

// rights says what the caller may do.
func (s daemonStatus) rights() string {
	switch s.May {
	case "everything":
		return "see all targets and change them"
	case "read":
		return "see all targets"
	}
	return "see your own processes, and attach to them"
}

// targets counts the targets, those in the most telling state first.
func (s daemonStatus) targets() string {
	total := 0
	var parts []string
	for _, state := range []daemon.State{daemon.Sampling, daemon.Attaching, daemon.Refused, daemon.Waiting, daemon.Paused, daemon.Ended} {
		if n := s.States[state]; n > 0 {
			total += n
			parts = append(parts, fmt.Sprintf("%s %s", figure.Count(int64(n)), state))
		}
	}
	switch {
	case total == 0 && s.May == "own":
		return "none that you may see"
	case total == 0:
		return "none"
	}
	return fmt.Sprintf("%s (%s)", figure.Count(int64(total)), strings.Join(parts, ", "))
}
