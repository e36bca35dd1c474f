package main

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/ccmapd/ccmapd/cmd/ccmapd/internal/onefile"
	"github.com/ccmapd/ccmapd/cmd/ccmapd/internal/output"
	"github.com/ccmapd/ccmapd/cmd/internal/usage"
	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/internal/terminal"
	"github.com/ccmapd/ccmapd/view"
)

const htmlLong = `Html writes a page with a profile inside, for a browser: the flame graph, callers and
callees of any method or path, tables and search. With BASE it shows what changed since
BASE, with the verdict of 'overlap', and colours only what 'diff' calls significant.

The page is one file: it needs no server and no network, and may use none. Frames that
are too narrow for --nodes are summed up as '(n more)'. docs/browser.md explains it.`

const htmlExample = `  ccmapd html web.pb.gz -o web.html
  ccmapd html after.pb.gz before.pb.gz -o change.html
  ccmapd html --recent @web -o now.html`

// htmlFlags are the flags of html.
type htmlFlags struct {
	output string
	nodes  uint
	view   recency
}

// mostNodes is the bound of package view.
const mostNodes = 100_000

func newHTMLCmd(env *environment) subcommand {
	var f htmlFlags
	cmd := &cobra.Command{
		Use:     "html FILE [BASE] -o PAGE",
		Short:   "Write a page with a profile, or a comparison, for a browser",
		Long:    htmlLong,
		Example: htmlExample,
		GroupID: groupRead,
		Args:    argCount(1, 2, "a profile, and perhaps another to compare it with"),
		RunE:    func(_ *cobra.Command, args []string) error { return writeHTML(env, f, args) },
	}
	cmd.Flags().StringVarP(&f.output, "output", "o", "", "write to `PAGE`; '-': standard output")
	// The only error is that there is no such flag.
	_ = cmd.MarkFlagRequired("output")
	cmd.Flags().UintVar(&f.nodes, "nodes", mostNodes, "have at most `N` frames in the page")
	f.view.register(cmd)
	return subcommand{cmd, reading(func(args []string) []string { return args }, flaggedOutput)}
}

func writeHTML(env *environment, f htmlFlags, args []string) error {
	if f.nodes < 1 || f.nodes > mostNodes {
		return usage.Errorf("--nodes %d is not from 1 to %d", f.nodes, mostNodes)
	}
	if err := checkStdinOnce(args); err != nil {
		return err
	}
	var profiles [2]*view.Profile // the second is nil without BASE
	for i, path := range args {
		p, err := f.view.load(env, path)
		if err != nil {
			return err
		}
		profiles[i] = p
	}
	write := func(w io.Writer) error {
		return onefile.Write(w, profiles[0], profiles[1], onefile.Options{Nodes: f.nodes})
	}
	if f.output == stdPath {
		return explainAnswer(write(terminal.Unguarded(env.stdout)))
	}
	return explainAnswer(output.Explain(export.WriteOther(f.output, write)))
}
