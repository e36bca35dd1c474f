package view

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/figure"
	"github.com/ccmapd/ccmapd/internal/terminal"
	"github.com/ccmapd/ccmapd/valueprof/pollution"
)

// receiversPart is a part of the samples and of the calls of a site.
type receiversPart struct {
	samples, calls pollution.Amount
	site           *ReceiversRow
	whole          int64 // calls that the part is of
}

// receiversPartColumns are the figures in text. They are empty without samples, or without
// calls.
var receiversPartColumns = append(inline(partColumns, (*Profile).sampledPart), inline(caughtColumns, func(_ *Profile, r receiversPart) *receiversPart {
	return given(r, r.calls != (pollution.Amount{}))
})...)

var caughtColumns = columns[receiversPart]{
	col("calls", "", "calls that were caught", func(r receiversPart) count { return count(r.calls.Seen) }),
	col("of-calls", "", "share of the calls that were caught there", func(r receiversPart) percent {
		return percent(figure.Share(r.calls.Seen, r.whole))
	}),
}

// sampledPart returns nil without samples.
func (p *Profile) sampledPart(r receiversPart) *part {
	return given(part{p.counters(r.samples), p.counters(r.site.Samples.Total())}, r.samples != (pollution.Amount{}))
}

// Text prints a table of call sites. Below each stand its receivers, and the callers from
// which it has fewer.
func (v *Receivers) Text(w io.Writer, o TextOptions) error {
	s := newSheet(v.Profile, receiversLayout, o)
	t := receiversTable{v, s}
	if v.list.Nulls {
		return t.printNulls(w)
	}
	for _, r := range v.Rows {
		t.addSite(r)
	}
	return s.print(w, v.More, v.notes()...)
}

// notes say where the figures come from, and what is missing.
func (v *Receivers) notes() []string {
	notes := append(v.callNotes(), v.lowerBounds("Contexts")...)
	if !v.countsSamples() {
		notes = append(notes, "Of an unknown number of samples, contexts may have fewer receivers by chance.")
	}
	if slices.ContainsFunc(v.Rows, ReceiversRow.hasTimeless) {
		notes = append(notes, v.timelessNote())
	}
	if v.Hidden > 0 {
		notes = append(notes, figure.Plural(int64(v.Hidden), "more call site")+" with one receiver, or of different names"+v.hint(HintSites, ": ")+".")
	}
	return notes
}

// callNotes say which calls were counted, by whom.
func (v *Receivers) callNotes() []string {
	if v.Counted > 0 {
		return v.vmNotes()
	}
	return []string{v.caughtNote()}
}

// timelessNote says why a receiver may have no time.
func (v *Receivers) timelessNote() string {
	switch {
	case v.Meta().Engine == engineWasm:
		return "A receiver without CPU time is short."
	case v.Counted > 0:
		return "A receiver without CPU time is short, or no longer called."
	}
	return "A receiver without CPU time is short, or runs a method of a type that it embeds: the\n" +
		"time stands there."
}

// caughtNote says how many calls were caught. If none were, it names the remedy.
func (v *Receivers) caughtNote() string {
	if v.Caught == 0 {
		return v.noCallsCaught()
	}
	note := figure.Plural(v.Caught, "call") + " caught"
	if v.Meta().Engine != engineWasm {
		note += " by breakpoints"
	}
	return note + v.ofPhase() + "."
}

// noCallsCaught explains the lack of caught calls.
func (v *Receivers) noCallsCaught() string {
	switch v.Meta().Engine {
	case engineWasmExact:
		return "No calls were caught: each one is recorded, as a sample."
	case engineWasm:
		return "No calls were caught." + v.hint(HintCalls, " ")
	case engineManaged:
		return "No calls were caught: the VM made none, or none when one was wanted."
	case engineJFR:
		return "No calls were counted: the JVM's recorder does not tell, and the JVM's memory was\n" +
			"not read."
	}
	if v.isOfJVM() {
		return "No calls were counted: the profile lacks the counts that the JVM keeps."
	}
	return "No calls were caught: types are those that declare the sampled methods, not those\n" +
		"that embed them." + v.hint(HintCalls, " ")
}

