package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ccmapd/ccmapd/cmd/ccmapd/internal/output"
	"github.com/ccmapd/ccmapd/cmd/internal/usage"
	"github.com/ccmapd/ccmapd/daemon/client"
	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/internal/fanin"
	"github.com/ccmapd/ccmapd/internal/figure"
	"github.com/ccmapd/ccmapd/internal/terminal"
)

const fanInStoreLong = `Store keeps the best fan-in of each method in one file, TABLE, which is made if it is not
there. Methods that the table lacks are created. One that it has is overwritten with a
better one alone: with more samples, beyond their noise. What is about equal or worse
leaves the entry that stands. All profiles are read before the table is replaced, at once.

A table that is damaged is left as it is. One program at a time may store into a table.`

const fanInStoreExample = `  ccmapd fanin store web.fi monday.pb.gz tuesday.pb.gz
  ccmapd fanin store web.fi @hub/build:web && ccmapd fanin web.fi main.parse`

// fanInStoreFlags are the flags of fanin store.
type fanInStoreFlags struct {
	recency
	files  fanInFiles
	asJSON bool
}

func newFanInStoreCmd(env *environment) subcommand {
	f := fanInStoreFlags{files: fanInFiles{}}
	cmd := &cobra.Command{
		Use: "store TABLE PROFILE...", Short: "Keep the best fan-in of each method in a file", Long: fanInStoreLong, Example: fanInStoreExample,
		Args: argCount(2, anyNumber, "a table, and profiles or files of fan-in"),
		PreRunE: func(_ *cobra.Command, args []string) error {
			if table := args[0]; table == stdPath || client.IsRemote(table) || export.IsStream(table) {
				return usage.Errorf("%s is no file that could be replaced: name the table first, as in 'ccmapd fanin store web.fi web.pb.gz'", client.Name(table))
			}
			return checkStdinOnce(args)
		},
		RunE: func(_ *cobra.Command, args []string) error { return f.run(env, args[0], args[1:]) },
	}
	f.recency.register(cmd)
	cmd.Flags().BoolVar(&f.asJSON, "json", false, "print JSON, which has every figure")
	sources := func(args []string) []string { return args[min(1, len(args)):] }
	local := func(args []string) []string { return slices.DeleteFunc(slices.Clone(sources(args)), ofHub) }
	table := func(_ *cobra.Command, args []string) []string { return toOpen(args[:min(1, len(args))]) }
	return subcommand{cmd, f.files.fetched(env, sources, reading(local, table))}
}

// storedFanIn is what fanin store prints.
type storedFanIn struct {
	Table   string              `json:"table"`
	Methods int                 `json:"methods"` // that the table has now
	Bytes   int                 `json:"bytes"`   // of the table
	Sources []storedFanInSource `json:"sources"`
}

// storedFanInSource is what became of the methods of a source.
type storedFanInSource struct {
	Source string `json:"source"`
	fanin.Stored
}

func (f *fanInStoreFlags) run(env *environment, path string, sources []string) error {
	table, err := readTable(path)
	if err != nil {
		return err
	}
	done := storedFanIn{Table: path}
	for _, where := range sources {
		source, err := f.files.read(env, where, f.recency)
		if err != nil {
			return err
		}
		done.Sources = append(done.Sources, storedFanInSource{client.Name(where), table.Store(source.List)})
	}
	file, err := table.Encode()
	if err != nil {
		return withHint(err, "Store into several tables.")
	}
	done.Methods, done.Bytes = len(table), len(file)
	err = export.WriteOther(path, func(w io.Writer) error { _, err := w.Write(file); return err })
	if err != nil {
		return output.Explain(err)
	}
	if f.asJSON {
		return terminal.WriteJSON(env.stdout, done)
	}
	out := terminal.NewPrinter(env.stdout, env.wide)
	for _, s := range done.Sources {
		out.Line("%s: %s", s.Source, storedText(s.Stored))
	}
	out.Line("%s: %s in %s", path, figure.Plural(int64(done.Methods), "method"), figure.Size(int64(done.Bytes)))
	return out.Err()
}

// storedText lists what became of the methods of a source.
func storedText(s fanin.Stored) string {
	return strings.Join([]string{
		figure.Count(int64(s.Created)) + " created", figure.Count(int64(s.Overwritten)) + " overwritten",
		figure.Plural(int64(s.Ties), "tie"), figure.Count(int64(s.Worse)) + " worse",
	}, ", ")
}

// readTable reads a table, which is empty if there is no such file.
func readTable(path string) (fanin.Table, error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return fanin.Table{}, nil
	}
	if err != nil {
		return nil, explainRead(err)
	}
	defer file.Close()
	b, err := io.ReadAll(io.LimitReader(file, mostFanIn+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	all, err := fanin.Read(b)
	if err != nil {
		return nil, withHint(fmt.Errorf("read table %s: %w", path, err),
			"It is left as it is. Name another file, which is made, or move this one away: what it had is stored again from its profiles.")
	}
	return fanin.TableOf(all), nil
}
