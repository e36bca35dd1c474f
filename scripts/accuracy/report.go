package main

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/ccmapd/ccmapd/scripts/campaign"
	"github.com/ccmapd/ccmapd/scripts/report"
)

// tableSection has Table 1 of the paper at each fixed interval.
func (r *results) tableSection() string {
	var b strings.Builder
	b.WriteString("## Table 1 of the paper, and here\n\n" + r.runs())
	for _, mode := range []string{tenMillis, oneMilli} {
		fmt.Fprintf(&b, "\n### Every %s of CPU time\n\n%s", mode, r.agreements(mode))
	}
	return b.String()
}

// agreements tabulates the agreement of runs in a mode, beside the paper's.
func (r *results) agreements(mode string) *report.Table {
	t := &report.Table{Head: []string{"program", "paper: correlation", "paper: overlap", "samples", "pairs", "Pearson", "Spearman",
		"methods", "edges", "managed contexts (floor)", "least", "contexts (floor)", "least"}}
	row := func(name string, paper paperRow, a agreement) {
		t.Row(name, paper.text(paper.correlation), paper.text(paper.overlap),
			report.Count(a.samples), report.Number(float64(a.pairs), 0), report.Number(a.pearson, 3), report.Number(a.spearman, 3),
			report.Percent(a.overlap[methods]), report.Percent(a.overlap[edges]),
			a.withFloor(managed), report.Percent(a.least[managed]), a.withFloor(contexts), report.Percent(a.least[contexts]))
	}
	var workloads means
	for _, p := range programs(r.config) {
		a, ok := r.at[mode][p.name]
		if !ok {
			continue
		}
		row(p.name, p.paper, a)
		if p.isWorkload() {
			workloads.add(p.paper, a)
		}
	}
	if workloads.n > 0 {
		paper, a := workloads.of()
		row("mean of the workloads", paper, a)
	}
	return t
}

func (a agreement) withFloor(k kind) string {
	return report.Percent(a.overlap[k]) + " (" + report.Percent(a.floor[k]) + ")"
}

// text prints one of the row's figures; a dash if there is no such row.
func (p paperRow) text(figure float64) string {
	if p == (paperRow{}) {
		return "–"
	}
	return report.Number(figure, 0)
}

func (r *results) tuningSection() string {
	t := &report.Table{Head: []string{"program", "intervals of the runs", "samples", "Pearson", "methods", "edges", "managed contexts", "contexts"}}
	for _, p := range programs(r.config) {
		a, ok := r.at[tuned][p.name]
		if !ok {
			continue
		}
		var runs []string
		for _, intervals := range r.tuning[p.name] {
			runs = append(runs, report.Steps(intervals))
		}
		t.Row(p.name, strings.Join(runs, "; "), report.Count(a.samples), report.Number(a.pearson, 3),
			report.Percent(a.overlap[methods]), report.Percent(a.overlap[edges]), report.Percent(a.overlap[managed]), report.Percent(a.overlap[contexts]))
	}
	text := "## With tuning, from 50 ms\n\n" + t.String()
	if r.long != nil {
		text += fmt.Sprintf("\nWith the paper's thresholds of 1 and 15 %%, %s for %s of CPU time: %s.\n",
			studied[0], report.Seconds(longShare*r.cpu.Seconds()), report.Steps(r.long))
	}
	return text
}

func (r *results) costSection() string {
	t := &report.Table{Head: []string{"mode", "programs", "CPU time of the program over that alone, %", "± standard error", "CPU time of ccmapd, % of the program's"}}
	for _, mode := range []string{tenMillis, oneMilli} {
		if c, ok := r.costs[mode]; ok {
			t.Row(mode, report.Number(float64(c.programs), 0), report.Number(c.target, 2), report.Number(c.error, 2), report.Number(c.daemon, 2))
		}
	}
	return "## Cost\n\n" + t.String()
}

