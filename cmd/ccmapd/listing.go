package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ccmapd/ccmapd/ccmap"
)

// listing are the flags of all commands that list what is in a profile.
type listing struct {
	limit uint // rows; 0: all
	sort  choice
	json  bool
	methodFlags
	recency
}

// register adds the flags; the first of sorts is the default.
func (l *listing) register(cmd *cobra.Command, limit uint, sorts ...string) {
	l.sort = choice{value: sorts[0], from: sorts}
	flags := cmd.Flags()
	flags.UintVarP(&l.limit, "limit", "n", limit, "list at most `N`; 0: all")
	registerChoice(cmd, &l.sort, "sort", "order `BY` "+orList(sorts))
	l.methodFlags.register(cmd)
	l.recency.register(cmd)
	flags.BoolVar(&l.json, "json", false, "print JSON")
}

// cut returns the first rows of a list, as many as are wanted.
func cut[T any](rows []T, limit uint) []T {
	if limit == 0 || uint(len(rows)) <= limit {
		return rows
	}
	return rows[:limit]
}

// choice is the value of a flag that takes one of a few words.
type choice struct {
	value string
	from  []string
}

func (c *choice) String() string { return c.value }
func (c *choice) Type() string   { return "word" }

func (c *choice) Set(s string) error {
	if !slices.Contains(c.from, s) {
		return fmt.Errorf("must be %s", orList(c.from))
	}
	c.value = s
	return nil
}

func registerChoice(cmd *cobra.Command, c *choice, name, usage string) {
	cmd.Flags().Var(c, name, usage)
	// The only error is that there is no such flag.
	_ = cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(c.from, cobra.ShellCompDirectiveNoFileComp))
}

// orList prints "a, b or c".
func orList(words []string) string {
	last := len(words) - 1
	if last == 0 {
		return words[0]
	}
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// The words of --sort that name a counter.
const (
	sortTime        = "time"
	sortSamples     = "samples"
	sortActivations = "activations"
)

// sortName orders by name alone.
const sortName = "name"

// hotter compares two counters by one of these words, the higher first. By time
// means by the measure of the profile, which may have samples only.
func (m measure) hotter(by string, a, b ccmap.Counters) int {
	switch by {
	case sortSamples:
		return cmp.Compare(b.Samples, a.Samples)
	case sortActivations:
		return cmp.Compare(b.Activations, a.Activations)
	}
	return cmp.Compare(m.of(b), m.of(a))
}

// countersJSON is how all commands print counters as JSON.
type countersJSON struct {
	amountJSON
	Activations int64 `json:"activations"`
}

// amountJSON are counters where there are no activations.
type amountJSON struct {
	Samples int64   `json:"samples"`
	TimeNS  int64   `json:"time_ns"`
	Percent float64 `json:"percent"` // of the whole profile, by time, or by samples where it has no time
}

func (m measure) json(c ccmap.Counters) countersJSON {
	return countersJSON{m.amountJSON(c), c.Activations}
}

func (m measure) amountJSON(c ccmap.Counters) amountJSON {
	return amountJSON{c.Samples, c.Time, percent(m.of(c), m.total)}
}
