package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/ccmapd/ccmapd/scripts/campaign"
	"github.com/ccmapd/ccmapd/scripts/report"
)

// What a stale profile keeps of a fresh one's gain.
const stalePortion report.Portion = "scripts/pgofits, stale"

const (
	staleRounds  = 100
	staleCommits = 40
	staleWork    = 500 * time.Millisecond // CPU time of one run, about
)

// A newer program is built in these variants. Two fresh profiles are of two windows.
const (
	withNone = iota
	withFresh
	withAgain
	withStale
	withHealed
	variants
)

var variantNames = [variants]string{"none", "fresh", "again", "stale", "healed"}

// aged is a program at two versions.
type aged struct {
	name  string
	cmd   string
	trees func(dir string) (old, now string, err error)
	work  func(dir, tree string, often int) ([]string, error) // arguments of work that takes so long
	few   int                                                 // work of about staleWork

	fits  float64             // of the older version's profile, percent
	times [variants][]float64 // CPU time in ns, by round
}

var agedPrograms = []*aged{
	{name: fmt.Sprintf("ccmapd %d commits later", staleCommits), cmd: "./cmd/ccmapd", trees: ownTrees, work: mergeOften, few: 8},
	{name: "esbuild v0.27.1, v0.28.2", cmd: "./cmd/esbuild", trees: esbuildTrees, work: bundle, few: 25},
}

// stale makes the builds, which stay in a folder for the next run, and runs them in so many rounds. With names it prints
// the rows of these programs.
func stale(ctx context.Context, rounds int, names []string) error {
	began := time.Now()
	var all []string
	for _, a := range agedPrograms {
		all = append(all, a.name)
	}
	if err := checkNames(names, all...); err != nil {
		return err
	}
	dir, ccmapd, err := prepare(ctx)
	if err != nil {
		return err
	}
	t := report.Table{Head: []string{
		"program", "hot weight that fits", "fresh: less CPU time, %", "fresh, of another window", "stale", "healed", "stale keeps", "healed keeps",
	}}
	for _, a := range agedPrograms {
		if !isNamed(a.name, names) {
			continue
		}
		if err := a.measure(ctx, dir, ccmapd, rounds); err != nil {
			return fmt.Errorf("%s: %w", a.name, err)
		}
		if rounds > 0 {
			fmt.Println(strings.Join(a.cells(), " | "))
			t.Row(a.cells()...)
		}
	}
	if rounds == 0 || len(names) > 0 {
		return nil
	}
	text := fmt.Sprintf("%s %d rounds took %s; the load average was %.1f at the end.\n\n%s", report.Measured(began), rounds,
		report.Seconds(time.Since(began).Seconds()), report.LoadAverage(), strings.TrimSuffix(t.String(), "\n"))
	return stalePortion.Rewrite("docs/pgo.md", text)
}

// measure builds the variants, and lets all of them do the same work in each round, in random order.
func (a *aged) measure(ctx context.Context, dir, ccmapd string, rounds int) error {
	old, now, err := a.trees(dir)
	if err != nil {
		return err
	}
	work := now + ".work"
	if err := os.MkdirAll(work, 0o700); err != nil {
		return err
	}
	executables, err := a.build(ctx, work, old, now, ccmapd)
	if err != nil {
		return err
	}
	args, err := a.input(work, now, a.few)
	if err != nil {
		return err
	}
	for round := range rounds {
		if round%10 == 0 {
			fmt.Fprintf(os.Stderr, "running %s: %d of %d rounds\n", a.name, round, rounds)
		}
		for _, v := range rand.Perm(variants) {
			used, err := cpuTime(ctx, executables[v], args)
			if err != nil {
				return err
			}
			a.times[v] = append(a.times[v], used)
		}
	}
	return nil
}

// build makes profiles of both versions, and builds the newer one with each.
func (a *aged) build(ctx context.Context, work, old, now, ccmapd string) (executables [variants]string, err error) {
	for _, tree := range []string{old, now} {
		if err := campaign.Once(binaryOf(tree), func() error { return build(tree, a.cmd) }); err != nil {
			return executables, err
		}
	}
	profiles := [variants]string{withHealed: filepath.Join(work, "healed.pgo")}
	for v, tree := range map[int]string{withFresh: now, withAgain: now, withStale: old} {
		profiles[v] = filepath.Join(work, variantNames[v]+".pgo")
		err := campaign.Once(profiles[v], func() error {
			const much = 30
			args, err := a.input(work, now, much*a.few)
			if err != nil {
				return err
			}
			fmt.Fprintf(os.Stderr, "sampling %s\n", tree)
			return sampleRun(ctx, ccmapd, profiles[v], append([]string{binaryOf(tree)}, args...))
		})
		if err != nil {
			return executables, err
		}
	}
	if a.fits, err = heal(ctx, ccmapd, profiles[withStale], binaryOf(now), profiles[withHealed]); err != nil {
		return executables, err
	}
	executables[withNone] = binaryOf(now)
	for v := withFresh; v < variants; v++ {
		executables[v] = filepath.Join(work, variantNames[v])
		fmt.Fprintf(os.Stderr, "building %s, %s\n", a.name, variantNames[v])
		if err := campaign.Once(executables[v], func() error { return buildAs(executables[v], now, a.cmd, "-pgo="+profiles[v]) }); err != nil {
			return executables, err
		}
	}
	return executables, nil
}

