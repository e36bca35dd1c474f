package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/ccmapd/ccmapd/daemon/client"
	"github.com/ccmapd/ccmapd/internal/daemon"
	"github.com/ccmapd/ccmapd/internal/terminal"
)

const eventsLong = `Events lists what has happened to the targets of the daemon of this machine, as far as
you may see them: states, intervals, methods, edges and paths that got hot, hints for the
compiler of a JVM, drift, losses, files, reloads. JSON has the data of what got hot. The
daemon knows the last 256 events. With -f it goes on with those to come.

The daemon is the one at $CCMAPD_SOCKET, or else your own before that of the machine.
docs/formats.md explains the JSON, of which each line is an event.`

const eventsExample = `  ccmapd events
  ccmapd events -f --json | jq 'select(.kind == "state")'`

func newEventsCmd(env *environment) subcommand {
	var asJSON, follow bool
	cmd := &cobra.Command{
		Use:     "events",
		Short:   "List what has happened to the daemon's targets",
		Long:    eventsLong,
		Example: eventsExample,
		GroupID: groupServe,
		Args:    argCount(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			show := printEvent
			if asJSON {
				show = printEventJSON
			}
			err := client.Daemon{}.Events(cmd.Context(), 0, follow, func(text []byte) error { return show(env, text) })
			if err == nil && follow && cmd.Context().Err() == nil {
				return errors.New("the daemon has ended")
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, an event a line")
	cmd.Flags().BoolVarP(&follow, followFlag, "f", false, "go on with events to come")
	return subcommand{cmd, filesAlone}
}

// printEvent prints an event in a line, at most. Its text is foreign.
func printEvent(env *environment, text []byte) error {
	e, err := decodeEvent(text)
	if err != nil {
		return err
	}
	of := cmp.Or(e.Target, "daemon")
	if e.PID > 0 {
		of += fmt.Sprintf(" (%d)", e.PID)
	}
	out := terminal.NewPrinter(env.stdout, true)
	out.Line("%s  %-8s  %s: %s", e.At.Local().Format(time.DateTime), e.Kind, of, terminal.Reason(e.Text))
	return out.Err()
}

// printEventJSON prints an event as it came, if it is one.
func printEventJSON(env *environment, text []byte) error {
	e, err := decodeEvent(text)
	if err != nil {
		return err
	}
	line, err := terminal.LineJSON(e)
	if err == nil {
		_, err = fmt.Fprintf(env.stdout, "%s\n", line)
	}
	return err
}

func decodeEvent(text []byte) (e daemon.Event, err error) {
	if err := json.Unmarshal(text, &e); err != nil {
		return e, fmt.Errorf("read event of the daemon: %w", err)
	}
	return e, nil
}
