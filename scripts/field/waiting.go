package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/scripts/campaign"
	"github.com/ccmapd/ccmapd/scripts/report"
)

// The campaign waiting asks 'ccmapd requests' how long the requests of foreign servers take, and compares that with the
// servers' own histograms of the same time. Then it measures what sampling waits costs.
const waitingPortion report.Portion = "scripts/field, waiting"

func runWaiting(ctx context.Context, f *field) error {
	began := time.Now()
	runs, pairs := 20, 30
	if f.Quick {
		runs, pairs = 3, 3
	}
	table := report.Table{Head: []string{"server", "load", "requests a second", "its own mean, ms", "`ccmapd requests`, ms", "off %", "interval ±%", "held", "ccmapd, % of a core"}}
	var failed error
	for _, w := range waiters() {
		if !f.Wants(w.name) {
			continue
		}
		cells, err := f.measureWaiter(ctx, w, runs)
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s: %w", w.name, err))
			continue
		}
		f.Say("%s", strings.Join(cells, " | "))
		table.Row(cells...)
	}
	paired := report.Table{Head: pairedHead}
	for _, w := range waiters() {
		if !f.Wants("paired-" + w.name) {
			continue
		}
		rows, err := f.pairWaiter(ctx, w, pairs)
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s, by pairs: %w", w.name, err))
		}
		paired.Rows = append(paired.Rows, rows...)
	}
	truths := report.Table{Head: []string{"program", "load", "state", "`runtime/trace`, goroutines", "ccmapd", "off %"}}
	for _, spinners := range []int{0, 6} {
		if !f.Wants("traced") {
			continue
		}
		rows, err := f.measureTraced(ctx, spinners)
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("beside runtime/trace: %w", err))
		}
		truths.Rows = append(truths.Rows, rows...)
	}
	shifts := report.Table{Head: []string{"program", "load", "stacks", "wrong", "moved, % of the time"}}
	for _, spinners := range []int{0, 2} {
		if !f.Wants("shifts") {
			continue
		}
		cells, err := f.measureShifts(ctx, 200, spinners)
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("stacks: %w", err))
			continue
		}
		shifts.Row(cells...)
	}
	costs := report.Table{Head: []string{"idle goroutines", "busy ones", "ccmapd's start and first second, s", "then, % of a core"}}
	for _, n := range []int{2_000, 100_000} {
		if !f.Wants("idlers") {
			continue
		}
		cells, err := f.measureIdlers(ctx, n)
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("%d goroutines: %w", n, err))
			continue
		}
		costs.Row(cells...)
	}
	text := fmt.Sprintf("%s %d runs of %v each. The last run took %v.\n\n", report.Measured(began), runs, f.length(), after(began))
	for _, t := range []report.Table{table, paired, truths, shifts, costs} {
		if len(t.Rows) > 0 {
			text += t.String() + "\n"
		}
	}
	return errors.Join(failed, f.Write(waitingPortion, text))
}

// answer is the campaign's part of what 'ccmapd requests' answers.
type answer struct {
	Entries []struct {
		InFlight  float64 `json:"in_flight"`
		Requests  int64   `json:"requests"`
		PerSecond float64 `json:"per_second"`
		RequestNS int64   `json:"request_ns"`
		Within    float64 `json:"within_percent"`
	} `json:"entries"`
}

// measureWaiter asks about a server some times, and returns the cells of its row.
func (f *field) measureWaiter(ctx context.Context, w waiter, runs int) ([]string, error) {
	p, stop, err := w.settle(ctx, f)
	if err != nil {
		return nil, err
	}
	defer stop()
	var own, ours, off, within, perSecond, cpu []float64
	held := 0
	for range runs {
		sum, count, err := w.read(ctx)
		if err != nil {
			return nil, err
		}
		text, used, err := f.ask(ctx, "requests", "--json", "-d", f.length().String(), strconv.Itoa(p.PID()))
		if err != nil {
			return nil, err
		}
		sumAfter, countAfter, err := w.read(ctx)
		if err != nil {
			return nil, err
		}
		var a answer
		if err := json.Unmarshal(text, &a); err != nil || len(a.Entries) == 0 {
			return nil, errors.Join(err, fmt.Errorf("no requests in %s", text))
		}
		e, mean := a.Entries[0], 1000*(sumAfter-sum)/(countAfter-count)
		ms := float64(e.RequestNS) / 1e6
		own, ours, perSecond = append(own, mean), append(ours, ms), append(perSecond, e.PerSecond)
		off, within = append(off, 100*(ms/mean-1)), append(within, e.Within)
		cpu = append(cpu, 100*used.Seconds()/f.length().Seconds())
		if ms*(1-e.Within/100) <= mean && mean <= ms*(1+e.Within/100) {
			held++
		}
	}
	return []string{
		w.about, report.Number(report.LoadAverage(), 0), report.Count(average(perSecond)), report.Number(average(own), 3), report.Number(average(ours), 3),
		report.Number(average(off), 1), report.Number(average(within), 1), fmt.Sprintf("%d of %d", held, runs), report.Number(average(cpu), 1),
	}, nil
}