// receiversTable is the text of a list of receivers.
type receiversTable struct {
	*Receivers
	sheet *sheet
}

func (t receiversTable) addSite(r ReceiversRow) {
	t.addRow(r, r.Samples.Total(), r.Calls.Total(), cellsOf(t.sheet, receiversSiteColumns, r))
	t.addTypes(r)
	if r.vm != nil {
		t.addCallers(r)
		return
	}
	split, _ := r.telling()
	t.addContexts(r, split)
}

// addRow adds the samples and the calls of a part of a site, and the given cells.
func (t receiversTable) addRow(row ReceiversRow, samples, calls pollution.Amount, beside cells) {
	t.addPart(receiversPart{samples, calls, &row, row.Calls.Total().Seen}, beside)
}

func (t receiversTable) addPart(part receiversPart, beside cells) {
	fill(t.sheet, receiversPartColumns, part, beside)
	t.sheet.add(beside)
}

// addTypes adds the first receivers of a site; the others are added up.
func (t receiversTable) addTypes(row ReceiversRow) {
	all := row.Receivers()
	shown := cut(all, t.list.Types)
	for _, r := range shown {
		t.addRow(row, r.Sampled.Amount, r.Caught.Amount, cells{"call-site": "  → " + t.title(t.Names().At(r.Method())), "location": t.location(r)})
	}
	rest := all[len(shown):]
	calls := pollution.Amount{Weight: row.Calls.Unnamed, Seen: row.Calls.Unnamed}
	var samples pollution.Amount
	for _, r := range rest {
		samples, calls = samples.Plus(r.Sampled.Amount), calls.Plus(r.Caught.Amount)
	}
	if text := others(len(rest), row.Calls.Unnamed > 0); text != "" {
		t.addRow(row, samples, calls, cells{"call-site": "  → " + terminal.Ellipsis + text})
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
func (r ReceiversRow) hasTimeless() bool {
	return len(r.Samples.Targets) > 0 && slices.ContainsFunc(r.Receivers(), pollution.Receiver.OnlyCaught)
}

// addContexts adds the first contexts with fewer receivers than their site.
func (t receiversTable) addContexts(row ReceiversRow, split pollution.Split) {
	better := slices.DeleteFunc(slices.Clone(split.Contexts), func(c pollution.Context) bool { return !row.isBetter(c) })
	shown := cut(better, t.list.Contexts)
	for _, c := range shown {
		t.addContext(row, c.Total(), cells{
			"bits": formatBits(c.Entropy()), "call-site": "  " + t.chain(c.Callers), "verdict": t.receiversOf(c),
		})
	}
	rest := better[len(shown):]
	if len(rest) == 0 {
		return
	}
	var total pollution.Amount
	for _, c := range rest {
		total = total.Plus(c.Total())
	}
	t.addContext(row, total, cells{"call-site": fmt.Sprintf("  ← %s %d more", terminal.Ellipsis, len(rest))})
}

// addContext adds a context of the decisive evidence: samples or calls.
func (t receiversTable) addContext(row ReceiversRow, a pollution.Amount, beside cells) {
	if row.ByCalls {
		t.addRow(row, pollution.Amount{}, a, beside)
		return
	}
	t.addRow(row, a, pollution.Amount{}, beside)
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
func (r ReceiversRow) bits() string {
	all, left := formatBits(r.Decisive.Entropy()), formatBits(r.remaining())
	if all == left {
		return all
	}
	return all + "→" + left
}

// verdict prints the number of receivers and its meaning, also for each caller, and what the
// VM says of the call.
func (r ReceiversRow) verdict() string {
	if r.vm != nil {
		return r.meaning() + r.vm.facts()
	}
	return r.meaning()
}

func (r ReceiversRow) meaning() string {
	text := figure.Count(int64(len(r.Decisive.Targets))) + " " + r.Decisive.Verdict.String()
	if r.Decisive.Unnamed > 0 {
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
