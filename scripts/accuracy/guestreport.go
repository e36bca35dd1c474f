package main

import (
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/ccmap/compare"
)

// writeGuests replaces what the last campaign on guests wrote, and draws its plots.
func writeGuests(c config, r *guestResults) error {
	if err := guestPortion.rewrite(c.report, r.report()); err != nil {
		return err
	}
	return r.writePlots(filepath.Join(filepath.Dir(c.report), plotFolder))
}

// report returns the portion of the report that tells of guests.
func (r *guestResults) report() string {
	var b strings.Builder
	fmt.Fprintf(&b, "## Guests against the exact profile\n\nMeasured %s: %s, %d CPUs, Linux %s, %s. All runs and comparisons together took %s; the load average before was %s.\n",
		r.began.UTC().Format(time.DateOnly), processor(), runtime.NumCPU(), kernel(), runtime.Version(), inSeconds(r.took.Seconds()), number(r.load, 1))
	for _, section := range []func() string{r.exactSection, r.timeSection, r.callsSection, r.curveSection} {
		b.WriteString("\n" + section())
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// exactSection says what there was to be found.
func (r *guestResults) exactSection() string {
	t := &table{head: []string{"guest", "calls of one execution", "instructions", "methods", "edges", "stacks", "under --exact", "million calls/s", "sampled every 10 ms"}}
	for _, g := range r.guests {
		total, size := g.exact.Total(), sizeOf(g.exact)
		t.row(g.Name, count(float64(total.Activations)), count(float64(total.Time)),
			number(float64(size.methods), 0), number(float64(size.edges), 0), number(float64(size.stacks), 0),
			inSeconds(g.took.Seconds()), number(float64(total.Activations)/g.took.Seconds()/1e6, 2), inMillis(g.plain))
	}
	return "### The exact profiles\n\n" + t.String()
}

// size is how much there is in a profile.
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

func inMillis(d time.Duration) string { return number(1e3*d.Seconds(), 0) + " ms" }

var truthHead = []string{"Pearson", "Spearman", "methods", "edges", "contexts (floor)", "stacks",
	"hot edges", "of them found, τ = 0.1, %", "τ = 0.01", "stacks found, τ = 0.1", "τ = 0.01"}

func (t truth) cells() []string {
	return []string{number(t.pearson, 3), number(t.spearman, 3), percent(t.methods.Percent), percent(t.edges.Percent),
		percent(t.contexts.Percent) + " (" + percent(t.contexts.FloorA) + ")", percent(t.tree),
		number(float64(t.hotEdges), 0), percent(t.hot), percent(t.warm), percent(t.hotTree), percent(t.warmTree)}
}

// timeSection holds sampled time against executed instructions.
func (r *guestResults) timeSection() string {
	head := append([]string{"guest", "every", "samples"}, truthHead...)
	t := &table{head: append(head, "contexts, leaves absorbed")}
	for _, g := range r.guests {
		for _, s := range g.shaped {
			row := append([]string{g.Name, s.String(), count(s.time.samples)}, s.time.cells()...)
			t.row(append(row, percent(s.leafless.contexts.Percent))...)
		}
	}
	return "### By weight: sampled time against executed instructions\n\n" + t.String()
}

// callsSection holds the activations that were found against all.
func (r *guestResults) callsSection() string {
	t := &table{head: append([]string{"guest", "every", "calls found"}, truthHead...)}
	for _, g := range r.guests {
		for _, s := range g.shaped {
			t.row(append([]string{g.Name, s.String(), count(s.calls.things)}, s.calls.cells()...)...)
		}
	}
	return "### By calls: activations found against all\n\n" + t.String()
}

// curveSection has the overlap of prefixes of the runs.
func (r *guestResults) curveSection() string {
	t := &table{head: []string{"guest", "by", "every", "samples or calls: contexts (stacks)"}}
	for _, g := range r.guests {
		for _, s := range g.shaped {
			if !s.curved() {
				continue
			}
			t.row(g.Name, compare.ByTime.String(), s.String(), curveCell(s.timeCurve))
			t.row(g.Name, compare.ByActivations.String(), s.String(), curveCell(s.callsCurve))
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
		cells[i] = fmt.Sprintf("%s: %s (%s)", count(t.things), percent(t.contexts.Percent), percent(t.tree))
	}
	return strings.Join(cells, "; ")
}
