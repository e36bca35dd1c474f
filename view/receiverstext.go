package view

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/figure"
	"github.com/ccmapd/ccmapd/internal/terminal"
	"github.com/ccmapd/ccmapd/valueprof/pollution"
)

// Text prints a table of call sites. Below each stand its receivers, and the callers from
// which it has fewer.
func (v *Receivers) Text(w io.Writer, wide bool) error {
	samples := samplesColumn
	samples.Drop = 3
	t := receiversTable{v, &terminal.Table{Columns: []terminal.Column{
		cumColumn, shareColumn, ofAllColumn, samples,
		{Title: "calls", Right: true, Drop: 1},
		{Title: "of calls", Right: true, Drop: 1},
		{Title: "bits", Right: true},
		nameColumn("call site"), locationColumn(2),
		{Title: "verdict", Shorten: terminal.ShortenMiddle, Least: 24},
	}}}
	for _, row := range v.rows {
		t.addSite(row)
	}
	return v.print(terminal.NewPrinter(w, wide), t.Table, v.more, v.notes()...)
}

// notes say where the figures come from, and what is missing.
func (v *Receivers) notes() []string {
	notes := append([]string{v.caughtNote()}, v.lowerBounds("Contexts")...)
	if !v.countsSamples() {
		notes = append(notes, "Of an unknown number of samples, contexts may have fewer receivers by chance.")
	}
	if slices.ContainsFunc(v.rows, receiversRow.hasTimeless) {
		notes = append(notes, v.timelessNote())
	}
	if v.hidden > 0 {
		notes = append(notes, fmt.Sprintf("%s with one receiver, or of different names: --all lists them.",
			figure.Plural(int64(v.hidden), "more call site")))
	}
	return notes
}

// timelessNote says why a receiver may have no time.
func (v *Receivers) timelessNote() string {
	if v.Meta().Engine == engineWasm {
		return "A receiver without CPU time is short."
	}
	return "A receiver without CPU time is short, or runs a method of a type that it embeds: the\n" +
		"time stands there."
}

// caughtNote says how many calls were caught or, if none, what to do about it.
func (v *Receivers) caughtNote() string {
	if v.caught == 0 {
		return noCallsCaught(v.Meta().Engine)
	}
	note := figure.Plural(v.caught, "call") + " caught"
	if v.Meta().Engine != engineWasm {
		note += " by breakpoints"
	}
	return note + v.ofPhase() + "."
}

// noCallsCaught says what it means that an engine has caught no calls.
func noCallsCaught(engine string) string {
	switch engine {
	case engineWasmExact:
		return "No calls were caught: with --exact each one is recorded, as a sample."
	case engineWasm:
		return "No calls were caught. 'ccmapd run' catches calls through tables, unless with --hits 0;\n" +
			"pprof, XML and JSON keep them."
	case engineManaged:
		return "No calls were caught: the VM made none, or none when one was wanted."
	}
	return "No calls were caught: types are those that declare the sampled methods, not those\n" +
		"that embed them. 'ccmapd attach' catches calls, unless with --hits 0 or where the\n" +
		"machine has no breakpoint free; pprof, XML and JSON keep them."
}

// receiversTable is the text of a list of receivers.
type receiversTable struct {
	*Receivers
	*terminal.Table
}

func (t receiversTable) addSite(row receiversRow) {
	samples, calls := row.Samples.Total(), row.Calls.Total()
	t.addRow(row, samples, calls, row.bits(), methodTitle(row.caller), formatLocation(t.Names(), row.call()), row.verdict())
	t.addTypes(row)
	split, _ := row.telling()
	t.addContexts(row, split)
}

// addRow adds the samples and the calls of a part of a site, then the given cells. Cells
// without samples, or without calls, stay empty.
func (t receiversTable) addRow(row receiversRow, samples, calls pollution.Amount, cells ...string) {
	figures := make([]string, 6)
	if samples != (pollution.Amount{}) {
		c := t.counters(samples)
		share := figure.Percent(figure.Share(samples.Weight, row.Samples.Total().Weight))
		copy(figures, []string{t.measure.format(c), share, t.measure.share(c), t.formatSamples(c)})
	}
	if calls != (pollution.Amount{}) {
		share := figure.Percent(figure.Share(calls.Seen, row.Calls.Total().Seen))
		copy(figures[4:], []string{figure.Count(calls.Seen), share})
	}
	t.Add(append(figures, cells...)...)
}

// addTypes adds the first receivers of a site; the others are added up.
func (t receiversTable) addTypes(row receiversRow) {
	all := row.Receivers()
	shown := cut(all, t.list.Types)
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
		t.addRow(row, samples, calls, "", "  → "+terminal.Ellipsis+text)
	}
}

// others names a row that stands for several receivers: "" if it stands for none.
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

// location prints where the method of a receiver is declared, by its samples if there are
// any: a caught call may have reached a wrapper, which has no declaration.
func (p *Profile) location(r pollution.Receiver) string {
	if r.InSamples() {
		return formatDeclaration(p.Names().At(r.Sampled.Method))
	}
	return formatDeclaration(p.Names().At(r.Caught.Method))
}

// hasTimeless reports whether a receiver of a sampled site has no CPU time.
func (r receiversRow) hasTimeless() bool {
	return len(r.Samples.Targets) > 0 && slices.ContainsFunc(r.Receivers(), pollution.Receiver.OnlyCaught)
}

// addContexts adds the first contexts with fewer receivers than their site.
func (t receiversTable) addContexts(row receiversRow, split pollution.Split) {
	better := slices.DeleteFunc(slices.Clone(split.Contexts), func(c pollution.Context) bool { return !row.isBetter(c) })
	shown := cut(better, t.list.Contexts)
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
	t.addContext(row, total, "", fmt.Sprintf("  ← %s %d more", terminal.Ellipsis, len(rest)))
}

// addContext adds a context of the decisive evidence: samples or calls.
func (t receiversTable) addContext(row receiversRow, a pollution.Amount, cells ...string) {
	if row.byCalls {
		t.addRow(row, pollution.Amount{}, a, cells...)
		return
	}
	t.addRow(row, a, pollution.Amount{}, cells...)
}

// chain prints callers without the directories of their packages, each with the line of
// its call or, if that is unknown, its offset.
func (p *Profile) chain(callers []ccmap.Frame) string {
	parts := make([]string, len(callers))
	for i, f := range callers {
		parts[i] = "← " + terminal.DropDirectories(p.Names().At(f.Method).Name) + formatCall(p.Names(), f)
	}
	return strings.Join(parts, " ")
}

// receiversOf prints the one or two receivers of a context.
func (p *Profile) receiversOf(c pollution.Context) string {
	names := make([]string, len(c.Targets))
	for i, t := range c.Targets {
		names[i] = terminal.DropDirectories(p.Names().At(t.Method).Name)
	}
	return c.Verdict.String() + ": " + strings.Join(names, ", ")
}

// bits prints the entropy, and the rest of it when callers are known.
func (r receiversRow) bits() string {
	all, left := formatBits(r.decisive.Entropy()), formatBits(r.remaining())
	if all == left {
		return all
	}
	return all + "→" + left
}

func formatBits(bits float64) string { return strconv.FormatFloat(bits, 'f', 2, 64) }

// verdict prints the number of receivers and its meaning, also for each caller.
func (r receiversRow) verdict() string {
	text := figure.Count(int64(len(r.decisive.Targets))) + " " + r.decisive.Verdict.String()
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
