package main

import (
	"errors"
	"io"

	"github.com/spf13/cobra"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/cmd/ccmapd/internal/output"
	"github.com/ccmapd/ccmapd/cmd/internal/usage"
	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/internal/fanin"
	"github.com/ccmapd/ccmapd/internal/feedback/hotspot"
	"github.com/ccmapd/ccmapd/internal/terminal"
	"github.com/ccmapd/ccmapd/internal/view"
	"github.com/ccmapd/ccmapd/valueprof/pollution"
)

const hintsLong = `Hints says what the compiler of a JVM should know. Where a call has receivers of several
types, and one caller has only one of them, the JVM's profile does not tell the caller,
and code for all types is compiled into it. A hint asks C2, in compilations of that caller
alone, to inline the calls down to the polluted one, or to keep methods out: those that
never come from there, and those that are cold there and make a virtual call.

  text            for people: what, where and why
  directives      for -XX:+UnlockDiagnosticVMOptions -XX:CompilerDirectivesFile=FILE
  compilecommand  for -XX:CompileCommandFile=FILE: for all callers, no method kept out

'ccmapd apply' gives the hints of --json to a running JVM, and sees what becomes of them.
--mode is about the whole profile at the next start: 0 writes a -XX:CompileCommandFile
that compiles hot methods early, which helps few programs; 1 says whether JDK 25's AOT
cache of a training run suits production, and else exits with 1. docs/jvm.md has examples.`

const hintsExample = `  ccmapd hints app.json --json -o hints.json   for 'ccmapd apply hints.json PID'
  ccmapd hints app.json --format directives -o hints.txt
  ccmapd hints --mode 1 training.json production.json || echo train again`

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
	mode   usage.Choice // empty: hints
	early  earlyFlags
	shared sharedFlag
	json   bool
	output string
}

func newHintsCmd(env *environment) subcommand {
	f := hintsFlags{
		find:   hotspot.DefaultFind(),
		format: usage.NewChoice([]string{hintsText, hintsDirectives, hintsCommands}),
		early:  defaultEarly(),
		mode:   usage.Choice{From: []string{modeThresholds, modeCache, modeTier}},
	}
	cmd := &cobra.Command{
		Use:     "hints FILE [PRODUCTION]",
		Short:   "Say what the compiler of a JVM should know",
		Long:    hintsLong,
		Example: hintsExample,
		GroupID: groupRead,
		Args:    argCount(1, 2, "a profile, with --mode 1 one of a training run and one of production"),
		PreRunE: func(cmd *cobra.Command, args []string) error {
			return errors.Join(f.check(len(args)), f.early.check(cmd, f.mode.Value), f.shared.check(args))
		},
		RunE: func(_ *cobra.Command, args []string) error {
			var profiles []*view.Profile
			for _, path := range args {
				p, err := f.load(env, path)
				if err != nil {
					return err
				}
				profiles = append(profiles, p)
			}
			if f.mode.Value != "" {
				print, err := f.writerOfMode(env, profiles)
				if err != nil {
					return err
				}
				return f.write(env, print)
			}
			hints, leftOut := hotspot.Find(profiles[0].Snapshot, f.find)
			if err := f.callees(env, profiles[0].Snapshot, hints); err != nil {
				return err
			}
			return f.write(env, func(w io.Writer) error { return f.print(w, hotspot.NewFile(hints, leftOut)) })
		},
	}
	f.recency.register(cmd)
	flags := cmd.Flags()
	f.format.Register(cmd, "format", "print `FORMAT`: "+terminal.OrList(f.format.From))
	f.mode.Register(cmd, "mode", "write what uses the profile at the next start, in `MODE` "+terminal.OrList(f.mode.From))
	f.early.register(cmd)
	f.shared.register(cmd)
	f.shared.unused = func() bool { return f.mode.Value == modeCache }
	flags.BoolVar(&f.json, "json", false, "print JSON, which 'ccmapd apply' reads")
	flags.StringVarP(&f.output, "output", "o", stdPath, "write to `FILE`; '-': standard output")
	flags.Float64Var(&f.find.Least, "least", f.find.Least, "leave out hints that can save less than this share of the profile, in `PERCENT`")
	flags.IntVar(&f.find.Depth, "depth", f.find.Depth, "look at up to `N` callers, as far as it takes")
	cmd.MarkFlagsMutuallyExclusive("json", "format", "mode")
	return subcommand{cmd, f.shared.fetched(env, f.shared.sources, reading(firstProfile, flaggedOutput))}
}

// callees adds to hints from where their callees are called, if the shared source knows it better.
func (f *hintsFlags) callees(env *environment, own *ccmap.Snapshot, hints []hotspot.Hint) error {
	called, err := f.shared.called(env, f.recency, own, hotspot.Callees(hints))
	hotspot.Share(hints, called)
	return err
}

func (f *hintsFlags) check(profiles int) error {
	switch {
	case !(f.find.Least >= 0 && f.find.Least <= 100):
		return usage.Errorf("--least %v is not from 0 to 100 percent", f.find.Least)
	case f.find.Depth < 1 || f.find.Depth > pollution.MostCallers:
		return usage.Errorf("--depth must be 1 to %d", pollution.MostCallers)
	}
	return f.checkMode(profiles)
}

// write prints to the output file, or to standard output.
func (f *hintsFlags) write(env *environment, print func(io.Writer) error) error {
	if f.output == stdPath {
		return print(env.stdout)
	}
	return output.Explain(export.WriteOther(f.output, print))
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
				out.Line("  saves %.1f %% at most: %s", h.Saves, h.Reason)
				last = h.Reason
			}
			out.Line("    %-8s  %s at %s:%d%s", string(h.Action), h.Callee.Short(), h.Caller.Short(), h.Bytecode, sharedText(h.Shared))
		}
	}
	for _, reason := range file.LeftOut {
		out.Line("No hint: %s", reason)
	}
	return out.Err()
}

// sharedText says after a hint from where its callee is called.
func sharedText(c *fanin.Called) string {
	if c == nil {
		return ""
	}
	return ", " + c.String()
}
