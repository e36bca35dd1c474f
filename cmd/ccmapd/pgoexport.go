package main

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/cmd/ccmapd/internal/output"
	"github.com/ccmapd/ccmapd/cmd/internal/signals"
	"github.com/ccmapd/ccmapd/cmd/internal/usage"
	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/internal/feedback/gopgo"
	"github.com/ccmapd/ccmapd/internal/figure"
	"github.com/ccmapd/ccmapd/internal/terminal"
)

const pgoExportLong = `Export writes a profile for 'go build -pgo'. IN is a file, or what a daemon has: @web,
@best:web. OUT is named *.pgo: the compiler finds default.pgo beside the main package.

--minimal leaves out all calls that decide nothing in the compiler. Such a file is for
the compiler alone: its sample counts are ranks, and only its times are true. Calls with
fewer than --least-samples are left out, which changes decisions if it is more than 1.

--weight activations weighs a call by how many new activations samples found, at all
depths, in place of the samples in it. 'attach', 'run' and 'serve' count them.

--verify builds PACKAGES with the whole and with the minimal profile, by the 'go' of PATH,
and compares what the compiler decides. If that differs, it is an error, and nothing is
written. This compiles all that they import, twice.`

const pgoExportExample = `  ccmapd pgo export web.pb.gz default.pgo
  ccmapd pgo export @best:web cmd/web/default.pgo --minimal
  ccmapd pgo export web.json default.pgo --weight activations --json
  ccmapd pgo export web.pb.gz default.pgo --minimal --verify ./cmd/web`

// pgoExportFlags are the flags of pgo export.
type pgoExportFlags struct {
	recency
	weight  usage.Choice
	minimal bool
	least   int64
	verify  string // packages; "": none
	asJSON  bool
}

func newPGOExportCmd(env *environment) subcommand {
	f := pgoExportFlags{least: 1}
	for _, w := range gopgo.Weights() {
		f.weight.From = append(f.weight.From, string(w))
	}
	f.weight.Value = string(gopgo.BySamples)
	cmd := &cobra.Command{
		Use:     "export IN OUT",
		Short:   "Write a profile for 'go build -pgo'",
		Long:    pgoExportLong,
		Example: pgoExportExample,
		Args:    argCount(2, 2, "a profile and an output"),
		PreRunE: func(_ *cobra.Command, args []string) error { return f.check(args[1]) },
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(cmd.Context(), env, args[0], args[1])
		},
	}
	f.recency.register(cmd)
	f.weight.Register(cmd, "weight", "weigh calls by `WHAT`: "+terminal.OrList(f.weight.From))
	flags := cmd.Flags()
	flags.BoolVar(&f.minimal, "minimal", false, "write the calls alone that decide something in the compiler")
	flags.Int64Var(&f.least, "least-samples", f.least, "with --minimal, leave out calls with fewer than `N` samples or activations")
	flags.StringVar(&f.verify, "verify", "", "with --minimal, compare the compiler's decisions in `PACKAGES`")
	flags.BoolVar(&f.asJSON, "json", false, "print JSON, which has every figure")
	confined := reading(firstProfile, converted)
	return subcommand{cmd, func(env *environment, cmd *cobra.Command, args []string) error {
		if f.verify != "" {
			return filesAlone(env, cmd, args) // it starts the compiler
		}
		return confined(env, cmd, args)
	}}
}

func (f *pgoExportFlags) check(out string) error {
	switch {
	case !export.IsPGO(out):
		return usage.Errorf("output %s: name it *.pgo, as default.pgo", out)
	case f.least < 1:
		return usage.Errorf("--least-samples must be 1 at least")
	case f.least > 1 && !f.minimal:
		return usage.Errorf("--least-samples is for --minimal")
	case f.verify != "" && !f.minimal:
		return usage.Errorf("--verify is for --minimal: the whole profile is what it compares with")
	}
	return nil
}

// pgoExported is the JSON of pgo export.
type pgoExported struct {
	File      string `json:"file"`
	Bytes     int64  `json:"bytes"`
	Weight    string `json:"weight"` // samples or activations
	Minimal   bool   `json:"minimal"`
	Calls     int    `json:"calls"`               // in the whole profile
	Hot       int    `json:"hot"`                 // calls that the compiler takes for hot
	HotSingle int    `json:"hot_single"`          // of the hot ones: they rest on one sample or activation
	Written   int    `json:"written"`             // calls in the file
	Decisions *int   `json:"decisions,omitempty"` // of the compiler, with --verify
}

func (f *pgoExportFlags) run(ctx context.Context, env *environment, in, out string) error {
	p, err := f.load(env, in)
	if err != nil {
		return err
	}
	by := gopgo.Weight(f.weight.Value)
	edges, err := gopgo.Edges(p.Snapshot, by)
	if err != nil {
		return explainPGO(fmt.Errorf("export %s: %w", in, err))
	}
	result := pgoExported{File: out, Weight: string(by), Minimal: f.minimal, Calls: len(edges), Hot: gopgo.Hot(edges), Written: len(edges)}
	for _, e := range edges[:result.Hot] {
		if e.Weight == 1 {
			result.HotSingle++
		}
	}
	written, err := f.choose(edges, p.Meta(), &result)
	if err != nil {
		return explainPGO(fmt.Errorf("export %s: %w", in, err))
	}
	if f.verify != "" {
		n, err := verifyPGO(ctx, f.verify, gopgo.Whole(edges, by, p.Meta()), written)
		if err != nil {
			return explainPGO(err)
		}
		result.Decisions = &n
	}
	return f.write(env, p.Snapshot, written, result)
}

