package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/ccmapd/ccmapd/ccmap/compare"
	"github.com/ccmapd/ccmapd/scripts/campaign"
	"github.com/ccmapd/ccmapd/scripts/report"
)

// The campaign truths asks profilers about programs whose shares are known by design, and asks
// ccmapd's diff about pairs of windows between which nothing changed.
// Each table has a portion of its own, so that -only leaves the others as they are.
const truthsPortion = "scripts/field, truths, "

// The rows that -only chooses, one table each.
var truthTables = []struct {
	name  string
	title string
	make  func(context.Context, *field, *report.Table) error // adds rows; the error says what missed its reach
	head  []string
}{
	{"shares", "Ten functions (golang/go#36821)", sharesTable,
		[]string{"program", "by", "samples", "farthest function", "off by, points", "reach", "`runtime.asyncPreempt`, %"}},
	{"hottest", "The hottest function, run by run", hottestTable,
		[]string{"program", "by", "runs", "runs with the most frequent", "functions named", "runs within chance of a tie", "reach"}},
	{"slowdown", "Known slowdown", slowdownTable,
		[]string{"by", "functions", "within their interval, %", "interval, least and most, ± points", "farthest, points", "reach"}},
	{"jvm-shares", "Ten methods on a JVM", javaSharesTable,
		[]string{"JDK", "by", "samples", "farthest method", "off by, points", "reach"}},
	{"jvm-slowdown", "Known slowdown on a JVM", javaSlowdownTable,
		[]string{"JDK", "by", "methods", "within their interval, %", "interval, least and most, ± points", "farthest, points", "reach"}},
	{"same", "Pairs of windows without a change", sameTable,
		[]string{"pairs", "with a method raised", "an edge", "a context", "any row", "detectable, median points", "reach"}},
}

// The names and weights of the program's functions.
var (
	truthNames = []string{"main.f1", "main.f2", "main.f3", "main.f4", "main.f5", "main.f6", "main.f7", "main.f8", "main.f9", "main.f10"}
	ramp       = []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}
	level      = []int{1, 1, 1, 1, 1, 1, 1, 1, 1, 1}
	oneHottest = []int{1, 1, 1, 1, 1, 1, 1, 1, 6, 10}
	twoHottest = []int{1, 1, 1, 1, 1, 1, 1, 1, 8, 8}
)

func runTruths(ctx context.Context, f *field) error {
	if err := campaign.Build(ctx, f.Path("truths"), truthsSource); err != nil {
		return err
	}
	var missed error
	for _, table := range truthTables {
		if !f.Wants(table.name) {
			continue
		}
		began, t := time.Now(), report.Table{Head: table.head}
		if err := table.make(ctx, f, &t); err != nil {
			missed = errors.Join(missed, fmt.Errorf("%s: %w", table.name, err))
		}
		f.Say("%s, after %v\n%s", table.title, after(began), t.String())
		if f.Quick || len(t.Rows) == 0 {
			continue
		}
		head := fmt.Sprintf("**%s.** %s It took %v; the load average, others' work included, was %.1f at the end.",
			table.title, report.Measured(began), after(began), report.LoadAverage())
		missed = errors.Join(missed, f.Write(report.Portion(truthsPortion+table.name), head+"\n\n"+strings.TrimSuffix(t.String(), "\n")))
	}
	return missed
}

const truthsSource = "./scripts/field/testdata/truths"

// allowed is how far off is an error. A quick run has few samples on a machine that others keep busy: there only a
// gross miss is one.
func (f *field) allowed(reach float64) float64 {
	if f.Quick {
		return 3 * reach
	}
	return reach
}

// of returns how much to do.
func of[T any](f *field, quick, full T) T {
	if f.Quick {
		return quick
	}
	return full
}

// truthRun is a run of the program, which witnesses watch from its first work to its last.
type truthRun struct {
	executable, mode string
	weights          []int
	total            time.Duration // CPU time
	engines          []campaign.Engine
	perf             bool // perf record, too, if it is there
}

// witnessed is what a witness says.
type witnessed struct {
	by string
	split
}

