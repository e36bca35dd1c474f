package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/sampler/wasm"
	"github.com/ccmapd/ccmapd/valueprof/pollution"
)

func printReceivers(env *environment, r receiverList) error {
	shown := cut(r.rows, r.flags.limit)
	if r.flags.json {
		return writeJSON(env.stdout, receiversJSON(r, shown))
	}
	t := receiversTable{r, &table{columns: []column{
		{title: "cum", right: true},
		{title: "share", right: true},
		{title: "of all", right: true, drop: 4},
		{title: "samples", right: true, drop: 3},
		{title: "calls", right: true, drop: 1},
		{title: "of calls", right: true, drop: 1},
		{title: "bits", right: true},
		{title: "call site", shorten: shortenMethod, least: 34},
		{title: "location", shorten: shortenLocation, least: 16, drop: 2},
		{title: "verdict", shorten: shortenMiddle, least: 24},
	}}}
	for _, row := range shown {
		t.addSite(row)
	}
	return r.print(env, t.table, len(r.rows)-len(shown), r.notes(shown)...)
}

// notes say what the figures are of, and what is missing.
func (r receiverList) notes(shown []receiversRow) []string {
	notes := append([]string{r.caughtNote()}, r.lowerBounds("Contexts")...)
	if !r.countsSamples() {
		notes = append(notes, "Of an unknown number of samples, contexts may have fewer receivers by chance.")
	}
	if slices.ContainsFunc(shown, receiversRow.hasTimeless) {
		notes = append(notes, r.timelessNote())
	}
	if r.hidden > 0 {
		notes = append(notes, fmt.Sprintf("%s with one receiver, or of different names: --all lists them.",
			plural(int64(r.hidden), "more call site")))
	}
	return notes
}

// timelessNote says why a receiver may have no time.
func (r receiverList) timelessNote() string {
	if r.Meta().Engine == wasm.SamplingEngine {
		return "A receiver without CPU time is short."
	}
	return "A receiver without CPU time is short, or runs a method of a type that it embeds: the\n" +
		"time stands there."
}

// caughtNote says how many calls were caught or, if none, what to do about it.
func (r receiverList) caughtNote() string {
	if r.caught == 0 {
		return noCallsCaught(r.Meta().Engine)
	}
	note := plural(r.caught, "call") + " caught"
	if r.Meta().Engine != wasm.SamplingEngine {
		note += " by breakpoints"
	}
	return note + r.ofPhase() + "."
}

// noCallsCaught says what it means that an engine has caught no calls.
func noCallsCaught(engine string) string {
	switch engine {
	case wasm.ExactEngine:
		return "No calls were caught: with --exact each one is recorded, as a sample."
	case wasm.SamplingEngine:
		return "No calls were caught. 'ccmapd run' catches calls through tables, unless with --hits 0;\n" +
			"pprof, XML and JSON keep them."
	}
	if engine == "managed" {
		return "No calls were caught: the VM made none, or none when one was wanted."
	}
	return "No calls were caught: types are those that declare the sampled methods, not those\n" +
		"that embed them. 'ccmapd attach' catches calls, unless with --hits 0 or where the\n" +
		"machine has no breakpoint free; pprof, XML and JSON keep them."
}

// receiversTable is the text of a list of receivers.
type receiversTable struct {
	receiverList
	*table
}

func (t receiversTable) addSite(row receiversRow) {
	samples, calls := row.Samples.Total(), row.Calls.Total()
	t.addRow(row, samples, calls, row.bits(), methodTitle(row.caller), formatLocation(t.Names(), row.call()), row.verdict())
	t.addTypes(row)
	split, _ := row.telling()
	t.addContexts(row, split)
}

// addRow adds what samples and calls have of a site, then the given cells. What one
// of them has not seen stays empty.
func (t receiversTable) addRow(row receiversRow, samples, calls pollution.Amount, cells ...string) {
	figures := make([]string, 6)
	if samples != (pollution.Amount{}) {
		c := t.counters(samples)
		share := formatPercent(percent(samples.Weight, row.Samples.Total().Weight))
		copy(figures, []string{t.measure.format(c), share, t.measure.share(c), t.formatSamples(c)})
	}
	if calls != (pollution.Amount{}) {
		share := formatPercent(percent(calls.Seen, row.Calls.Total().Seen))
		copy(figures[4:], []string{formatCount(calls.Seen), share})
	}
	t.add(append(figures, cells...)...)
}

// counters returns what is known of samples as the profile's counters have it.
func (p *profile) counters(a pollution.Amount) ccmap.Counters {
	var c ccmap.Counters
	if p.countsSamples() {
		c.Samples = a.Seen
	}
	if p.measure.weighted {
		c.Time = a.Weight
	}
	return c
}

