package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/ccmapd/ccmapd/scripts/campaign"
	"github.com/ccmapd/ccmapd/scripts/compiler"
	"github.com/ccmapd/ccmapd/scripts/report"
	"github.com/ccmapd/ccmapd/testdata/guests"
)

// The campaign begun samples foreign programs from their start to their end, under run: their stacks grow, and
// their threads begin and end.
const begunPortion report.Portion = "scripts/field, begun"

// beginner is a program of the campaign. To add one, append it in [beginners].
type beginner struct {
	name, about   string
	mostTruncated map[string]float64 // percent of the time, by engine
	command       func(ctx context.Context, f *field) ([]string, error)
}

// half is the reach of programs whose stacks stay still.
var half = map[string]float64{"bpf": 0.5, "perf": 0.5}

// beginners are the programs, in the order of the table.
func beginners() []beginner {
	return []beginner{
		{"esbuild", "esbuild 0.28.2 from npm, minifies TypeScript 5.9.3", half, esbuildCommand},
		{"compile", "the Go compiler on `" + compiled + "`", half, func(_ context.Context, f *field) ([]string, error) {
			return compiler.Command(compiled, f.Path("importcfg"))
		}},
		{"deep", "a recursion of 10,000 calls (of ours)", map[string]float64{"bpf": 1, "perf": 1}, func(ctx context.Context, f *field) ([]string, error) {
			file := f.Path("deep")
			return []string{file, "-mode", "deep", "-n", "10000", "-d", "10s"}, campaign.Build(ctx, file, "./cmd/ccmapd/internal/demo/main")
		}},
	}
}

// Files from npm, pinned.
var (
	esbuild = guests.Package{
		Registry: "npm", Name: "@esbuild/linux-x64", Version: "0.28.2", File: "bin/esbuild",
		SHA256: "e1698a3d5c6c0798fee4fd3b5cc816651f460c63d390a7a26ea4beb0b1884100",
	}
	typescript = guests.Package{
		Registry: "npm", Name: "typescript", Version: "5.9.3", File: "lib/typescript.js",
		SHA256: "3ae902c92cc44dace175c0e69e13a4b0899f6983c6121d76b9ab8dd5795e7675",
	}
)

// minified is how many copies esbuild minifies: one takes it less than a second.
const minified = 8

func esbuildCommand(ctx context.Context, f *field) ([]string, error) {
	executable, err1 := guests.Fetch(ctx, "native-esbuild", esbuild)
	source, err2 := guests.Fetch(ctx, "typescript-source", typescript)
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	folder := f.Path("esbuild")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, err
	}
	command := []string{filepath.Join(folder, "esbuild"), "--minify", "--log-level=error", "--outdir=" + filepath.Join(folder, "out")}
	if err := copyFile(executable, command[0], 0o755); err != nil {
		return nil, err
	}
	for i := range minified {
		file := filepath.Join(folder, fmt.Sprintf("copy%d.js", i))
		if err := copyFile(source, file, 0o644); err != nil {
			return nil, err
		}
		command = append(command, file)
	}
	return command, nil
}

func copyFile(from, to string, mode os.FileMode) error {
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, content, mode)
}

func runBegun(ctx context.Context, f *field) error {
	if err := f.buildClocked(ctx); err != nil {
		return err
	}
	began := time.Now()
	rows := report.Table{Head: []string{"program", "processes beside", "load", "engine", "samples", "truncated %", "unknown %", "unaccounted %", "overhead %", "reach"}}
	old, failed := f.others(begunPortion)
	again := make(map[string]bool)
	for _, b := range beginners() {
		if !f.Wants(b.name) {
			continue
		}
		command, err := b.command(ctx, f)
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("make %s: %w", b.name, err))
			continue
		}
		loads := outsideLoads
		if f.Quick {
			loads = loads[:1] // the others take ten times as long
		}
		for _, spinning := range loads {
			for _, engine := range []string{"bpf", "perf"} {
				cells, err := f.begin(ctx, b, command, spinning, engine)
				if err != nil {
					failed = errors.Join(failed, fmt.Errorf("%s by %s, %d processes spin: %w", b.name, engine, spinning, err))
					continue
				}
				f.Say("%s", strings.Join(cells, " | "))
				again[b.about] = true
				rows.Row(cells...)
			}
		}
	}
	t := report.Table{Head: rows.Head}
	addOthers(&t, old, again)
	t.Rows = append(t.Rows, rows.Rows...)
	text := fmt.Sprintf("%s The last run took %v.\n\n%s", report.Measured(began), after(began), strings.TrimSuffix(t.String(), "\n"))
	return errors.Join(failed, f.Write(begunPortion, text))
}

// begin runs a program under ccmapd, and returns the cells of its row.
func (f *field) begin(ctx context.Context, b beginner, command []string, spinning int, engine string) ([]string, error) {
	stop, err := f.keepBusy(ctx, spinning)
	if err != nil {
		return nil, err
	}
	defer stop()
	f.Say("running %s under %s, %d processes spin", b.name, engine, spinning)
	w := f.newWindow(filepath.Join("begun", fmt.Sprintf("%s-%s-%d", b.name, engine, spinning)))
	if err := os.MkdirAll(filepath.Dir(w.file), 0o755); err != nil {
		return nil, err
	}
	run := []string{f.Ccmapd, "run", "--json", "--engine", engine, "-o", w.file, "--tune=false", "-i", "10ms", "--"}
	var said bytes.Buffer // run reports to its standard error
	cmd, err := campaign.Launch{Command: append(run, command...)}.Cmd(ctx)
	if err != nil {
		return nil, err
	}
	cmd.Stderr = &said
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("run %s: %w\n%s", b.name, err, &said)
	}
	load := report.LoadAverage()
	told, err := campaign.ParseReport(said.Bytes())
	if err != nil {
		return nil, err
	}
	s, err := campaign.ReadProfile(w.file)
	if err != nil {
		return nil, err
	}
	truncated, loss := shareOf(s, isTruncated), s.Meta().Loss
	reach := "all"
	if most := b.mostTruncated[engine]; truncated > most {
		reach = fmt.Sprintf("all but truncated, want %s %%", report.Number(most, 1))
	}
	if told.Profile.Held != "" {
		reach += "; " + strings.ReplaceAll(told.Profile.Held, "|", "/")
	}
	return []string{b.about, fmt.Sprint(spinning), report.Number(load, 0), engine, report.Count(float64(s.Total().Samples)), report.Number(truncated, 2),
		report.Number(shareOf(s, isUnknown), 2), report.Number(100*loss.Unaccounted.Seconds()/max(loss.Clock.Seconds(), 1e-9), 1),
		report.Number(told.Overhead.Percent, 2), reach}, nil
}