// watchTruths runs a program to its end. runtime/pprof comes after the engines.
func (f *field) watchTruths(ctx context.Context, r truthRun) ([]witnessed, error) {
	out, in := io.Pipe()
	peer, data := f.Path("truths.pb.gz"), f.Path("truths.data")
	p, err := campaign.Launch{
		Command: []string{r.executable, r.mode, commas(r.weights), r.total.String(), peer}, Ready: isReady, Stdin: out,
	}.Start(ctx)
	if err != nil {
		return nil, err
	}
	defer p.Stop()
	sessions, err := f.attachEngines(ctx, p.PID(), r.engines)
	if err != nil {
		return nil, err
	}
	waits := make([]func() error, 0, len(sessions)+1)
	for _, s := range sessions {
		waits = append(waits, s.Wait)
	}
	if r.perf {
		record, err := startPerf(ctx, p.PID(), data)
		if err != nil {
			return nil, err
		}
		defer record.Stop()
		time.Sleep(500 * time.Millisecond) // it does not say when it samples
		waits = append(waits, record.Wait)
	}
	fmt.Fprintln(in)
	in.Close() // else Wait would never return
	if err := p.Wait(); err != nil {
		return nil, err
	}
	for _, wait := range waits {
		if err := wait(); err != nil {
			return nil, err
		}
	}
	return f.testimonies(ctx, r, peer, data)
}

// attachEngines attaches one ccmapd for each engine.
func (f *field) attachEngines(ctx context.Context, pid int, engines []campaign.Engine) ([]*campaign.Session, error) {
	var all []*campaign.Session
	for _, e := range engines {
		s, err := f.Attach(ctx, pid, "", f.engineFile(e), "--engine", string(e), "--tune=false", "-i", "1ms")
		if err != nil {
			return nil, fmt.Errorf("attach engine %s: %w", e, err)
		}
		all = append(all, s)
	}
	return all, nil
}

func (f *field) engineFile(e campaign.Engine) string {
	return f.Path("truths-" + string(e) + ".json.gz")
}

// testimonies reads what all witnesses of a run have written.
func (f *field) testimonies(ctx context.Context, r truthRun, peer, data string) ([]witnessed, error) {
	files := map[string]string{"`runtime/pprof`": peer}
	var order []string
	for _, e := range r.engines {
		name := "ccmapd, " + string(e)
		files[name] = f.engineFile(e)
		order = append(order, name)
	}
	var all []witnessed
	for _, name := range append(order, "`runtime/pprof`") {
		s, err := campaign.ReadProfile(files[name])
		if err != nil {
			return nil, err
		}
		all = append(all, witnessed{name, splitOf(s, truthNames)})
	}
	if !r.perf {
		return all, nil
	}
	symbols, err := perfSymbols(ctx, data)
	return append(all, witnessed{"`perf record`", splitOfSymbols(symbols, truthNames)}), err
}

// startPerf starts perf record, which ends with the process.
func startPerf(ctx context.Context, pid int, data string) (*campaign.Process, error) {
	return campaign.Launch{
		Command: []string{"perf", "record", "-q", "-e", "cpu-clock", "-F", "997", "-p", strconv.Itoa(pid), "-o", data},
	}.Start(ctx)
}

// hasPerf reports whether perf is there.
func hasPerf() bool { _, err := exec.LookPath("perf"); return err == nil }

// perfSymbols returns the symbol of each of perf's samples.
func perfSymbols(ctx context.Context, data string) ([]string, error) {
	text, err := exec.CommandContext(ctx, "perf", "script", "-i", data, "-F", "ip,sym").Output()
	if err != nil {
		return nil, fmt.Errorf("read perf's samples: %w", err)
	}
	var symbols []string
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) >= 2 {
			symbols = append(symbols, fields[1])
		}
	}
	return symbols, nil
}

func commas(weights []int) string {
	var texts []string
	for _, w := range weights {
		texts = append(texts, strconv.Itoa(w))
	}
	return strings.Join(texts, ",")
}

// miss returns what ccmapd missed. Misses of others are figures in a table, and no error.
func miss(by string, missed bool, format string, args ...any) error {
	if !missed || !strings.HasPrefix(by, "ccmapd") {
		return nil
	}
	return fmt.Errorf("%s: %s", by, fmt.Sprintf(format, args...))
}

// sharesTable compares shares with their truth.
func sharesTable(ctx context.Context, f *field, t *report.Table) (missed error) {
	for _, r := range []struct {
		about   string
		mode    string
		weights []int
	}{{"functions of 1 : 2 : … : 10", "serial", ramp}, {"ten equal goroutines", "apart", level}} {
		all, err := f.watchTruths(ctx, truthRun{f.Path("truths"), r.mode, r.weights, of(f, 2*time.Second, 16*time.Second),
			[]campaign.Engine{campaign.BPF, campaign.Perf}, hasPerf()})
		if err != nil {
			return errors.Join(missed, err)
		}
		truth := truthOf(truthNames, r.weights)
		for _, w := range all {
			name, off := w.farthest(truth)
			reach := withinPoints(w.samples)
			t.Row(r.about, w.by, report.Count(float64(w.samples)), "`"+name+"`", report.Number(off, 2), "± "+report.Number(reach, 2), report.Percent(100*w.preempt))
			missed = errors.Join(missed, miss(w.by, max(off, -off) > f.allowed(reach), "%s: %s is off by %.2f points of %.2f", r.about, name, off, reach))
		}
	}
	return missed
}

