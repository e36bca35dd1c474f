package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"github.com/ccmapd/ccmapd/internal/perfevent"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/cmd/ccmapd/internal/session"
	"github.com/ccmapd/ccmapd/internal/testrun"
	"github.com/ccmapd/ccmapd/internal/view"
	"github.com/ccmapd/ccmapd/testdata/receivers"
)

// receiversProgram is testdata/receivers, running.
type receiversProgram struct {
	*exec.Cmd
	stdout *bufio.Reader
}

func startReceivers(t *testing.T) receiversProgram {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "receivers")
	build := exec.Command("go", "build", "-o", binary, "github.com/ccmapd/ccmapd/testdata/receivers/main")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build receivers: %v\n%s", err, out)
	}
	cmd := exec.Command(binary)
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	start(t, cmd)
	p := receiversProgram{cmd, bufio.NewReader(stdout)}
	if _, err := p.stdout.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	return p
}

// end stops the program and returns what it says it did.
func (p receiversProgram) end(t *testing.T) (truth receivers.Truth) {
	t.Helper()
	if err := p.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := json.NewDecoder(p.stdout).Decode(&truth); err != nil {
		t.Fatal(err)
	}
	return truth
}

// TestReceiversAgainstTruth compares what ccmapd says of a program's calls with
// what the program says. No other test of the package runs beside it.
func TestReceiversAgainstTruth(t *testing.T) {
	testrun.Full(t, testrun.Quiet)
	testrun.Breakpoints(t, perfevent.Silent())
	needEngine(t)
	if testing.Short() {
		t.Skip("samples a program for seconds")
	}
	s, file, truth := enoughCalls(t)
	t.Run("sampled", func(t *testing.T) { sampled.againstTruth(t, s, truth) })
	t.Run("caught", func(t *testing.T) { caught.againstTruth(t, s, truth) })
	t.Run("contexts", func(t *testing.T) { contextsAgainstTruth(t, s, truth) })
	t.Run("report", func(t *testing.T) { reportAgainstTruth(t, reportReceivers(t, file), truth) })
}

// enoughCalls samples the program until the calls of each caller that sends one type are caught often enough. On a busy
// machine bursts come late, and catch fewer calls in the same CPU time.
func enoughCalls(t *testing.T) (s *ccmap.Snapshot, file string, truth receivers.Truth) {
	t.Helper()
	const enough, most = 100, 28 * time.Second
	for cpu := 7 * time.Second; ; cpu *= 2 {
		program := startReceivers(t)
		file = filepath.Join(t.TempDir(), "receivers.json")
		a := attachTo(t, fmt.Sprint(program.Process.Pid), "--tune=false", "-i", "1ms", "--hits", "5000", "-o", file)
		waitForCPU(t, program.Process.Pid, cpu)
		s = a.interrupt(t, file)
		truth = program.end(t)
		fewest := fewestCalls(s, truth)
		if fewest >= enough || cpu >= most {
			return s, file, truth
		}
		t.Logf("in %v of CPU time %d calls of a caller were caught: once more, for longer", cpu, fewest)
	}
}

// fewestCalls returns how many calls were caught of the caller with the fewest.
func fewestCalls(s *ccmap.Snapshot, truth receivers.Truth) int64 {
	fewest := int64(math.MaxInt64)
	for name, site := range truth.Sites {
		for _, to := range site.Targets {
			if to.Depth > 0 {
				fewest = min(fewest, caughtFrom(s, name, to.Caller, to.Depth).total())
			}
		}
		if len(site.Targets) > 1 {
			fewest = min(fewest, reached(s, ccmap.OriginBurst, call{method: name}, byName).total())
		}
	}
	return fewest
}