// choose returns the profile to be written; nil: that which other commands write, too.
func (f *pgoExportFlags) choose(edges []gopgo.Edge, of ccmap.Meta, result *pgoExported) (*ccmap.Map, error) {
	by := gopgo.Weight(f.weight.Value)
	if !f.minimal {
		if by == gopgo.ByActivations {
			return gopgo.Whole(edges, by, of), nil
		}
		return nil, nil
	}
	m := gopgo.Minimize(edges, f.least)
	if len(m.Hot) == 0 {
		return nil, withHint(fmt.Errorf("no hot call has %d %s", f.least, by), "Lower --least-samples.")
	}
	result.Written = len(m.Hot) + len(m.Light)
	return m.Map(of)
}

// write writes the file, and says what is in it.
func (f *pgoExportFlags) write(env *environment, from *ccmap.Snapshot, written *ccmap.Map, result pgoExported) error {
	var err error
	if written != nil {
		result.Bytes, err = writeEdges(result.File, written)
	} else {
		err = export.WriteFile(result.File, from)
		if info, statErr := os.Stat(result.File); err == nil && statErr == nil {
			result.Bytes = info.Size()
		}
	}
	if err != nil {
		return output.Explain(err)
	}
	if f.asJSON {
		return terminal.WriteJSON(env.stdout, result)
	}
	return printPGOExported(env.stdout, result, f.verify)
}

// writeEdges writes a profile as it is, and returns the bytes of the file.
func writeEdges(path string, m *ccmap.Map) (bytes int64, err error) {
	err = export.WriteOther(path, func(w io.Writer) error {
		counter := &countingWriter{to: w}
		z, err := gzip.NewWriterLevel(counter, gzip.BestCompression)
		if err != nil {
			return err
		}
		err = errors.Join(export.Write(z, export.Pprof, m.Snapshot()), z.Close())
		bytes = counter.bytes
		return err
	})
	return bytes, err
}

// countingWriter counts what is written.
type countingWriter struct {
	to    io.Writer
	bytes int64
}

func (w *countingWriter) Write(p []byte) (int, error) {
	n, err := w.to.Write(p)
	w.bytes += int64(n)
	return n, err
}

func printPGOExported(w io.Writer, r pgoExported, packages string) error {
	out := terminal.NewPrinter(w, false)
	out.Line("%s: %s of %s, %s", terminal.Printable(r.File), figure.Count(int64(r.Written)), figure.Plural(int64(r.Calls), "call"), figure.Size(r.Bytes))
	out.Line("The compiler takes %s for hot; %s of them rest on one of the %s.",
		figure.Plural(int64(r.Hot), "call"), figure.Percent(figure.Share(int64(r.HotSingle), int64(r.Hot))), r.Weight)
	if r.Decisions != nil {
		out.Line("Verified: %s in %s, the same with the whole profile.", figure.Plural(int64(*r.Decisions), "decision"), terminal.Printable(packages))
	}
	return out.Err()
}

// verifyPGO compares the compiler's decisions in packages, and returns how many there are. A signal ends the
// builds, and nothing is left of them.
func verifyPGO(ctx context.Context, packages string, whole, minimal *ccmap.Map) (decisions int, err error) {
	ctx, stop := signals.Until(ctx)
	defer stop()
	dir, err := os.MkdirTemp("", "ccmapd-pgo-")
	if err != nil {
		return 0, fmt.Errorf("make a directory for profiles: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	var both [2][]string
	for i, m := range []*ccmap.Map{whole, minimal} {
		path := filepath.Join(dir, []string{"whole.pgo", "minimal.pgo"}[i])
		if _, err := writeEdges(path, m); err != nil {
			return 0, err
		}
		if both[i], err = gopgo.Decisions(ctx, packages, path); ctx.Err() != nil {
			return 0, exitError{code: signals.Of(ctx).ExitCode()}
		} else if err != nil {
			return 0, err
		}
	}
	return len(both[0]), gopgo.SameDecisions(both[0], both[1])
}

// explainPGO adds advice to an error about profiles for Go's compiler.
func explainPGO(err error) error {
	switch {
	case errors.Is(err, gopgo.ErrRanks):
		return withHint(err, "Take the profile that it was made of.")
	case errors.Is(err, gopgo.ErrNoActivations):
		return withHint(err, "'attach', 'run' and 'serve' count them, and all formats but folded stacks keep them.\n--weight samples needs none.")
	case errors.Is(err, gopgo.ErrNoEdges), errors.Is(err, export.ErrNoGo):
		return withHint(err, "Take the profile of a Go program of Go 1.20 at least, with 'ccmapd attach -o' or runtime/pprof.")
	case errors.Is(err, gopgo.ErrDecisions):
		return withHint(err, "With --least-samples 1 the decisions are the same.")
	}
	return err
}
