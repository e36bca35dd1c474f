package main

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/cmd/ccmapd/internal/coverage"
	"github.com/ccmapd/ccmapd/cmd/ccmapd/internal/gocover"
	"github.com/ccmapd/ccmapd/cmd/ccmapd/internal/output"
	"github.com/ccmapd/ccmapd/cmd/internal/usage"
	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/internal/feedback/gopgo"
	"github.com/ccmapd/ccmapd/internal/figure"
	"github.com/ccmapd/ccmapd/internal/terminal"
)

var convertLong = `Convert rewrites a profile in another format. The content of IN tells its format, the
name of OUT the other by its end:
` + export.ListExtensions() + `.
Standard input and output are '-'; standard output has no name, so --to says
the format. IN may also be a JFR recording, of the JDK or of async-profiler; --event says
which of its samples. XML and JSON keep everything: docs/formats.md has the losses of
others, and the events.

--pgo, or a name *.pgo, writes a profile for 'go build -pgo': docs/pgo.md.
--recent writes the recent samples only: docs/reading-profiles.md.
--coverage adds, as profile points, the counts of a program that was built with 'go
build -cover'; DIR was its GOCOVERDIR: docs/receivers.md. Runs add up, and so do several
DIRs and the points of IN. Functions are found by their names; executed functions
that are not in IN are added. XML and JSON alone keep it.`

const convertExample = `  ccmapd convert web.pb.gz web.xml
  ccmapd convert --to folded web.pb.gz - | flamegraph.pl > web.svg
  ccmapd convert --pgo web.pb.gz default.pgo
  ccmapd convert --event alloc app.jfr allocated.pb.gz
  ccmapd convert --recent web.pb.gz now.folded
  ccmapd convert --coverage /tmp/cover web.json counted.json
  curl -s http://host/debug/pprof/profile | ccmapd convert - web.json.zst`

func newConvertCmd(env *environment) subcommand {
	var f convertFlags
	cmd := &cobra.Command{
		Use:     "convert IN OUT",
		Short:   "Rewrite a profile in another format",
		Long:    convertLong,
		Example: convertExample,
		GroupID: groupRead,
		Args:    argCount(2, 2, "a profile and an output"),
		RunE: func(_ *cobra.Command, args []string) error {
			return convert(env, f, args[0], args[1])
		},
	}
	registerTo(cmd, &f.to)
	cmd.Flags().BoolVar(&f.labels, "labels", true, "keep the labels of samples")
	cmd.Flags().BoolVar(&f.pgo, "pgo", false, "write a profile for 'go build -pgo'")
	f.view.register(cmd)
	flags := cmd.Flags()
	flags.StringArrayVar(&f.coverage.dirs, "coverage", nil, "add the counts in `DIR`, which was GOCOVERDIR of a program; may be repeated")
	flags.StringVar(&f.coverage.source, "source", "", "with --coverage, look for sources in the module at `DIR`")
	return subcommand{cmd, reading(firstProfile, converted)}
}

// convertFlags are the flags of convert.
type convertFlags struct {
	to       usage.Choice
	view     recency
	coverage coverageFlags
	pgo      bool
	labels   bool // are kept
}

// coverageFlags say which coverage counters are added to the profile.
type coverageFlags struct {
	dirs   []string // each was GOCOVERDIR of a program
	source string   // directory of the module; "": where the profile says
}

// checkFormat refuses formats that have no place for coverage.
func (c coverageFlags) checkFormat(o output.Output) error {
	if format := o.Format(); !format.HasAllPoints() {
		keep := slices.DeleteFunc(export.Formats(), func(f export.Format) bool { return !f.HasAllPoints() })
		return usage.Errorf("--coverage is kept by %s alone: %s has no place for counts of blocks", terminal.OrList(keep), format)
	}
	return nil
}

// explainCoverage adds advice to an error in reading coverage files.
func explainCoverage(err error) error {
	switch {
	case errors.Is(err, gocover.ErrMemory):
		return withHint(err, readMemoryHint)
	case errors.Is(err, gocover.ErrNoData):
		return withHint(err, "Build with 'go build -cover', and run with GOCOVERDIR set to a directory that exists.")
	case errors.Is(err, coverage.ErrNoCounters):
		return withHint(err, "A program writes them when it exits; one that is killed writes none.")
	}
	return err
}

func (f convertFlags) check(o output.Output) error {
	switch {
	case f.pgo && o.Format() != export.Pprof:
		return usage.Errorf("--pgo writes pprof: name OUT *.pgo, *.pb or *.pb.gz, or say --to pprof")
	case f.pgo && len(f.coverage.dirs) > 0:
		return usage.Errorf("--pgo and --coverage exclude each other: pprof has no place for coverage")
	case len(f.coverage.dirs) == 0 && f.coverage.source != "":
		return usage.Errorf("--source is for the functions of --coverage")
	case len(f.coverage.dirs) == 0:
		return nil
	case len(f.view.labels) > 0 || !f.labels:
		return usage.Errorf("--coverage counts under any labels: leave labels out before or after it, in a command of its own")
	case f.view.recent:
		return usage.Errorf("--coverage and --recent exclude each other: coverage is of whole runs")
	}
	return f.coverage.checkFormat(o)
}

func convert(env *environment, f convertFlags, in, path string) error {
	out, err := output.New(path, formatNamed(f.to), terminal.Unguarded(env.stdout))
	if err != nil {
		return err
	}
	if err := f.check(out); err != nil {
		return err
	}
	if len(f.coverage.dirs) > 0 {
		return convertCovered(env, f, in, out)
	}
	p, err := f.view.load(env, in)
	if err != nil {
		return err
	}
	if gopgo.HasRanks(p.Meta()) {
		return explainPGO(fmt.Errorf("convert %s: %w", in, gopgo.ErrRanks))
	}
	s := p.Snapshot
	if f.labels {
		s = p.Labelled()
	}
	if f.pgo {
		if s, err = export.ForPGO(s); err != nil {
			return fmt.Errorf("convert %s: %w", in, err)
		}
	}
	if err := out.Write(s); err != nil {
		return err
	}
	return reportLost(env.stderr, out, s)
}

// reportLost says which counts of a profile the format of its output has no place for.
func reportLost(w io.Writer, out output.Output, s *ccmap.Snapshot) error {
	n := out.Format().LostVMPoints(s)
	if n == 0 {
		return nil
	}
	_, err := fmt.Fprintf(w, "%s: %v has no place for %s that the VM has counted: XML and JSON keep them.\n",
		terminal.Printable(out.Path), out.Format(), figure.Plural(int64(n), "profile point"))
	return err
}

// convertCovered adds coverage to a profile.
func convertCovered(env *environment, f convertFlags, in string, out output.Output) error {
	files, err := coverage.Read(f.coverage.dirs, env.memory.left())
	if err != nil {
		return explainCoverage(err)
	}
	env.memory.held += files.Memory
	m, err := readMap(env, in, f.view.options())
	if err != nil {
		return err
	}
	most := env.memory.left() + export.MapMemory(m)
	imported, err := coverage.Import(m, files.Programs, f.coverage.source, func() int64 { return most - export.MapMemory(m) })
	if err != nil {
		return explainCoverage(err)
	}
	if err := out.Write(m.Snapshot()); err != nil {
		return err
	}
	if err := coverage.ReportIgnored(env.stderr, files.Ignored); err != nil {
		return err
	}
	return imported.Report(env.stderr)
}
