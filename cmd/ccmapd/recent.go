package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/export"
)

// recency says which part of a run a command reads: all of it, or its window of
// recent samples; and which values of a pprof profile, if not the default.
type recency struct {
	recent     bool
	sampleType string
}

const recentHelp = `With --recent the figures are of recent samples, in place of the whole run: those
of the window of 'attach --window', where a sample weighs the less the longer ago
it was. Activations are not counted there.`

func (r *recency) register(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&r.recent, "recent", false, "read the window of recent samples, in place of the whole run")
	registerSampleType(cmd, &r.sampleType)
}

// registerSampleType adds the flag that chooses the sample type of pprof files.
func registerSampleType(cmd *cobra.Command, sampleType *string) {
	cmd.Flags().StringVar(sampleType, "sample-type", "", "read values of this `TYPE` from pprof files, as alloc_space; default: what 'go tool pprof' shows")
}

func (r recency) options() export.ReadOptions { return export.ReadOptions{SampleType: r.sampleType} }

// load reads a profile, and of it what is asked for.
func (r recency) load(env *environment, path string) (*profile, error) {
	p, err := loadProfile(env, path, r.options())
	if err != nil || !r.recent {
		return p, err
	}
	return p.recent()
}

// recent returns the window of a profile as a profile.
func (p *profile) recent() (*profile, error) {
	window, ok := p.Recent()
	if !ok {
		return nil, p.noWindow()
	}
	recent := newProfile(p.path, window)
	recent.whole = p.Snapshot
	return recent, nil
}

func (p *profile) noWindow() error {
	return withHint(fmt.Errorf("%s has no window of recent samples", p.path),
		"A window is kept by 'attach' and 'run', unless with --window 0, and by the formats\n"+
			"pprof, XML and JSON.")
}

// window returns the window, also where that is what is shown.
func (p *profile) window() (*ccmap.Snapshot, bool) {
	if p.isRecent() {
		return p.Snapshot, true
	}
	return p.Recent()
}

// isRecent reports whether the figures are of the window.
func (p *profile) isRecent() bool { return p.whole != p.Snapshot }

// recentShares returns what prints a part of the window as a share of it.
func (p *profile) recentShares() func(ccmap.Counters) string {
	window, ok := p.Recent()
	if !ok {
		return func(ccmap.Counters) string { return unknown }
	}
	return measureOf(window).share
}