// sizeSection has the law of each program, and its consequences for the paper's runs.
func (r *results) sizeSection() string {
	var b strings.Builder
	b.WriteString("## Overlap by the number of samples\n\n")
	for k := range allKinds {
		fmt.Fprintf(&b, "![overlap of %v by the number of samples](%s/%s)\n\n", k, plotFolder, k.plotName())
	}
	fmt.Fprintf(&b, "Fitted to overlaps of %d %% and more: overlap = 100 − scale·n^exponent.\n\n%v", 100-mostShortfall, r.laws())
	fmt.Fprintf(&b, "\n### How many samples the paper's runs would have had\n\n%v", r.paperRuns())
	return b.String()
}

// laws tabulates the exponents, and the numbers of samples for an overlap of 90 and 95 %.
func (r *results) laws() *report.Table {
	t := &report.Table{Head: []string{"program"}}
	for k := range allKinds {
		t.Head = append(t.Head, k.String()+": exponent", "samples for 90 %", "for 95 %")
	}
	for _, p := range programs(r.config) {
		c := r.curves[p.name]
		if c == nil {
			continue
		}
		row := []string{p.name}
		for _, l := range c.law {
			row = append(row, report.Number(l.exponent, 2), needed(l.samples(90)), needed(l.samples(95)))
		}
		t.Row(row...)
	}
	return t
}

// paperRuns tabulates the number of samples that give the paper's overlaps here, and
// their CPU time at its interval.
func (r *results) paperRuns() *report.Table {
	t := &report.Table{Head: []string{"program", "paper: overlap", "managed contexts: samples for that", "CPU time at 10 ms", "contexts: samples", "CPU time at 10 ms"}}
	for _, p := range programs(r.config) {
		c := r.curves[p.name]
		if c == nil || !p.isWorkload() {
			continue
		}
		row := []string{p.name, report.Number(p.paper.overlap, 0)}
		for _, k := range []kind{managed, contexts} {
			n := c.law[k].samples(p.paper.overlap)
			row = append(row, needed(n), report.Seconds(n/100))
		}
		t.Row(row...)
	}
	return t
}

// shorterSection compares runs with fewer samples, because they were shorter or the
// interval was longer, with runs that were thinned to as many.
func (r *results) shorterSection() string {
	t := &report.Table{Head: []string{"program", "runs", "samples", "managed contexts", "thinned to as many", "difference", "contexts", "thinned to as many", "difference"}}
	for _, name := range studied {
		c := r.curves[name]
		if c == nil {
			continue
		}
		for i := range c.shorter[contexts] {
			t.Row(append([]string{name, "shorter"}, c.thinnedCells(c.shorter[managed][i], c.shorter[contexts][i])...)...)
		}
		if a, ok := r.at[tenMillis][name]; ok {
			own, all := sized{a.samples, a.overlap[managed]}, sized{a.samples, a.overlap[contexts]}
			t.Row(append([]string{name, "every 10 ms"}, c.thinnedCells(own, all)...)...)
		}
	}
	return "### Shorter runs and longer intervals against thinned runs\n\n" +
		fmt.Sprintf("![shorter runs and thinned ones](%s/shorter.svg)\n\n", plotFolder) + t.String()
}

// thinnedCells compares overlaps of managed and of all contexts with the curve.
func (c *curve) thinnedCells(own, all sized) []string {
	cells := []string{report.Count(all.samples)}
	for _, x := range []struct {
		kind
		sized
	}{{managed, own}, {contexts, all}} {
		thinned := interpolate(c.points[x.kind], x.samples)
		cells = append(cells, report.Percent(x.overlap), report.Percent(thinned), report.Percent(x.overlap-thinned))
	}
	return cells
}

// floorSection says how well floors foretell overlaps.
func (r *results) floorSection() string {
	t := &report.Table{Head: []string{"overlap of", "every", "programs", "pairs", "below the lower floor", "overlap less floor, mean",
		"less √2 rule: mean", "RMS", "worst", "less ∛2 rule: mean", "RMS", "worst"}}
	for k := range allKinds {
		for _, mode := range []string{tenMillis, oneMilli} {
			if all := r.agreementsAt(mode); len(all) > 0 {
				t.Row(floorCells(k, mode, all)...)
			}
		}
	}
	return "## Does the floor foretell the overlap?\n\n" +
		fmt.Sprintf("![floor and overlap](%s/floors.svg)\n\n", plotFolder) + t.String()
}