// TestReceiversOfAChangingProgram: where receivers change in mid-run, the file has all
// calls that the report counts, and shows the change by phase. Sites that do not change
// have their shares. Of the others the shares in the run depend on how much CPU time
// the program got before and after. No other test runs beside it, as above.
func TestReceiversOfAChangingProgram(t *testing.T) {
	testrun.Full(t, testrun.Minutes)
	testrun.Breakpoints(t, perfevent.Silent())
	needEngine(t)
	if testing.Short() {
		t.Skip("samples a program for seconds")
	}
	program := startReceivers(t)
	file := filepath.Join(t.TempDir(), "receivers.json")
	a := attachTo(t, fmt.Sprint(program.Process.Pid), "--tune=false", "-i", "1ms", "--hits", "5000", "--json", "-o", file)
	waitForCPU(t, program.Process.Pid, 3*time.Second)
	if err := program.Process.Signal(syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	waitForCPU(t, program.Process.Pid, 11*time.Second)
	s := a.interrupt(t, file)
	truth := program.end(t)
	var report session.ReportJSON
	if err := json.Unmarshal(a.stdout.Bytes(), &report); err != nil {
		t.Fatal(err)
	}
	if in := caughtCalls(s.Points()); in == 0 || in != int64(report.Values.Caught-report.Values.Lost) {
		t.Errorf("the report has %+v, the file %d calls", report.Values, in)
	}
	const prefix = "github.com/ccmapd/ccmapd/testdata/receivers."
	first, last := phasesOfCaught(s)
	for name, target := range map[string]string{"bimorphic": "(*square).area", "generic": "(*stack[int]).push"} {
		delete(truth.Sites, prefix+name)
		var shares []float64
		for _, phase := range []uint32{first, last} {
			p := view.New(file, s)
			if err := p.UsePhase(phase); err != nil {
				t.Fatal(err)
			}
			shares = append(shares, reachedIn(p, ccmap.OriginBurst, call{method: prefix + name}, byName).percent(prefix+target))
		}
		t.Logf("%s reaches %s in %.1f %% of the calls, later in %.1f %%", name, target, shares[0], shares[1])
		if shares[0] < 60 || shares[1] > 50 {
			t.Errorf("%s reaches %s in %.1f %% of the first phase and %.1f %% of the last", name, target, shares[0], shares[1])
		}
	}
	caught.againstTruth(t, s, truth)
}

// phasesOfCaught returns the numbers of the first and the last phase with caught calls.
func phasesOfCaught(s *ccmap.Snapshot) (first, last uint32) {
	var phases []uint32
	for _, q := range s.Points() {
		if q.Origin == ccmap.OriginBurst {
			phases = append(phases, q.Phase+1)
		}
	}
	return slices.Min(phases), slices.Max(phases)
}

// caughtCalls adds up the caught calls of all phases.
func caughtCalls(points []ccmap.Point) (n int64) {
	for _, q := range points {
		if q.Origin == ccmap.OriginBurst && q.Kind == ccmap.PointCall && q.Callers == nil {
			n += q.Count
		}
	}
	return n
}

// interrupt ends ccmapd and reads the profile that it has written.
func (a *attached) interrupt(t *testing.T, file string) *ccmap.Snapshot {
	t.Helper()
	if err := a.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	return a.end(t, file)
}

// counting is one way to count the methods that a call reaches.
type counting struct {
	origin    ccmap.Origin
	least     int64   // counts of a site with several targets that it takes to tell
	tolerance float64 // points
	target    func(receivers.Target) (symbol string, amount int64)
}

var (
	// A sampled stack has the method that does the work, and its share is that of
	// the time, to which the rounds are in proportion.
	sampled = counting{ccmap.OriginSampled, 200, 3, func(t receivers.Target) (string, int64) { return t.Method, t.Rounds }}
	// A caught call names the wrapper of the dynamic type, and its share is that of
	// the calls.
	caught = counting{ccmap.OriginBurst, 300, 1, func(t receivers.Target) (string, int64) { return t.Wrapper, t.Calls }}
)

func (v counting) againstTruth(t *testing.T, s *ccmap.Snapshot, truth receivers.Truth) {
	for name, site := range truth.Sites {
		want := make(mix)
		for _, to := range site.Targets {
			symbol, amount := v.target(to)
			want[symbol] += amount
		}
		got := reached(s, v.origin, call{method: name}, byName)
		t.Logf("%s: %d counted, at most %.2f points off: %v", name, got.total(), got.furthest(want), got)
		if got.total() == 0 || len(want) > 1 && got.total() < v.least {
			t.Errorf("%s: %d are too few to tell", name, got.total())
		}
		for _, wrong := range got.differs(want, v.tolerance) {
			t.Errorf("%s: %s", name, wrong)
		}
	}
}

// contextsAgainstTruth: the caller that is known to send one type only is in the
// contexts of its calls, and of no others.
func contextsAgainstTruth(t *testing.T, s *ccmap.Snapshot, truth receivers.Truth) {
	for name, site := range truth.Sites {
		for _, to := range site.Targets {
			if to.Depth == 0 {
				continue
			}
			from, got := caughtFrom(s, name, to.Caller, to.Depth), mix{}
			got[to.Wrapper] = from[to.Wrapper]
			if got.total() == 0 || got.total() != from.total() {
				t.Errorf("%s reaches %v from %s, want %s only", name, from, to.Caller, to.Wrapper)
			}
			all := reached(s, ccmap.OriginBurst, call{method: name}, byName)
			if lost := all[to.Wrapper] - got.total(); lost > all.total()/100 {
				t.Errorf("%s: %d of %d calls of %s were caught in other contexts than %s",
					name, lost, all[to.Wrapper], to.Wrapper, to.Caller)
			}
		}
	}
}

// caughtFrom is what the calls of a method reached whose caller at some depth is
// known.
func caughtFrom(s *ccmap.Snapshot, method, caller string, depth int) mix {
	m := make(mix)
	for _, p := range s.Points() {
		if p.Origin != ccmap.OriginBurst || s.Names().At(p.Method).Name != method || len(p.Callers) < depth ||
			s.Names().At(p.Callers[depth-1].Method).Name != caller {
			continue
		}
		for _, v := range p.Values {
			m[s.Names().At(ccmap.MethodID(v.Value)).Name] += v.Count
		}
	}
	return m
}

// verdicts are what the report is to say of the sites. Those that send messages
// have one type from each caller.
var verdicts = map[string]string{
	"monomorphic": "monomorphic",
	"bimorphic":   "bimorphic",
	"promoted":    "bimorphic",
	"generic":     "bimorphic",
	"closure":     "mixed",
	"deliver":     "megamorphic",
	"relayed":     "megamorphic",
	"forwarded":   "megamorphic",
}

// reportAgainstTruth: the verdicts are right, and callers make a site monomorphic
// from the depth on that the program was built for.
func reportAgainstTruth(t *testing.T, report []receiversSite, truth receivers.Truth) {
	for name, site := range truth.Sites {
		got := siteAt(t, report, call{method: name})
		if want := verdicts[name[strings.LastIndexByte(name, '.')+1:]]; got.Verdict != want || got.Decisive != "calls" {
			t.Errorf("%s is %s by %s, want %s by calls", name, got.Verdict, got.Decisive, want)
		}
		if depth := site.Targets[0].Depth; depth > 0 {
			splitFrom(t, name+" by calls", got.ByCalls, depth)
			splitFrom(t, name+" by samples", got.BySamples, depth)
		}
	}
}

// splitFrom: less callers than depth tell nothing, and as many tell all.
func splitFrom(t *testing.T, what string, e *receiversEvidence, depth int) {
	if e == nil || len(e.Splits) != 3 {
		t.Errorf("%s: no splits by 1, 2 and 3 callers", what)
		return
	}
	for _, split := range e.Splits {
		if tells := split.Entropy < 0.1; tells != (split.Depth >= depth) {
			t.Errorf("%s: %d callers leave %.2f bits of %.2f, and %d tell the type",
				what, split.Depth, split.Entropy, e.Entropy, depth)
		}
		if (split.Verdict == "monomorphic") != (split.Depth >= depth) {
			t.Errorf("%s: %s by %d callers, and %d tell the type", what, split.Verdict, split.Depth, depth)
		}
	}
}

// reportReceivers returns what the command says of all sites of a profile.
func reportReceivers(t *testing.T, file string) []receiversSite {
	t.Helper()
	code, out, errs := runWith([]string{"receivers", "--json", "-n", "0", file}, nil)
	if code != exitOK {
		t.Fatalf("receivers exits with %d: %s", code, errs)
	}
	var report struct{ Sites []receiversSite }
	if err := json.Unmarshal([]byte(out), &report); err != nil {
		t.Fatal(err)
	}
	return report.Sites
}

// siteAt returns what a report says of a call.
func siteAt(t *testing.T, report []receiversSite, at call) receiversSite {
	t.Helper()
	for _, site := range report {
		if site.Caller.Method == at.method && (at.line == 0 || site.Caller.Line == at.line) {
			return site
		}
	}
	t.Fatalf("the report lacks the call in %s", at.method)
	return receiversSite{}
}
