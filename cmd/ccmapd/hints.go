package main

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/feedback/hotspot"
	"github.com/ccmapd/ccmapd/internal/output"
	"github.com/ccmapd/ccmapd/internal/terminal"
	"github.com/ccmapd/ccmapd/internal/usage"
)

const hintsLong = `Hints says what the compiler of a JVM should know. Where a call has receivers of several
types, and from one caller only one of them, the profile of the JVM does not tell the
caller, and code for all types is compiled into it. A hint asks C2, in compilations of
that caller alone, to inline the calls down to the polluted one, or to keep methods out
that never come from there.

  text            for people: what, where and why
  directives      for -XX:+UnlockDiagnosticVMOptions -XX:CompilerDirectivesFile=FILE
  compilecommand  for -XX:CompileCommandFile=FILE, which holds for all callers: it has
                  no method that is to be kept out

'ccmapd apply' gives the hints of --json to a running JVM, and sees what becomes of them:
a hint is an experiment. docs/jvm.md has an example.`

const hintsExample = `  ccmapd hints app.json
  ccmapd hints app.json --json -o hints.json   for 'ccmapd apply hints.json PID'
  ccmapd hints app.json --format directives -o hints.txt
  ccmapd hints app.json --least 5              only for contexts of 5 % or more`

// Formats of hints.
const (
	hintsText       = "text"
	hintsDirectives = "directives"
	hintsCommands   = "compilecommand"
)

// hintsFlags are the flags of hints.
type hintsFlags struct {
	recency
	find   hotspot.FindOptions
	format usage.Choice
	json   bool
	output string
}

func newHintsCmd(env *environment) *cobra.Command {
	f := hintsFlags{format: usage.NewChoice([]string{hintsText, hintsDirectives, hintsCommands})}
	cmd := &cobra.Command{
		Use:     "hints FILE",
		Short:   "Say what the compiler of a JVM should know",
		Long:    hintsLong,
		Example: hintsExample,
		GroupID: groupRead,
		Args:    argCount(1, 1, "a profile"),
		PreRunE: func(*cobra.Command, []string) error { return f.check() },
		RunE: func(_ *cobra.Command, args []string) error {
			p, err := f.load(env, args[0])
			if err != nil {
				return err
			}
			hints, leftOut := hotspot.Find(p.Snapshot, f.find)
			return f.write(env, hotspot.NewFile(hints, leftOut))
		},
	}
	f.recency.register(cmd)
	flags := cmd.Flags()
	f.format.Register(cmd, "format", "print `FORMAT`: "+terminal.OrList(f.format.From))
	flags.BoolVar(&f.json, "json", false, "print JSON, which 'ccmapd apply' reads")
	flags.StringVarP(&f.output, "output", "o", stdPath, "write to `FILE`; '-': standard output")
	flags.Float64Var(&f.find.LeastShare, "least", 1, "leave out contexts under this share of the profile, in `PERCENT`")
	flags.IntVar(&f.find.Depth, "depth", 3, "tell contexts apart by up to `N` callers")
	cmd.MarkFlagsMutuallyExclusive("json", "format")
	return cmd
}

func (f *hintsFlags) check() error {
	switch {
	case !(f.find.LeastShare >= 0 && f.find.LeastShare <= 100):
		return usage.Errorf("--least %v is not from 0 to 100 percent", f.find.LeastShare)
	case f.find.Depth < 1 || f.find.Depth > maxReceiverDepth:
		return usage.Errorf("--depth must be 1 to %d", maxReceiverDepth)
	}
	return nil
}

// write writes hints where they are to be.
func (f *hintsFlags) write(env *environment, file hotspot.File) error {
	if f.output == stdPath {
		return f.print(env.stdout, file)
	}
	return output.Explain(export.WriteOther(f.output, func(w io.Writer) error { return f.print(w, file) }))
}

func (f *hintsFlags) print(w io.Writer, file hotspot.File) error {
	switch {
	case f.json:
		return terminal.WriteJSON(w, file)
	case f.format.Value == hintsDirectives:
		return hotspot.WriteDirectives(w, file.Hints)
	case f.format.Value == hintsCommands:
		return hotspot.WriteCommands(w, file.Hints)
	}
	return printHints(w, file)
}

// printHints prints hints for people, root by root.
func printHints(w io.Writer, file hotspot.File) error {
	out := terminal.NewPrinter(w, false)
	if len(file.Hints) == 0 {
		out.Line("No hints: no call is known to have several receivers, and from one caller only one.")
	}
	for i, root := range hotspot.Roots(file.Hints) {
		if i > 0 {
			out.Line("")
		}
		out.Line("In compilations of %s:", root.Short())
		last := ""
		for _, h := range file.Hints {
			if h.Root != root {
				continue
			}
			if h.Reason != last {
				out.Line("  %.1f %%: %s", h.Share, h.Reason)
				last = h.Reason
			}
			out.Line("    %-8s  %s at %s:%d", string(h.Action), h.Callee.Short(), h.Caller.Short(), h.Bytecode)
		}
	}
	for _, reason := range file.LeftOut {
		out.Line("No hint: %s", reason)
	}
	return out.Err()
}