// floorCells compares the overlaps of programs with the overlaps that their floors
// foretell.
func floorCells(k kind, mode string, all []agreement) []string {
	var pairs, below int
	var above, square, cube []float64
	for _, a := range all {
		pairs += a.pairs
		below += a.below[k]
		above = append(above, a.overlap[k]-a.floor[k])
		square = append(square, a.overlap[k]-foretold(a.floor[k], squareRoot))
		cube = append(cube, a.overlap[k]-foretold(a.floor[k], cubeRoot))
	}
	cells := []string{k.String(), mode, report.Number(float64(len(all)), 0), report.Number(float64(pairs), 0), report.Number(float64(below), 0), report.Percent(campaign.Mean(above))}
	for _, errors := range [][]float64{square, cube} {
		cells = append(cells, report.Number(campaign.Mean(errors), 2), report.Number(rootMeanSquare(errors), 2), report.Number(worst(errors), 2))
	}
	return cells
}

// agreementsAt returns the agreements of all programs in a mode, in the order of
// programs.
func (r *results) agreementsAt(mode string) []agreement {
	var all []agreement
	for _, p := range programs(r.config) {
		if a, ok := r.at[mode][p.name]; ok {
			all = append(all, a)
		}
	}
	return all
}

// coverageSection says how many of the hot edges other runs have, and how far a run
// agrees with all others together.
func (r *results) coverageSection() string {
	t := &report.Table{Head: []string{"program", "every", "hot edges, τ = 0.1", "another run has, %", "at least",
		"one run has of the others' together: τ = 0.1", "τ = 0.01", "overlap with those: edges", "managed contexts", "contexts"}}
	for _, p := range programs(r.config) {
		for _, mode := range []string{tenMillis, oneMilli} {
			if a, ok := r.at[mode][p.name]; ok {
				t.Row(p.name, mode, report.Number(a.hot, 1), report.Percent(a.coverage), report.Percent(a.leastCover),
					report.Percent(a.rest.coverage), report.Percent(a.rest.warm),
					report.Percent(a.rest.overlap[edges]), report.Percent(a.rest.overlap[managed]), report.Percent(a.rest.overlap[contexts]))
			}
		}
	}
	return "## Coverage of hot edges\n\n" + t.String()
}

// needed prints a number of samples that a law foretells, with the digits that can be
// trusted.
func needed(samples float64) string {
	if samples > 1e6 {
		return "> 1 million"
	}
	return report.Count(samples)
}

// The two campaigns' portions of the report. Table 1 has one of its own, as -table rewrites it alone.
const (
	tablePortion  report.Portion = "scripts/accuracy, Table 1"
	nativePortion report.Portion = "scripts/accuracy, native programs"
	guestPortion  report.Portion = "scripts/accuracy, guests"
)

// writeReport replaces the last campaign's portions, and draws the plots.
func writeReport(c config, r *results) error {
	if err := tablePortion.Rewrite(c.Report, r.tableSection()); err != nil || c.table {
		return err
	}
	if err := nativePortion.Rewrite(c.Report, r.report()); err != nil {
		return err
	}
	return r.writePlots(filepath.Join(filepath.Dir(c.Report), plotFolder))
}

// report returns the generated part but Table 1.
func (r *results) report() string {
	var b strings.Builder
	b.WriteString("## The runs\n\n" + r.runs())
	for _, section := range []func() string{
		r.tuningSection, r.costSection, r.sizeSection, r.shorterSection, r.floorSection, r.coverageSection,
	} {
		b.WriteString("\n" + section())
	}
	return b.String()
}

// runs says when and where the runs were made.
func (r *results) runs() string {
	return fmt.Sprintf("%s All runs together took %s; the load average was %s (median), the runs' own load of about 2 in it.\n",
		report.Measured(r.last), report.Seconds(r.seconds), report.Number(r.load, 1))
}
