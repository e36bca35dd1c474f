package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ccmapd/ccmapd/cmd/internal/usage"
	"github.com/ccmapd/ccmapd/daemon/client"
	"github.com/ccmapd/ccmapd/internal/view"
)

// operation is what an operator has the daemon do with a target.
type operation struct {
	verb, short, long string
	done              string // says of a target what has become of it
	method, action    string // of the route below the target; "" is the target itself
}

var operations = []operation{
	{
		verb: "pause", short: "Stop sampling a target for a while",
		long: `Pause stops sampling all processes of a target. Its profile stays and can be read;
'ccmapd resume' samples them again.`,
		done: "is paused: 'ccmapd resume %s' samples it again", method: http.MethodPost, action: "pause",
	},
	{
		verb: "resume", short: "Sample a paused target again",
		long: `Resume samples the processes of a paused target again. It adds to the same profile.`,
		done: "is sampled again", method: http.MethodPost, action: "resume",
	},
	{
		verb: "rotate", short: "File the profile of a target now",
		long: `Rotate files what a target has counted, and begins a new period, as the daemon does
by itself at the end of each. The sampling goes on.`,
		done: "begins a new period", method: http.MethodPost, action: "rotate",
	},
	{
		verb: "detach", short: "Give up a process that 'attach --daemon' added",
		long: `Detach gives up a target that 'ccmapd attach --daemon' added. A target of the
configuration stays until it is taken out of the file: 'ccmapd pause' stops it, too.`,
		done: "is given up", method: http.MethodDelete,
	},
}

const operateHelp = `

The daemon is the one at $CCMAPD_SOCKET, or else your own before that of the machine.
%s
'ccmapd targets' lists the targets; docs/daemon.md explains rights.`

// mayOperate says who may use a command.
func (o operation) mayOperate() string {
	if o.action == "" {
		return "Who may see a target may detach it."
	}
	return "Root, the daemon's user and its group may do this."
}

// newOperateCmds returns a command for each operation, and reload.
func newOperateCmds(env *environment) (all []subcommand) {
	for _, o := range operations {
		all = append(all, newOperateCmd(env, o))
	}
	return append(all, newReloadCmd(env))
}

func newOperateCmd(env *environment, o operation) subcommand {
	return subcommand{&cobra.Command{
		Use:               o.verb + " TARGET",
		Short:             o.short,
		Long:              o.long + fmt.Sprintf(operateHelp, o.mayOperate()),
		Example:           fmt.Sprintf("  ccmapd %s @web", o.verb),
		GroupID:           groupServe,
		Args:              argCount(1, 1, "one target"),
		ValidArgsFunction: completeTarget,
		RunE: func(cmd *cobra.Command, args []string) error {
			name := strings.TrimPrefix(args[0], "@")
			if name == "" {
				return usage.Errorf("%s wants the name of a target, for example @web", o.verb)
			}
			parts := []string{"targets", name}
			if o.action != "" {
				parts = append(parts, o.action)
			}
			if err := (client.Daemon{}).Command(cmd.Context(), o.method, parts...); err != nil {
				if o.action == "" {
					return err
				}
				return explainRefusal(cmd, err)
			}
			done := strings.ReplaceAll(o.done, "%s", args[0])
			_, err := fmt.Fprintf(env.stdout, "%s %s.\n", args[0], done)
			return err
		},
	}, filesAlone}
}

const reloadLong = `Reload has the daemon read its configuration again, as SIGHUP does. If the file has an
error, the configuration of before stays in force, and the error is told.

The daemon is the one at $CCMAPD_SOCKET, or else your own before that of the machine.
Root, the daemon's user and its group may do this.`

func newReloadCmd(env *environment) subcommand {
	return subcommand{&cobra.Command{
		Use:     "reload",
		Short:   "Have the daemon read its configuration again",
		Long:    reloadLong,
		Example: "  ccmapd serve --check && ccmapd reload",
		GroupID: groupServe,
		Args:    argCount(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := (client.Daemon{}).Command(cmd.Context(), http.MethodPost, "reload"); err != nil {
				return explainRefusal(cmd, err)
			}
			_, err := fmt.Fprintln(env.stdout, "The configuration is in force.")
			return err
		},
	}, filesAlone}
}

// explainRefusal says who may use a command, where the daemon hides from the caller that there is more to see.
func explainRefusal(cmd *cobra.Command, err error) error {
	if view.ErrorOf(err).Code != view.CodeNoTarget {
		return err
	}
	if may, unknown := rightsAtDaemon(cmd.Context()); unknown != nil || may == "everything" {
		return err
	}
	return &view.Error{Code: view.CodeNotPermitted, Err: fmt.Errorf("%s: not permitted", cmd.Name()),
		Hint: "Root, the daemon's own user and members of its group may."}
}

// completeTarget completes the one argument of a command with the targets of a daemon.
func completeTarget(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTime)
	defer cancel()
	return completeTargets(ctx, typed)
}
