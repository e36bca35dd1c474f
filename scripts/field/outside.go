package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/ccmapd/ccmapd/scripts/campaign"
	"github.com/ccmapd/ccmapd/scripts/report"
)

// The campaign outside samples foreign programs with the default budgets, on the machine as it is and
// while other programs keep it busy.
const outsidePortion report.Portion = "scripts/field, outside"

// outsider is a program of the campaign. To add one, append it in [outsiders].
type outsider struct {
	name, about string

	// watch samples the program by an engine, and writes the profiles of a window into a folder.
	watch func(ctx context.Context, f *field, engine, folder string) (window, campaign.SessionReport, error)
}

// outsiders are the programs, in the order of the table.
func outsiders() []outsider {
	wanted := []string{"nats", "fortio", "pages", "sqlite", "plugin", "stripped", "debian-caddy", "debian-node-exporter", "go1.24.13", "go1.26.8"}
	all := make([]outsider, len(wanted))
	for _, t := range targets() {
		if i := slices.Index(wanted, t.name); i >= 0 && t.server != nil {
			all[i] = outsider{t.name, t.server.about, t.server.beside}
		}
	}
	return all
}

// outsideLoads are how many processes spin beside the programs.
var outsideLoads = []int{0, 30}

func runOutside(ctx context.Context, f *field) error {
	if err := f.buildClocked(ctx); err != nil {
		return err
	}
	began := time.Now()
	var rows []outsideRow
	var failed error
	for _, o := range outsiders() {
		if !f.Wants(o.name) {
			continue
		}
		found, err := f.outside(ctx, o)
		rows, failed = append(rows, found...), errors.Join(failed, err)
	}
	old, err := f.others(outsidePortion)
	if err != nil {
		return errors.Join(failed, err)
	}
	return errors.Join(failed, f.Write(outsidePortion, outsideReport(rows, old, f.length(), began)))
}

// outside measures a program at each load by each engine.
func (f *field) outside(ctx context.Context, o outsider) (rows []outsideRow, failed error) {
	for _, spinning := range outsideLoads {
		for _, engine := range []string{"bpf", "perf"} {
			r, err := f.outsideRow(ctx, o, spinning, engine)
			if err != nil {
				err = fmt.Errorf("%s by %s, %d processes spin: %w", o.name, engine, spinning, err)
				f.Say("%v", err)
				failed = errors.Join(failed, err)
				continue
			}
			f.Say("%s", strings.Join(r.cells(), " | "))
			rows = append(rows, r)
		}
	}
	return rows, failed
}

func (f *field) outsideRow(ctx context.Context, o outsider, spinning int, engine string) (outsideRow, error) {
	r := outsideRow{about: o.about, spinning: spinning, engine: engine}
	stop, err := f.keepBusy(ctx, spinning)
	if err != nil {
		return r, err
	}
	f.Say("watching %s by %s, %d processes spin", o.name, engine, spinning)
	folder := f.Path("profiles", "outside", fmt.Sprintf("%s-%s-%d", o.name, engine, spinning))
	w, said, err := o.watch(ctx, f, engine, folder)
	r.load = report.LoadAverage()
	stop() // the rest takes long
	if err != nil {
		return r, err
	}
	return r, r.fill(w, said)
}

// beside samples a server in the same window as runtime/pprof does. The interval is runtime/pprof's, and the
// budgets are the defaults.
func (s server) beside(ctx context.Context, f *field, engine, folder string) (w window, said campaign.SessionReport, err error) {
	p, address, stop, err := s.start(ctx, f)
	if err != nil {
		return w, said, err
	}
	defer stop()
	w.file = filepath.Join(folder, "ccmapd.json.gz")
	session, err := f.Attach(ctx, p.PID(), "", w.file, "--engine", engine, "-i", "10ms", "--tune=false", "--max-overhead", "1")
	if err != nil {
		return w, said, err
	}
	before, err1 := p.CPU()
	err2 := f.watchPeer(ctx, &w, address)
	after, err3 := p.CPU()
	said, err4 := session.End()
	w.clock = after - before
	return w, said, errors.Join(err1, err2, err3, err4)
}