// hottestTable runs a program again and again.
func hottestTable(ctx context.Context, f *field, t *report.Table) (missed error) {
	for _, r := range []struct {
		about   string
		weights []int
		tie     bool
	}{{"10 before 6", oneHottest, false}, {"8 beside 8: a tie", twoHottest, true}} {
		counts, order, err := f.hottestRuns(ctx, r.weights)
		if err != nil {
			return errors.Join(missed, err)
		}
		for _, by := range order {
			h := counts[by]
			reach := fmt.Sprintf("%d of %d the same", h.runs, h.runs)
			if r.tie {
				reach = "a tie"
			}
			t.Row(r.about, by, strconv.Itoa(h.runs), strconv.Itoa(h.most()), strconv.Itoa(len(h.by)), strconv.Itoa(h.ties), reach)
			missed = errors.Join(missed, miss(by, !r.tie && h.most() < h.runs, "%s: the same function in %d of %d runs", r.about, h.most(), h.runs))
		}
	}
	return missed
}

// hottestRuns counts the hottest functions by witness, in order.
func (f *field) hottestRuns(ctx context.Context, weights []int) (map[string]*hottests, []string, error) {
	counts := make(map[string]*hottests)
	var order []string
	for range of(f, 5, 30) {
		all, err := f.watchTruths(ctx, truthRun{f.Path("truths"), "serial", weights, of(f, 500*time.Millisecond, 1500*time.Millisecond), []campaign.Engine{campaign.BPF}, false})
		if err != nil {
			return nil, nil, err
		}
		for _, w := range all {
			if counts[w.by] == nil {
				counts[w.by] = new(hottests)
				order = append(order, w.by)
			}
			counts[w.by].add(w.split)
		}
	}
	return counts, order, nil
}

// slowdowns are the loops that are put into functions, in hundredths of the work that they have.
var slowdowns = []map[int]int{
	{10: 50}, {5: 100}, {3: 100, 7: 25}, {1: 300}, {9: 10, 2: 200}, {6: 75}, {4: 150, 8: 30}, {10: 20, 9: 20}, {7: 100}, {2: 100, 4: 100, 6: 100},
}

// slowdownTable slows functions, and compares their shares with foretold ones.
func slowdownTable(ctx context.Context, f *field, t *report.Table) (missed error) {
	var order []string
	follows := make(map[string][]follow)
	for i, put := range slowdowns[:of(f, 1, len(slowdowns))] {
		slow, err := f.buildSlowed(ctx, i, put)
		if err != nil {
			return err
		}
		before, err := f.slowdownRun(ctx, f.Path("truths"))
		if err != nil {
			return err
		}
		since, err := f.slowdownRun(ctx, slow)
		if err != nil {
			return err
		}
		order = addFollows(follows, before, since, factorsOf(truthNames, put))
	}
	for _, by := range order {
		missed = errors.Join(missed, f.slowdownRow(t, by, follows[by]))
	}
	return missed
}

// addFollows adds how the shares of two runs follow a slowdown, by witness, and returns the witnesses.
func addFollows(follows map[string][]follow, before, since []witnessed, factor map[string]float64) (order []string) {
	for k, w := range before {
		order = append(order, w.by)
		follows[w.by] = append(follows[w.by], slowed(w.split, since[k].split, factor)...)
	}
	return order
}

// factorsOf returns the factors by which functions are slower, by name.
func factorsOf(names []string, put map[int]int) map[string]float64 {
	factor := make(map[string]float64)
	for function, percent := range put {
		factor[names[function-1]] = 1 + float64(percent)/100
	}
	return factor
}

func (f *field) slowdownRun(ctx context.Context, executable string) ([]witnessed, error) {
	return f.watchTruths(ctx, truthRun{executable, "serial", ramp, of(f, 2*time.Second, 6*time.Second), []campaign.Engine{campaign.BPF}, false})
}

