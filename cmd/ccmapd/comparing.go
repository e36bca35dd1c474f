package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/ccmap/compare"
	"github.com/ccmapd/ccmapd/cmd/internal/usage"
	"github.com/ccmapd/ccmapd/internal/terminal"
	"github.com/ccmapd/ccmapd/view"
)

// comparing are the flags of all commands that compare profiles.
type comparing struct {
	by         usage.Choice
	absorption string // regexp; empty: nothing
	printing
	recency
}

// register adds the flags; the first of the weights is the default.
func (c *comparing) register(cmd *cobra.Command, layout view.Layout, weights ...compare.Weight) {
	for _, w := range weights {
		c.by.From = append(c.by.From, w.String())
	}
	c.by.Value = c.by.From[0]
	c.by.Register(cmd, "by", "weigh `BY` "+terminal.OrList(c.by.From))
	cmd.Flags().StringVar(&c.absorption, "absorb", "", "count methods that match `REGEXP`, and what they call, for their callers")
	c.printing.register(cmd, layout)
	c.recency.register(cmd)
}

// compared are profiles, and how to compare them.
type compared struct {
	profiles []*view.Profile
	weight   compare.Weight
	absorb   func(ccmap.Method) bool // nil: nothing
}

// read reads the profiles.
func (c comparing) read(env *environment, paths []string) (read compared, err error) {
	read.profiles = make([]*view.Profile, len(paths))
	for i, path := range paths {
		if read.profiles[i], err = c.load(env, path); err != nil {
			return read, err
		}
	}
	if err := read.weight.UnmarshalText([]byte(c.by.Value)); err != nil {
		return read, usage.Of(err)
	}
	if c.absorption == "" {
		return read, nil
	}
	re, err := compileRegexp(c.absorption)
	if err != nil {
		return read, usage.Errorf("--absorb: %w", err)
	}
	read.absorb = func(m ccmap.Method) bool { return re.MatchString(m.Name) || re.MatchString(m.Title()) }
	return read, nil
}

// explainCompare adds advice to an error in comparing profiles.
func explainCompare(err error) error {
	if errors.Is(err, compare.ErrEmpty) {
		return withHint(err, "Sample for longer, weigh by something else (--by samples, --by time) or absorb less.")
	}
	if errors.Is(err, ccmap.ErrUnlike) {
		return withHint(err, oneKind+"\n'overlap --by samples' compares with samples of tools that name no unit, --any-unit the shares of anything.")
	}
	return err
}

// oneKind is the advice about profiles that measure different things.
const oneKind = "Take profiles of one kind: --sample-type chooses what is read from pprof files that have\n" +
	"several, for example samples or alloc_space."
