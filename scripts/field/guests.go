package main

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"strings"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/scripts/campaign"
	"github.com/ccmapd/ccmapd/testdata/guests"
)

// guestTargets are WebAssembly programs. Their peer is the exact profile: every call,
// weighted by executed instructions.
func guestTargets() []target {
	of := func(name, about string, exact, sampled guests.Guest) target {
		return target{name: name, measure: func(ctx context.Context, f *field, name string) (row, error) {
			return measureGuest(ctx, f, name, about, exact, sampled)
		}}
	}
	return []target{
		of("guest-eval", "guest: an interpreter in Go; against `--exact`", guests.Eval(5), guests.Eval(800)),
		of("guest-parse", "guest: a parser in C; against `--exact`", guests.Parse(2), guests.Parse(1500)),
		of("guest-esbuild", "guest: esbuild, from npm; against `--exact`", guests.Esbuild(2), guests.Esbuild(500)),
	}
}

// measureGuest runs a guest twice: once with all calls counted, once sampled for longer.
func measureGuest(ctx context.Context, f *field, name, about string, exact, sampled guests.Guest) (row, error) {
	module, err := sampled.Path(ctx)
	if err != nil {
		return row{}, err
	}
	w := f.newWindow(name)
	w.peer = filepath.Join(filepath.Dir(w.file), "exact.json.gz")
	if err := os.MkdirAll(filepath.Dir(w.file), 0o755); err != nil {
		return row{}, err
	}
	f.Say("watching %s", name)
	if err := f.runGuest(ctx, module, exact, "--exact", "-o", w.peer); err != nil {
		return row{}, err
	}
	if err := f.runGuest(ctx, module, sampled, "--tune=false", "-i", "10ms", "-o", w.file, "-o", w.pprof); err != nil {
		return row{}, err
	}
	return f.judgeGuest(ctx, name, about, w)
}

func (f *field) judgeGuest(ctx context.Context, name, about string, w window) (row, error) {
	peer := w.peer
	w.peer = "" // newRow compares by the rules for runtime/pprof
	r, err := newRow(name, about, w)
	if err != nil {
		return r, err
	}
	s, err := campaign.ReadProfile(w.file)
	if err != nil {
		return r, err
	}
	exact, err := campaign.ReadProfile(peer)
	if err != nil {
		return r, err
	}
	r.unaccounted = math.NaN() // the host's time is in the clock of the process, too
	if err := r.compare(s, exact, func(ccmap.Method) bool { return false }); err != nil {
		return r, err
	}
	r.pprof, err = readByPprof(ctx, w)
	return r, err
}

// runGuest runs a guest's command to its end under 'ccmapd run'.
func (f *field) runGuest(ctx context.Context, module string, g guests.Guest, flags ...string) error {
	args := append([]string{f.Ccmapd, "run", "-q"}, flags...)
	cmd, err := campaign.Launch{Command: append(append(args, module), g.Args...)}.Cmd(ctx)
	if err != nil {
		return err
	}
	cmd.Stdin = strings.NewReader(g.Stdin)
	return campaign.Command(cmd)
}
