// Command hostile attacks ccmapd, and checks a bound for each attack. No test of a
// package can do that, because attacks need whole processes, hundreds of rounds or hours.
//
//	go -C scripts run ./hostile --help           lists the campaigns
//	go -C scripts run ./hostile kills            one campaign, into docs/reliability.md
//	go -C scripts run ./hostile kills -quick     a few rounds; writes no page
//	go -C scripts run ./hostile all -quick       a few rounds of each campaign, in CI
//
// Each campaign is a subcommand with a file of its own. It registers by a line in
// [campaigns]. It builds programs ([hostile.build]), runs commands within limits
// ([hostile.child]) and adds a [row] for each attack ([hostile.add]). Main writes the
// rows into the campaign's portion of docs/reliability.md. The heading and the text around the
// portion are written by hand. A row outside its bound ([row.miss]) is a line of standard
// error, and the status is then 1. With -quick, on a machine that has other work, a row that misses
// bounds of time only ([row.late]) runs once more first.
//
// -only PATTERN attacks by some rows only, and keeps the page's other rows.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/ccmapd/ccmapd/scripts/campaign"
	"github.com/ccmapd/ccmapd/scripts/report"
)

// kind is a subcommand: a campaign of attacks of one kind.
type kind struct {
	name    string
	about   string   // one line
	example string   // command lines, each with its purpose
	head    []string // of the table; the first cell of a row is its name
	apart   bool     // not part of "all", because it takes hours
	flags   func(*flag.FlagSet)
	run     func(context.Context, *hostile) error
}

// campaigns lists the subcommands in the order of the help.
func campaigns() []kind {
	return []kind{targetsCampaign, waitsCampaign, filesCampaign, modulesCampaign, killsCampaign, writesCampaign, lossesCampaign, serveCampaign, serveKillsCampaign, jvmsCampaign, fuzzCampaign}
}

// hostile is the campaigns' common state: the flags, ccmapd, and the rows so far.
type hostile struct {
	campaign.Campaign
	again []string // names of rows that run once more; empty: all that Only includes
	seed  uint64
	began time.Time
	load  float64 // load average before
	rows  []row
	*rand.Rand
	kind
}

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) int {
	if len(args) == 0 || slices.Contains([]string{"help", "-h", "-help", "--help"}, args[0]) {
		printHelp(stdout)
		return 0
	}
	all := campaigns()
	if args[0] == "all" {
		return runAll(all, args[1:], stdout, stderr)
	}
	if args[0] == slowCommand && len(args) == 3 { // not for people
		runSlow(args[1], args[2], stdout)
		return 0
	}
	if args[0] == compareCommand { // not for people
		if err := compareAll(args[1:], stdout); err != nil {
			fmt.Fprintln(stderr, "hostile:", err)
			return 1
		}
		return 0
	}
	i := slices.IndexFunc(all, func(c kind) bool { return c.name == args[0] })
	if i < 0 {
		fmt.Fprintf(stderr, "hostile: there is no campaign %q; 'go -C scripts run ./hostile --help' lists them\n", args[0])
		return 2
	}
	h, err := parse(all[i], args[1:], stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err = campaign.EnterTree(); err == nil {
		err = h.attack(ctx, stdout)
	}
	if err != nil {
		fmt.Fprintln(stderr, "hostile:", err)
		return 1
	}
	return 0
}

// runAll runs campaigns in turn, and returns the highest status.
func runAll(all []kind, args []string, stdout, stderr io.Writer) int {
	status := 0
	for _, c := range all {
		if !c.apart {
			fmt.Fprintf(stderr, "== %s: %s\n", c.name, c.about)
			status = max(status, run(append([]string{c.name}, args...), stdout, stderr))
		}
	}
	return status
}

// attack runs the campaign, writes its rows, and returns an error for each row outside
// its bound.
func (h *hostile) attack(ctx context.Context, stdout io.Writer) error {
	h.began, h.load = time.Now(), report.LoadAverage()
	remove, err := h.Prepare(ctx)
	if err != nil {
		return err
	}
	defer remove()
	failed := h.run(ctx, h)
	if h.again = h.lateRows(); failed == nil && len(h.again) > 0 {
		h.Say("late beside other work on the machine; once more: %s", strings.Join(h.again, "; "))
		failed = h.run(ctx, h)
	}
	for _, r := range h.rows {
		for _, miss := range r.misses {
			failed = errors.Join(failed, fmt.Errorf("%s, %s: %s", h.name, r.cells[0], miss))
		}
	}
	return errors.Join(failed, h.write(stdout))
}

// lateRows returns the names of rows that run once more: only -quick has other work beside it.
func (h *hostile) lateRows() []string {
	var late []string
	for _, r := range h.rows {
		if h.Quick && len(r.misses) > 0 && !r.harmed {
			late = append(late, r.cells[0])
		}
	}
	return late
}

func printHelp(w io.Writer) {
	fmt.Fprint(w, "Hostile attacks ccmapd and holds each attack to a bound.\n\nCampaigns:\n")
	for _, c := range campaigns() {
		fmt.Fprintf(w, "  %-10s %s\n", c.name, c.about)
	}
	fmt.Fprint(w, "\nExamples:\n")
	for _, c := range campaigns() {
		fmt.Fprintln(w, c.example)
	}
	fmt.Fprint(w, "\n'go -C scripts run ./hostile CAMPAIGN --help' lists the flags.\n")
}

// parse reads the flags: the common ones, and the campaign's own.
func parse(k kind, args []string, stderr io.Writer) (*hostile, error) {
	h := &hostile{kind: k}
	flags := flag.NewFlagSet("hostile "+k.name, flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		fmt.Fprintf(stderr, "%s: %s\n\nExamples:\n%s\n\nFlags:\n", k.name, k.about, k.example)
		flags.PrintDefaults()
	}
	h.Flags(flags, "hostile", "docs/reliability.md")
	h.Log = stderr
	flags.Uint64Var(&h.seed, "seed", 1, "of everything that is random but time")
	if k.flags != nil {
		k.flags(flags)
	}
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if flags.NArg() > 0 {
		fmt.Fprintf(stderr, "hostile: %q is not a flag\n", flags.Arg(0))
		return nil, errors.New("argument")
	}
	h.Rand = rand.New(rand.NewPCG(h.seed, 0))
	return h, nil
}

// build builds a command of this tree into the work folder, and returns its path.
func (h *hostile) build(ctx context.Context, name, target string, flags ...string) (string, error) {
	h.Say("building %s", target)
	file := h.Path(name)
	return file, campaign.Build(ctx, file, target, flags...)
}

// wants reports whether the campaign attacks by a row with one or more names.
func (h *hostile) wants(names ...string) bool {
	if len(h.again) > 0 {
		return slices.ContainsFunc(h.again, func(row string) bool { return slices.Contains(names, row) })
	}
	return slices.ContainsFunc(names, h.Wants)
}
