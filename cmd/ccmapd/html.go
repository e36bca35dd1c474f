package main

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/ccmapd/ccmapd/cmd/ccmapd/internal/onefile"
	"github.com/ccmapd/ccmapd/cmd/ccmapd/internal/output"
	"github.com/ccmapd/ccmapd/cmd/internal/usage"
	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/internal/terminal"
	"github.com/ccmapd/ccmapd/internal/view"
)

const htmlLong = `Html writes a page with a profile inside, for a browser: the flame graph, callers and
callees of any method or path, tables and search. With BASE it shows what changed since
BASE, with the verdict of 'overlap', and colours only what 'diff' calls significant.

The page is one file: it needs no server and no network, and may use none. Frames that
are too narrow for --nodes are summed up as '(n more)'. 'attach', 'run', 'diff' and
'overlap' write it beside what they do, with --html. docs/browser.md explains it.`

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
	if f.output == stdPath {
		return explainAnswer(onefile.Write(terminal.Unguarded(env.stdout), profiles[0], profiles[1], onefile.Options{Nodes: f.nodes}))
	}
	return writePage(f.output, profiles[0], profiles[1], f.nodes)
}

// writePage writes a page to a file. Base may be nil.
func writePage(path string, p, base *view.Profile, nodes uint) error {
	write := func(w io.Writer) error { return onefile.Write(w, p, base, onefile.Options{Nodes: nodes}) }
	return explainAnswer(output.Explain(export.WriteOther(path, write)))
}

// pageFlag has other commands write their profiles as a page, too.
const pageFlag = "html"

func registerPage(cmd *cobra.Command, path *string) {
	cmd.Flags().StringVar(path, pageFlag, "", "write a page for browsers to `FILE`, too: see 'ccmapd html --help'")
}

// flaggedPage returns the page that a command writes.
func flaggedPage(cmd *cobra.Command, _ []string) []string {
	if path := cmd.Flag(pageFlag); path != nil && path.Value.String() != "" {
		return toOpen([]string{path.Value.String()})
	}
	return nil
}

// writesPage adds the flag to a comparison: the page is of the last of two profiles, with the first as its base.
func (a *asking) writesPage() {
	path := ""
	registerPage(a.Command, &path)
	for _, param := range []string{"by", "absorb"} { // the page compares by what it can show both ways
		a.MarkFlagsMutuallyExclusive(pageFlag, param)
	}
	before := a.before
	a.before = func(args []string) error {
		if before != nil {
			if err := before(args); err != nil {
				return err
			}
		}
		switch {
		case path == "":
			return nil
		case len(args) != 2:
			return usage.Errorf("--%s is of two profiles, and there are %d", pageFlag, len(args))
		}
		return output.CheckPage(path, nil)
	}
	a.beside = func(of []*view.Profile) error {
		if path == "" {
			return nil
		}
		return writePage(path, of[1], of[0], mostNodes)
	}
}
