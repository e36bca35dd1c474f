package main

import (
	"io"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ccmapd/ccmapd/cmd/internal/usage"
	"github.com/ccmapd/ccmapd/daemon/client"
	"github.com/ccmapd/ccmapd/internal/daemon"
	"github.com/ccmapd/ccmapd/internal/terminal"
)

// daemonFlag is the flag of attach that leaves sampling to a daemon.
const daemonFlag = "daemon"

// attachByDaemon has the daemon attach to a process. Flags about sampling have no effect there.
func attachByDaemon(cmd *cobra.Command, w io.Writer, pid int) (err error) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if !slices.Contains([]string{daemonFlag, "match", "wide"}, f.Name) && err == nil {
			err = usage.Errorf("--%s and --%s exclude each other: the daemon samples as its configuration says", daemonFlag, f.Name)
		}
	})
	if err != nil {
		return err
	}
	var target daemon.TargetStatus
	if err := (client.Daemon{}).Post(cmd.Context(), map[string]int{"pid": pid}, &target, "targets"); err != nil {
		return err
	}
	out := terminal.NewPrinter(w, false)
	out.Line("The daemon samples %d as target %s. Next: ccmapd top %s", pid, target.Name, terminal.ShellQuote("@"+target.Name))
	return out.Err()
}
