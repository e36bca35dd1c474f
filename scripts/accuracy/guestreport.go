package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/ccmap/compare"
	"github.com/ccmapd/ccmapd/scripts/accuracy/plot"
	"github.com/ccmapd/ccmapd/scripts/report"
)

// writeGuests replaces the portion of the last campaign on guests, and draws its plots.
func writeGuests(c config, r *guestResults) error {
	if err := guestPortion.Rewrite(c.Report, r.report()); err != nil {
		return err
	}
	return r.writePlots(filepath.Join(filepath.Dir(c.Report), plotFolder))
}

// report returns the report's portion on guests.
func (r *guestResults) report() string {
	var b strings.Builder
	fmt.Fprintf(&b, "## Guests against the exact profile\n\n%s All runs and comparisons together took %s; the load average before was %s.\n",
		report.Measured(r.began), report.Seconds(r.took.Seconds()), report.Number(r.load, 1))
	for _, section := range []func() string{r.exactSection, r.timeSection, r.clockSection, r.callsSection, r.curveSection} {
		b.WriteString("\n" + section())
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// exactSection describes the exact profiles.
func (r *guestResults) exactSection() string {
	t := &report.Table{Head: []string{"guest", "calls of one execution", "instructions", "methods", "edges", "stacks", "under --exact", "million calls/s", "sampled every 10 ms"}}
	for _, g := range r.guests {
		total, size := g.exact.Total(), sizeOf(g.exact)
		t.Row(g.Name, report.Count(float64(total.Activations)), report.Count(float64(total.Time)),
			report.Number(float64(size.methods), 0), report.Number(float64(size.edges), 0), report.Number(float64(size.stacks), 0),
			report.Seconds(g.took.Seconds()), report.Number(float64(total.Activations)/g.took.Seconds()/1e6, 2), inMillis(g.plain))
	}
	return "### The exact profiles\n\n" + t.String()
}

// size is the size of a profile.
type size struct{ methods, edges, stacks int }

func sizeOf(s *ccmap.Snapshot) size {
	var n size
	methods, edges := make(map[ccmap.MethodID]bool), make(map[[3]uint32]bool)
	for v := range s.Nodes() {
		if v.ID == 0 || v.Method == ccmap.NoMethod {
			continue
		}
		n.stacks++
		methods[v.Method] = true
		if v.Parent != 0 {
			edges[[3]uint32{uint32(s.Node(v.Parent).Method), v.Offset, uint32(v.Method)}] = true
		}
	}
	n.methods, n.edges = len(methods), len(edges)
	return n
}

func inMillis(d time.Duration) string { return report.Number(1e3*d.Seconds(), 0) + " ms" }

var truthHead = []string{"Pearson", "Spearman", "methods", "edges", "contexts (floor)", "stacks",
	"hot edges", "of them found, τ = 0.1, %", "τ = 0.01", "stacks found, τ = 0.1", "τ = 0.01"}

func (t truth) cells() []string {
	return []string{report.Number(t.pearson, 3), report.Number(t.spearman, 3), report.Percent(t.methods.Percent), report.Percent(t.edges.Percent),
		report.Percent(t.contexts.Percent) + " (" + report.Percent(t.contexts.FloorA) + ")", report.Percent(t.tree),
		report.Number(float64(t.hotEdges), 0), report.Percent(t.hot), report.Percent(t.warm), report.Percent(t.hotTree), report.Percent(t.warmTree)}
}

// timeSection compares sampled time with executed instructions.
func (r *guestResults) timeSection() string {
	head := append([]string{"guest", "every", "samples"}, truthHead...)
	t := &report.Table{Head: append(head, "contexts, leaves absorbed")}
	for _, g := range r.guests {
		for _, s := range g.shaped {
			row := append([]string{g.Name, s.String(), report.Count(s.time.samples)}, s.time.cells()...)
			t.Row(append(row, report.Percent(s.leafless.contexts.Percent))...)
		}
	}
	return "### By weight: sampled time against executed instructions\n\n" + t.String()
}

// clockSection compares the sampled time every 10 ms with the time that the exact profile's
// instructions take.
func (r *guestResults) clockSection() string {
	t := &report.Table{Head: []string{"guest", "time in its functions, %", "instructions against time: methods", "contexts",
		"samples against time: methods", "edges", "contexts (floor)", "stacks", "samples against instructions: contexts"}}
	for _, g := range r.guests {
		for _, s := range g.shaped {
			if c := s.clocked; c != nil {
				t.Row(g.Name, report.Percent(c.inside), report.Percent(c.instructions.methods.Percent), report.Percent(c.instructions.contexts.Percent),
					report.Percent(c.time.methods.Percent), report.Percent(c.time.edges.Percent),
					report.Percent(c.time.contexts.Percent)+" ("+report.Percent(c.time.contexts.FloorA)+")", report.Percent(c.time.tree),
					report.Percent(s.time.contexts.Percent))
			}
		}
	}
	return "### By time: the functions' instructions weigh the time that they take\n\n" + t.String()
}

// callsSection compares the found activations with all.
func (r *guestResults) callsSection() string {
	t := &report.Table{Head: append([]string{"guest", "every", "calls found"}, truthHead...)}
	for _, g := range r.guests {
		for _, s := range g.shaped {
			t.Row(append([]string{g.Name, s.String(), report.Count(s.calls.observations)}, s.calls.cells()...)...)
		}
	}
	return "### By calls: activations found against all\n\n" + t.String()
}

// curveSection has the overlap of prefixes of the runs.
func (r *guestResults) curveSection() string {
	t := &report.Table{Head: []string{"guest", "by", "every", "samples or calls: contexts (stacks)"}}
	for _, g := range r.guests {
		for _, s := range g.shaped {
			if !s.curved() {
				continue
			}
			t.Row(g.Name, compare.ByTime.String(), s.String(), curveCell(s.timeCurve))
			t.Row(g.Name, compare.ByActivations.String(), s.String(), curveCell(s.callsCurve))
		}
	}
	var b strings.Builder
	b.WriteString("### By the number of samples\n\n")
	for _, p := range guestPlots {
		fmt.Fprintf(&b, "![%s](%s/%s)\n\n", p.title, plotFolder, p.file)
	}
	return b.String() + t.String()
}

func curveCell(curve []truth) string {
	cells := make([]string, len(curve))
	for i, t := range curve {
		cells[i] = fmt.Sprintf("%s: %s (%s)", report.Count(t.observations), report.Percent(t.contexts.Percent), report.Percent(t.tree))
	}
	return strings.Join(cells, "; ")
}

// guestPlot draws the overlap of every guest's contexts against the number of
// observations, in one shape.
type guestPlot struct {
	file, title string
	axis        plot.Axis
	shape       shape
	curve       func(shaped) []truth
}

var guestPlots = []guestPlot{
	{"guests-time.svg", "Contexts against the exact profile, by weight: one sample every millisecond",
		plot.Decades("samples", 50, 100_000), denseShape, func(s shaped) []truth { return s.timeCurve }},
	{"guests-calls.svg", "Contexts against the exact profile, by calls: bursts of 64 safe points every 10 ms",
		plot.Decades("calls found", 500, 1_000_000), burstShape, func(s shaped) []truth { return s.callsCurve }},
}

func (r *guestResults) writePlots(folder string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	for _, p := range guestPlots {
		if err := writePlot(filepath.Join(folder, p.file), p.chart(r.guests)); err != nil {
			return err
		}
	}
	return nil
}

// chart has the design's goal as a level.
func (p guestPlot) chart(guests []guestResult) plot.Chart {
	chart := plot.Chart{
		Title:  p.title,
		X:      p.axis,
		Y:      plot.Percent("overlap, %", 0, 100, 10),
		Levels: []plot.Level{{Y: 85, Name: "85 %"}},
	}
	for shade, g := range guests {
		for _, s := range g.shaped {
			if s.shape != p.shape {
				continue
			}
			points := make([]plot.Point, len(p.curve(s)))
			for i, t := range p.curve(s) {
				points[i] = plot.Point{X: t.observations, Y: t.contexts.Percent}
			}
			chart.Series = append(chart.Series,
				plot.Series{Name: g.Name, Points: points, Shade: shade},
				plot.Series{Line: true, Points: points, Shade: shade})
		}
	}
	return chart
}