// addTypes adds the first receivers of a site; the others are added up.
func (t receiversTable) addTypes(row receiversRow) {
	all := row.Receivers()
	shown := cut(all, t.flags.types)
	for _, r := range shown {
		t.addRow(row, r.Sampled.Amount, r.Caught.Amount, "", "  → "+methodTitle(t.Names().At(r.Method())), t.location(r))
	}
	rest := all[len(shown):]
	calls := pollution.Amount{Weight: row.Calls.Unnamed, Seen: row.Calls.Unnamed}
	var samples pollution.Amount
	for _, r := range rest {
		samples, calls = samples.Plus(r.Sampled.Amount), calls.Plus(r.Caught.Amount)
	}
	if text := others(len(rest), row.Calls.Unnamed > 0); text != "" {
		t.addRow(row, samples, calls, "", "  → "+ellipsis+text)
	}
}

// others says what is in a row that stands for several receivers, "" if nothing is.
func others(more int, unnamed bool) string {
	switch {
	case more == 0 && !unnamed:
		return ""
	case more == 0:
		return " others, not kept apart"
	case unnamed:
		return fmt.Sprintf(" %d more, and others", more)
	}
	return fmt.Sprintf(" %d more", more)
}

// location prints where the method of a receiver is written, if that was sampled: a
// wrapper is written nowhere.
func (p *profile) location(r pollution.Receiver) string {
	if r.InSamples() {
		return formatDeclaration(p.Names().At(r.Sampled.Method))
	}
	return formatDeclaration(p.Names().At(r.Caught.Method))
}

// hasTimeless reports whether a receiver of a sampled site has no CPU time.
func (r receiversRow) hasTimeless() bool {
	return len(r.Samples.Targets) > 0 && slices.ContainsFunc(r.Receivers(), pollution.Receiver.OnlyCaught)
}

// addContexts adds the first contexts with fewer receiverList than their site.
func (t receiversTable) addContexts(row receiversRow, split pollution.Split) {
	better := slices.DeleteFunc(slices.Clone(split.Contexts), func(c pollution.Context) bool { return !row.isBetter(c) })
	shown := cut(better, t.flags.contexts)
	for _, c := range shown {
		t.addContext(row, c.Total(), formatBits(c.Entropy()), "  "+t.chain(c.Callers), "", t.receiversOf(c))
	}
	rest := better[len(shown):]
	if len(rest) == 0 {
		return
	}
	var total pollution.Amount
	for _, c := range rest {
		total = total.Plus(c.Total())
	}
	t.addContext(row, total, "", fmt.Sprintf("  ← %s %d more", ellipsis, len(rest)))
}

// addContext adds a context of what is decisive: samples or calls.
func (t receiversTable) addContext(row receiversRow, a pollution.Amount, cells ...string) {
	if row.byCalls {
		t.addRow(row, pollution.Amount{}, a, cells...)
		return
	}
	t.addRow(row, a, pollution.Amount{}, cells...)
}

// chain prints callers without the directories of their packages, each with the line
// of its call or, where that is unknown, its offset.
func (p *profile) chain(callers []ccmap.Frame) string {
	parts := make([]string, len(callers))
	for i, f := range callers {
		parts[i] = "← " + dropDirectories(p.Names().At(f.Method).Name) + formatCall(p.Names(), f)
	}
	return strings.Join(parts, " ")
}

// receiversOf prints the one or two receivers of a context.
func (p *profile) receiversOf(c pollution.Context) string {
	names := make([]string, len(c.Targets))
	for i, t := range c.Targets {
		names[i] = dropDirectories(p.Names().At(t.Method).Name)
	}
	return c.Verdict.String() + ": " + strings.Join(names, ", ")
}

// bits prints the entropy, and what is left of it by callers.
func (r receiversRow) bits() string {
	all, left := formatBits(r.decisive.Entropy()), formatBits(r.remaining())
	if all == left {
		return all
	}
	return all + "→" + left
}

func formatBits(bits float64) string { return strconv.FormatFloat(bits, 'f', 2, 64) }

// verdict prints how many receivers there are and what that means, also by caller.
func (r receiversRow) verdict() string {
	text := formatCount(int64(len(r.decisive.Targets))) + " " + r.decisive.Verdict.String()
	if r.decisive.Unnamed > 0 {
		text = "≥" + text
	}
	split, settles := r.telling()
	switch {
	case !settles:
		return text
	case split.Depth == 1:
		return text + ", " + split.Verdict.String() + " by caller"
	}
	return fmt.Sprintf("%s, %v by %d callers", text, split.Verdict, split.Depth)
}