// slowdownRow adds a witness's row, after cells that say of what. The reach is 95 %; chance takes some of few
// functions out of their intervals.
func (f *field) slowdownRow(t *report.Table, by string, all []follow, about ...string) error {
	within, least, most, far := 0, 100.0, 0.0, 0.0
	for _, o := range all {
		within += one(o.within())
		least, most, far = min(least, 100*o.half), max(most, 100*o.half), max(far, 100*max(o.measured-o.foretold, o.foretold-o.measured))
	}
	share := 100 * float64(within) / float64(len(all))
	t.Row(append(about, by, strconv.Itoa(len(all)), report.Percent(share), report.Number(least, 2)+"–"+report.Number(most, 2), report.Number(far, 2), "≥ 95 %")...)
	return miss(by, share < of(f, 60.0, 95.0), "%s: %d of %d functions are within their intervals", strings.Join(about, ""), within, len(all))
}

// buildSlowed builds the program with loops put into functions.
func (f *field) buildSlowed(ctx context.Context, number int, put map[int]int) (executable string, err error) {
	source, err := os.ReadFile(truthsSource + "/functions.go")
	if err != nil {
		return "", err
	}
	text := string(source)
	for function, percent := range put {
		text = putLoop(text, function, percent)
	}
	executable = f.Path(fmt.Sprintf("truths-slow%d", number))
	file, overlay := executable+".go", executable+".json"
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		return "", err
	}
	tree, err := os.Getwd()
	if err != nil {
		return "", err
	}
	replace := map[string]map[string]string{"Replace": {tree + truthsSource[1:] + "/functions.go": file}}
	if err := campaign.WriteJSON(overlay, replace); err != nil {
		return "", err
	}
	return executable, campaign.Build(ctx, executable, truthsSource, "-overlay="+overlay)
}

// putLoop puts a loop like a function's own at its beginning, for so many hundredths of its steps.
func putLoop(source string, function, percent int) string {
	begin := fmt.Sprintf("func f%d(n int) (x int) {\n", function)
	return strings.Replace(source, begin, begin+fmt.Sprintf("\tfor i := range n * %d / 100 {\n\t\tx = x*x + i\n\t}\n", percent), 1)
}

// sameTable compares windows of one program in pairs.
func sameTable(ctx context.Context, f *field, t *report.Table) error {
	out, in := io.Pipe()
	p, err := campaign.Launch{
		Command: []string{f.Path("truths"), "serial", commas(ramp), "1h", os.DevNull}, Ready: isReady, Stdin: out,
	}.Start(ctx)
	if err != nil {
		return err
	}
	defer p.Stop()
	fmt.Fprintln(in)
	in.Close() // else Stop would never return
	pairs := of(f, 10, 200)
	var methods, edges, contexts, anything int
	var detectable []float64
	for range pairs {
		d, err := f.samePair(ctx, p.PID())
		if err != nil {
			return err
		}
		methods, edges, contexts = methods+one(d.Methods.Significant > 0), edges+one(d.Edges.Significant > 0), contexts+one(d.Contexts.Significant > 0)
		anything += one(d.Methods.Significant+d.Edges.Significant+d.Contexts.Significant > 0)
		detectable = append(detectable, d.Methods.Detectable)
	}
	most := of(f, 4, 15) // by chance, 5 of 10 come once in 10,000 times
	t.Row(strconv.Itoa(pairs), strconv.Itoa(methods), strconv.Itoa(edges), strconv.Itoa(contexts), strconv.Itoa(anything),
		report.Number(campaign.Median(detectable), 1), fmt.Sprintf("≤ %d", most))
	return miss("ccmapd", anything > most, "%d of %d pairs have a row raised", anything, pairs)
}

// samePair compares two windows, one after the other.
func (f *field) samePair(ctx context.Context, pid int) (compare.Diff, error) {
	a, err := f.sameWindow(ctx, pid, "a")
	if err != nil {
		return compare.Diff{}, err
	}
	b, err := f.sameWindow(ctx, pid, "b")
	if err != nil {
		return compare.Diff{}, err
	}
	first, err1 := campaign.ReadProfile(a)
	second, err2 := campaign.ReadProfile(b)
	if err := errors.Join(err1, err2); err != nil {
		return compare.Diff{}, err
	}
	return compare.Differences(first, second, compare.DiffOptions{})
}

func (f *field) sameWindow(ctx context.Context, pid int, name string) (string, error) {
	file := f.Path("same-" + name + ".json.gz")
	s, err := f.Attach(ctx, pid, "", file, "-d", of(f, "500ms", "600ms"), "--tune=false", "-i", "1ms")
	if err != nil {
		return "", err
	}
	return file, s.Wait()
}