func average(all []float64) float64 {
	sum := 0.0
	for _, v := range all {
		sum += v
	}
	return sum / float64(len(all))
}

// ask runs ccmapd, and returns what it prints and its CPU time.
func (f *field) ask(ctx context.Context, args ...string) (stdout []byte, used time.Duration, err error) {
	var out, said bytes.Buffer
	cmd := exec.CommandContext(ctx, f.Ccmapd, args...)
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		return nil, 0, fmt.Errorf("ccmapd %s: %w\n%s", strings.Join(args, " "), err, &said)
	}
	return out.Bytes(), cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), nil
}

// measureIdlers samples a program with so many goroutines, and returns the cells of its row.
func (f *field) measureIdlers(ctx context.Context, n int) ([]string, error) {
	executable, err := f.build(ctx, build{name: "idlers", files: map[string]string{"main.go": readDriver("idlers/main.go")}})
	if err != nil {
		return nil, err
	}
	p, err := campaign.Launch{Command: []string{executable, strconv.Itoa(n)}, Ready: regexp.MustCompile(`^waiting$`)}.Start(ctx)
	if err != nil {
		return nil, err
	}
	defer p.Stop()
	file := f.Path("profiles", "waiting", "idlers.json")
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return nil, err
	}
	var used [2]time.Duration // of a short session, and of one that is longer by the window
	for i := range used {
		during := time.Second + time.Duration(i)*f.length()
		if _, used[i], err = f.ask(ctx, "attach", "--event", "wait", "-q", "-d", during.String(), "-o", file, strconv.Itoa(p.PID())); err != nil {
			return nil, err
		}
	}
	each := (used[1] - used[0]).Seconds() / f.length().Seconds()
	return []string{report.Count(float64(n)), "50", report.Number(used[0].Seconds(), 2), report.Number(100*each, 2)}, nil
}

// sampleWaits samples the waits of a program every 5 ms for a time, whatever that costs, and calls begun when it does. It
// returns the load average of then, too.
func (f *field) sampleWaits(ctx context.Context, p *campaign.Process, name string, during time.Duration, begun func()) (profile *ccmap.Snapshot, load float64, err error) {
	file := f.Path("profiles", "waiting", name+".json")
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return nil, 0, err
	}
	s, err := f.Attach(ctx, p.PID(), "", file, "--event", "wait", "-i", "5ms", "--max-host-overhead", "0")
	if err != nil {
		return nil, 0, err
	}
	begun()
	pause(ctx, during)
	load = report.LoadAverage()
	_, err = s.End()
	if err != nil {
		return nil, 0, err
	}
	profile, err = campaign.ReadProfile(file)
	return profile, load, err
}

// measureTraced samples a program that sleeps, beside so many goroutines that spin, while it traces itself. It returns
// rows of its two states.
func (f *field) measureTraced(ctx context.Context, spinners int) (rows [][]string, err error) {
	executable, err := f.build(ctx, build{name: "traced", requires: []string{expTrace}, files: map[string]string{"main.go": readDriver("traced/main.go")}})
	if err != nil {
		return nil, err
	}
	in, lines, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer lines.Close()
	defer in.Close()
	p, err := campaign.Launch{Command: []string{executable, strconv.Itoa(spinners)}, Ready: regexp.MustCompile(`^ready$`), Stdin: in}.Start(ctx)
	if err != nil {
		return nil, err
	}
	defer p.Stop()
	profile, load, err := f.sampleWaits(ctx, p, "traced", f.length(), func() { fmt.Fprintln(lines) })
	fmt.Fprintln(lines)
	var slept, runnable, took float64
	for range 100 {
		if _, err := fmt.Sscanf(p.LastLine(), "traced %g %g %g", &slept, &runnable, &took); err == nil {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	if err != nil || took == 0 {
		return nil, errors.Join(err, errors.New("no trace"))
	}
	ours := sleepersOf(profile)
	about := fmt.Sprintf("6 goroutines sleep for 5 ms, %d spin", spinners)
	for _, state := range []struct {
		reason string
		truth  float64
	}{{"[sleep]", slept}, {"[runnable]", runnable}} {
		is, want := ours[state.reason]/profile.Meta().Duration.Seconds()/1e9, state.truth/took
		rows = append(rows, []string{about, report.Number(load, 0), state.reason, report.Number(want, 3), report.Number(is, 3), report.Number(100*(is/want-1), 1)})
	}
	return rows, nil
}

// expTrace reads traces.
const expTrace = "golang.org/x/exp@v0.0.0-20261113113407-e3970619a1a4"

// sleepersOf returns the time of stacks below main.sleeps, by the innermost frame, ns.
func sleepersOf(s *ccmap.Snapshot) map[string]float64 {
	sum := make(map[string]float64)
	below := make([]bool, s.Len()) // parents come first
	for n := range s.Nodes() {
		name := ""
		if n.Method != ccmap.NoMethod {
			name = s.Names().At(n.Method).Name
		}
		if below[n.ID] = below[n.Parent] || name == "main.sleeps"; below[n.ID] {
			sum[name] += float64(n.Self.Time)
		}
	}
	return sum
}
