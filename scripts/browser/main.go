// Command browser measures the pages in Chromium, beside google/pprof's own, on a profile of a million nodes.
//
//	go -C scripts run ./browser           some minutes, on a machine that is calm; writes a portion of docs/browser.md
//	go -C scripts run ./browser -quick    a profile of 20,000 nodes, a few rounds
//	go -C scripts run ./browser -only 'ccmapd,ten*'     prints its column, and some of the last rows
//
// Times are the page's own clock: from the navigation, or from the click, to the frame after the one that has the
// picture. Chromium is headless, without a GPU, and so runs on the same processors as the server.
package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/scripts/campaign"
	"github.com/ccmapd/ccmapd/scripts/report"
)

type browsing struct {
	campaign.Campaign
	profile string   // a file that both read
	smaller []string // two files of a tenth of its nodes
	nodes   int
	rounds  int // clicks
	loads   int // from a warm cache
}

func main() {
	b := new(browsing)
	b.Flags(flag.CommandLine, "browser", "docs/browser.md")
	flag.Parse()
	campaign.Main("browser", b.run)
}

func (b *browsing) run(ctx context.Context) error {
	remove, err := b.Prepare(ctx)
	if err != nil {
		return err
	}
	defer remove()
	if b.nodes, b.rounds, b.loads = 1_000_000, 50, 9; b.Quick {
		b.nodes, b.rounds, b.loads = 20_000, 5, 3
	}
	b.profile = b.Path(fmt.Sprintf("%d.pb.gz", b.nodes))
	if err := campaign.Once(b.profile, func() error { return writeProfile(b.profile, b.nodes, 1) }); err != nil {
		return err
	}
	for seed := range uint64(2) {
		path := b.Path(fmt.Sprintf("%d-%d.pb.gz", b.nodes/10, seed))
		b.smaller = append(b.smaller, path)
		if err := campaign.Once(path, func() error { return writeProfile(path, b.nodes/10, 2+seed) }); err != nil {
			return err
		}
	}
	pprof := b.Path("pprof")
	if err := campaign.Once(pprof, func() error { return buildPprof(ctx, pprof) }); err != nil {
		return err
	}
	if b.Only != "" {
		return b.saySome(ctx)
	}
	table := report.Table{Head: []string{"", "ccmapd", "pprof", "to reach"}}
	columns := make([]figures, 0, 2)
	for _, s := range []site{ours(b), theirs(b, pprof)} {
		b.Say("measuring %s", s.name)
		f, err := b.measure(ctx, s)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		columns = append(columns, f)
	}
	for i, row := range rows {
		table.Row(row[0], columns[0][i], columns[1][i], row[1])
	}
	for _, l := range liveRows {
		b.Say("measuring %s", l.name)
		figure, err := l.measure(b, ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", l.name, err)
		}
		table.Row(l.name, figure, "–", l.reach)
	}
	head := fmt.Sprintf("%s %s nodes, %s, headless; load %.1f.\n\n", report.Measured(time.Now()), report.Count(float64(b.nodes)), chromiumVersion(ctx), report.LoadAverage())
	return b.Write("scripts/browser", head+table.String())
}

// liveRows are rows that have no counterpart.
var liveRows = []struct {
	name, reach string
	measure     func(*browsing, context.Context) (string, error)
}{
	{"ten times the nodes: page that says how much is read, after; graph drawn after; most memory of the server", "≤ 8 s", (*browsing).large},
	{"heap of a page that has drawn 100 profiles of a session; 500", "≤ 60 MB", (*browsing).day},
	{"eight plots of 1,440 minutes, with their table of 120 rows, until drawn, median; one of 5,000", "≤ 150 ms; ≤ 30 ms", (*browsing).plots},
	{"daemon of 20 targets of 100,000 nodes, of a core: with 20 empty tabs, before and after; with 20 pages", "≤ 2 % more", (*browsing).manyPages},
}

// saySome prints what is wanted by -only: the column of ccmapd, and some of the last rows.
func (b *browsing) saySome(ctx context.Context) error {
	if b.Wants("ccmapd") {
		f, err := b.measure(ctx, ours(b))
		if err != nil {
			return err
		}
		for i, row := range rows {
			fmt.Printf("%s: %s\n", row[0], f[i])
		}
	}
	for _, l := range liveRows {
		if !b.Wants(l.name) {
			continue
		}
		figure, err := l.measure(b, ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", l.name, err)
		}
		fmt.Printf("%s: %s\n", l.name, figure)
	}
	return nil
}

// writeProfile writes a profile whose stacks leave each other anywhere and go on for a while, as those of a large
// program do.
func writeProfile(path string, size int, seed uint64) error {
	return export.WriteFile(path, thicket(size, seed).Snapshot())
}

// thicket returns the map of such a program.
func thicket(size int, seed uint64) *ccmap.Map {
	m, rng := ccmap.New(ccmap.Options{}), rand.New(rand.NewPCG(1, seed))
	m.Meta().Target.Executable = "/usr/bin/service"
	methods := make([]ccmap.MethodID, 5000)
	for i := range methods {
		methods[i] = m.Names().Intern(ccmap.Method{Name: fmt.Sprintf("example.com/service/part%d.(*Type).Method%d", i/50, i), File: "service.go", StartLine: int32(i)})
	}
	nodes := []ccmap.NodeID{m.Root()}
	for len(nodes) < size {
		at := nodes[rng.IntN(len(nodes))]
		if rng.IntN(2) == 0 {
			at = nodes[rng.IntN(min(len(nodes), 1000))]
		}
		for range 1 + rng.IntN(20) {
			at = m.Child(at, uint32(rng.IntN(3)), methods[rng.IntN(len(methods))])
			nodes = append(nodes, at)
		}
		m.Add(at, ccmap.Counters{Samples: 1, Time: int64(1e7 * (1 + rng.ExpFloat64()*20))})
	}
	return m
}

// at returns the part-th quantile of values.
func at(values []float64, part float64) float64 {
	all := slices.Sorted(slices.Values(values))
	return all[min(int(part*float64(len(all))), len(all)-1)]
}

func ms(v float64) string { return report.Number(v, 0) + " ms" }

func spread(values []float64) string {
	if len(values) == 0 {
		return "–"
	}
	return fmt.Sprintf("%s (p95 %s)", ms(at(values, 0.5)), strings.TrimSuffix(ms(at(values, 0.95)), " ms"))
}

func mib(bytes float64) string { return report.Number(bytes/(1<<20), 1) + " MiB" }
