// Command browser measures the pages in Chromium, beside google/pprof's own, on a profile of a million nodes.
//
//	go -C scripts run ./browser           some minutes, on a machine that is calm; writes a portion of docs/browser.md
//	go -C scripts run ./browser -quick    a profile of 20,000 nodes, a few rounds
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
	if b.nodes, b.rounds = 1_000_000, 50; b.Quick {
		b.nodes, b.rounds = 20_000, 5
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
	head := fmt.Sprintf("%s %s nodes, %s, headless; load %.1f.\n\n", report.Measured(time.Now()), report.Count(float64(b.nodes)), chromiumVersion(ctx), report.LoadAverage())
	return b.Write("scripts/browser", head+table.String())
}

// writeProfile writes a profile whose stacks leave each other anywhere and go on for a while, as those of a large
// program do.
func writeProfile(path string, size int, seed uint64) error {
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
	return export.WriteFile(path, m.Snapshot())
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