// input prepares so much work, and returns the arguments.
func (a *aged) input(work, tree string, often int) ([]string, error) {
	dir := filepath.Join(work, "input")
	if err := os.RemoveAll(dir); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	return a.work(dir, tree, often)
}

// heal heals a profile, and returns how much of its hot weight fits without that.
func heal(ctx context.Context, ccmapd, profile, program, healed string) (float64, error) {
	out, err := exec.CommandContext(ctx, ccmapd, "pgo", "check", "--json", "--heal", healed, profile, program).Output()
	if err != nil {
		return 0, fmt.Errorf("check %s: %w", profile, err)
	}
	var checked struct {
		Fits float64 `json:"fits_hot_percent"`
	}
	err = json.Unmarshal(out, &checked)
	return checked.Fits, err
}

// cpuTime returns the CPU time of a program in ns, with one processor, so that the collector finds no idle ones.
func cpuTime(ctx context.Context, executable string, args []string) (float64, error) {
	cmd := exec.CommandContext(ctx, executable, args...)
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
	if err := campaign.Command(cmd); err != nil {
		return 0, err
	}
	return float64(cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()), nil
}

// ownTrees are ccmapd's, by commits.
func ownTrees(dir string) (old, now string, err error) {
	var trees [2]string
	for i, ago := range []int{staleCommits, 0} {
		commit, err := exec.Command("git", "rev-parse", fmt.Sprintf("HEAD~%d", ago)).Output()
		if err != nil {
			return "", "", fmt.Errorf("find commit: %w", err)
		}
		trees[i] = filepath.Join(dir, strings.TrimSpace(string(commit)))
		err = campaign.Once(trees[i], func() error {
			to, err := checkout(dir, ago)
			if err != nil {
				return err
			}
			return os.Rename(to, trees[i])
		})
		if err != nil {
			return "", "", err
		}
	}
	return trees[0], trees[1], nil
}

// mergeOften merges a profile with itself.
func mergeOften(dir, _ string, often int) ([]string, error) {
	profile, _, err := ofCompiler(context.Background(), "", "")
	return append([]string{"merge", "-o", filepath.Join(dir, "sum.pb.gz")}, slices.Repeat([]string{profile}, often)...), err
}

func esbuildTrees(dir string) (old, now string, err error) {
	p := programs[slices.IndexFunc(programs, func(p program) bool { return p.name() == "esbuild" })]
	if old, err = p.source(dir, p.old); err != nil {
		return "", "", err
	}
	now, err = p.source(dir, p.now)
	return old, now, err
}

// less returns by how much less CPU time a variant takes than the build without a profile, as logarithms by round.
func (a *aged) less(v int, rounds []int) []float64 {
	all := make([]float64, len(rounds))
	for i, round := range rounds {
		all[i] = math.Log(a.times[withNone][round] / a.times[v][round])
	}
	return all
}

func (a *aged) cells() []string {
	rounds := make([]int, len(a.times[withNone]))
	for i := range rounds {
		rounds[i] = i
	}
	gain := func(v int) campaign.Interval { return campaign.TrimmedMeanOf(a.less(v, rounds)) }
	cells := []string{a.name, report.Percent(a.fits) + " %"}
	for v := withFresh; v < variants; v++ {
		g := gain(v)
		cells = append(cells, fmt.Sprintf("%.2f (%.2f to %.2f)", lessPercent(g.Middle), lessPercent(g.Low), lessPercent(g.High)))
	}
	for _, v := range []int{withStale, withHealed} {
		if gain(withFresh).Low <= 0 || gain(withAgain).Low <= 0 {
			cells = append(cells, "no gain is shown")
			continue
		}
		k := a.keeps(v, len(rounds))
		cells = append(cells, fmt.Sprintf("%.0f %% (%.0f to %.0f)", 100*k.Middle, 100*k.Low, 100*k.High))
	}
	return cells
}

func lessPercent(logarithm float64) float64 { return -100 * math.Expm1(-logarithm) }

// keeps returns which part of the gain of the fresh profiles a variant has. The interval is that of rounds drawn anew.
func (a *aged) keeps(v, rounds int) campaign.Interval {
	of := func(drawn []int) float64 {
		part := func(v int) float64 { return campaign.TrimmedMeanOf(a.less(v, drawn)).Middle }
		return 2 * part(v) / (part(withFresh) + part(withAgain))
	}
	all, drawn := make([]int, rounds), make([]int, rounds)
	for i := range all {
		all[i] = i
	}
	random := rand.New(rand.NewPCG(40, 85))
	const draws = 2000
	var kept []float64
	for range draws {
		for i := range drawn {
			drawn[i] = random.IntN(rounds)
		}
		kept = append(kept, of(drawn))
	}
	slices.Sort(kept)
	return campaign.Interval{Low: kept[draws/40], Middle: of(all), High: kept[draws-1-draws/40]}
}
