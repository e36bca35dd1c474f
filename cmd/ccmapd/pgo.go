package main

import (
	"github.com/spf13/cobra"

	"github.com/ccmapd/ccmapd/cmd/internal/usage"
)

const pgoLong = `Pgo makes of a profile the file that 'go build -pgo' reads, as small as it can be, and
asks the compiler whether it decides the same with it. It says how much of a profile
still fits a newer program, what the compiler did with it and why not more, and measures
what a new build gains for a unit of work.
docs/pgo.md explains what the compiler reads.`

const pgoExample = `  ccmapd pgo export web.pb.gz default.pgo --minimal
  ccmapd pgo export @best:web cmd/web/default.pgo --minimal --verify ./cmd/web
  ccmapd pgo check cmd/web/default.pgo ./web --min 80%
  ccmapd pgo report cmd/web/default.pgo ./web-old ./web-new --diagnostics build.txt
  ccmapd pgo measure --before web-old --after web-new --per-metric http_requests_total …`

// newPGOCmds returns the command and those below it.
func newPGOCmds(env *environment) []subcommand {
	cmd := &cobra.Command{
		Use:     "pgo",
		Short:   "Make and check profiles for 'go build -pgo', and measure their effect",
		Long:    pgoLong,
		Example: pgoExample,
		GroupID: groupRead,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usage.UnknownCommand(cmd, args, usage.Errorf("pgo has no command %q", args[0]))
			}
			return cmd.Help()
		},
	}
	below := []subcommand{newPGOExportCmd(env), newPGOCheckCmd(env), newPGOReportCmd(env), newPGOMeasureCmd(env)}
	for _, sub := range below {
		if sub.ValidArgsFunction == nil {
			sub.ValidArgsFunction = completeProfiles
		}
		cmd.AddCommand(sub.Command)
	}
	return append(below, subcommand{cmd, filesAlone})
}
