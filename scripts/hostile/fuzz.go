package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ccmapd/ccmapd/scripts/report"
)

// fuzzCampaign keeps the results of long runs of scripts/fuzz. They may take hours, so it
// writes the page after each target, and does not run the page's targets again.
var fuzzCampaign = kind{
	name:  "fuzz",
	about: "fuzz every decoder of foreign bytes for ten minutes, and count executions",
	example: `  go -C scripts run ./hostile fuzz              all that docs/reliability.md does not have; hours
  go -C scripts run ./hostile fuzz -only FuzzFold,internal/perfevent -again
                                             a function, and a package, once more`,
	apart: true,
	head:  []string{"decoder", "time", "executions", "findings"},
	flags: func(flags *flag.FlagSet) {
		flags.DurationVar(&fuzzing.time, "time", 10*time.Minute, "`TIME` that each is fuzzed for")
		flags.IntVar(&fuzzing.parallel, "parallel", 1, "fuzz with `N` processes")
		flags.BoolVar(&fuzzing.again, "again", false, "also fuzz decoders that the page has")
	},
	run: runFuzz,
}

// fuzzing holds the campaign's own flags.
var fuzzing struct {
	time     time.Duration
	parallel int
	again    bool
}

const (
	fuzzScript = "scripts/fuzz"
	quickFuzz  = 2 * time.Second
)

func runFuzz(ctx context.Context, h *hostile) error {
	targets, err := fuzzTargets(ctx, h, fuzzScript)
	if err != nil {
		return err
	}
	done, err := h.old()
	if err != nil {
		return err
	}
	// A removed decoder leaves the page.
	done = slices.DeleteFunc(done, func(cells []string) bool { return !slices.Contains(targets, cells[0]) })
	for _, cells := range done {
		h.put(row{cells: cells, earlier: true})
	}
	for _, target := range targets {
		pkg, function, _ := strings.Cut(target, " ")
		known := slices.ContainsFunc(done, func(cells []string) bool { return cells[0] == target })
		if !h.wants(target, pkg, function) || known && !fuzzing.again {
			continue
		}
		if err := h.fuzz(ctx, target); err != nil {
			return err
		}
		if err := h.write(os.Stdout); err != nil {
			return err
		}
	}
	return nil
}

// fuzzTargets lists all targets, each as its package and its function.
func fuzzTargets(ctx context.Context, h *hostile, script string) ([]string, error) {
	o, err := h.child(ctx, limits{}, script, "-l")
	switch {
	case err != nil:
		return nil, err
	case o.code != 0:
		return nil, fmt.Errorf("%s -l: %s\n%s", script, o.how(), o.stderr)
	}
	var all []string
	for line := range strings.Lines(o.stdout) {
		all = append(all, strings.TrimPrefix(strings.TrimSpace(line), "./"))
	}
	return all, nil
}

// fuzz runs one target and adds its row.
func (h *hostile) fuzz(ctx context.Context, target string) error {
	long := fuzzing.time
	if h.Quick {
		long = quickFuzz
	}
	o, err := h.child(ctx, limits{}, fuzzScript, "-p", strconv.Itoa(fuzzing.parallel), long.String(), "^./"+target+"$")
	if err := errors.Join(err, ctx.Err()); err != nil {
		return fmt.Errorf("fuzz %s: %w", target, err)
	}
	r := row{cells: []string{target, report.Seconds(long.Seconds()), report.Count(fuzzed(o.stdout)), "0"}}
	if o.code != 0 {
		r.cells[3] = "1"
		r.miss("%s", tail(o.stdout+o.stderr))
	}
	h.add(r)
	return nil
}

var (
	fuzzTotal = regexp.MustCompile(`(?m)^ *(\d+)  \./`)
	fuzzExecs = regexp.MustCompile(`execs: (\d+)`)
)

// fuzzed returns the number of executions that scripts/fuzz printed: the total or, if a
// finding ended the run before, the last figure.
func fuzzed(out string) float64 {
	for _, figure := range []*regexp.Regexp{fuzzTotal, fuzzExecs} {
		if all := figure.FindAllStringSubmatch(out, -1); all != nil {
			n, _ := strconv.ParseFloat(all[len(all)-1][1], 64)
			return n
		}
	}
	return 0
}
