package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/tetratelabs/wazero"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/ccmapd/ccmapd/internal/testrun"
	"github.com/ccmapd/ccmapd/scripts/campaign"
)

func TestMain(m *testing.M) {
	// wazero keeps its version in a variable without a lock. The first runtime sets it.
	ctx := context.Background()
	if err := wazero.NewRuntime(ctx).Close(ctx); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(testrun.Guard(m))
}

func testHostile(t *testing.T) *hostile {
	return &hostile{
		Campaign: campaign.Campaign{Work: t.TempDir(), Report: filepath.Join(t.TempDir(), "PAGE.md"), Log: t.Output()},
		kind:     kind{name: "test", head: []string{"attack", "result"}},
	}
}

// A command ends by itself or by its limits, and its outcome says which.
func TestChild(t *testing.T) {
	t.Parallel()
	h := testHostile(t)
	for _, c := range []struct {
		limits limits
		script string
		want   string
	}{
		{limits{}, "exit 0", "ended well"},
		{limits{}, "exit 3", "error, status 3"},
		{limits{memory: 64 << 20}, "test $(ulimit -v) = 65536", "ended well"},
		{limits{}, "kill -SEGV $$", "killed by segmentation fault"},
		{limits{time: 50 * time.Millisecond}, "sleep 1000 & wait", "ran out of time"},
	} {
		o, err := h.child(t.Context(), c.limits, "sh", "-c", c.script)
		if err != nil || !strings.HasPrefix(o.how(), c.want) {
			t.Errorf("%s within %v: %s, %v, want %s\n%s", c.script, c.limits, o.how(), err, c.want, o.stderr)
		}
	}
	if o, err := h.child(t.Context(), limits{stdin: strings.NewReader("in"), env: []string{"A=b"}}, "sh", "-c", "cat; echo $A"); err != nil || o.stdout != "inb\n" || o.rss == 0 {
		t.Errorf("%+v, %v", o, err)
	}
	if _, err := h.child(t.Context(), limits{}, "/does/not/exist"); err == nil {
		t.Error("ran what does not exist")
	}
	trace := outcome{code: 2, stderr: "panic: no\n\ngoroutine 1 [running]:\n"}
	if !trace.panicked() || (outcome{code: 2, stderr: "usage"}).panicked() {
		t.Error("a panic is not told from an error")
	}
}

// A command that its limit ends leaves no descendant.
func TestChildLeavesNone(t *testing.T) {
	t.Parallel()
	h := testHostile(t)
	var o outcome
	for limit := 200 * time.Millisecond; o.stdout == ""; limit *= 2 { // until it has a descendant
		var err error
		o, err = h.child(t.Context(), limits{time: limit}, "sh", "-c", "sleep 1000 >/dev/null 2>&1 & echo $!; wait")
		if err != nil || !o.timedOut || o.signal != syscall.SIGKILL {
			t.Fatalf("%+v, %v", o, err)
		}
	}
	for ctx := t.Context(); ctx.Err() == nil; time.Sleep(time.Millisecond) { // init reaps it
		if stat, err := os.ReadFile("/proc/" + strings.TrimSpace(o.stdout) + "/stat"); err != nil || bytes.Contains(stat, []byte(") Z ")) {
			return
		}
	}
}

// A session that ended before its interruption has no time of its end.
func TestEndCell(t *testing.T) {
	t.Parallel()
	for slowest, want := range map[time.Duration]string{neverInterrupted: "–", 0: "0.0 s", 1500 * time.Millisecond: "1.5 s"} {
		if got := endCell(slowest); got != want {
			t.Errorf("%v becomes %q, want %q", slowest, got, want)
		}
	}
}

// The result of a failed session is its error, not the hint after it.
func TestResult(t *testing.T) {
	t.Parallel()
	o := outcome{code: 1, stderr: "ccmapd: attach to process 7: load symbols: too much\n  What to do.\n"}
	if got, want := o.result(), "error: load symbols: too much"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// Rows with the same name replace each other. With -only the page's other rows stay.
func TestRows(t *testing.T) {
	t.Parallel()
	h := testHostile(t)
	ran := func(only string, rows ...row) [][]string {
		h.Only, h.rows = only, nil
		h.kind.run = func(_ context.Context, h *hostile) error {
			for _, r := range rows {
				h.add(r)
			}
			return nil
		}
		h.Ccmapd = "ccmapd" // not built
		if err := h.attack(t.Context(), t.Output()); err != nil {
			t.Error(err)
		}
		page, err := h.old()
		if err != nil {
			t.Error(err)
		}
		return page
	}
	captioned := func(want string) {
		if text, err := os.ReadFile(h.Report); err != nil || !strings.Contains(string(text), want) {
			t.Errorf("the page has not %q: %v\n%s", want, err, text)
		}
	}
	want := [][]string{{"a", "2"}, {"b", "1"}}
	if diff := cmp.Diff(want, ran("", row{cells: []string{"a", "1"}}, row{cells: want[1]}, row{cells: want[0]})); diff != "" {
		t.Error(diff)
	}
	captioned(". The run took ")
	want[1][1] = "3"
	if diff := cmp.Diff(want, ran("b", row{cells: want[1]})); diff != "" {
		t.Error(diff)
	}
	captioned(". 1 of the 2 rows are of the last run, which took ")
	if diff := cmp.Diff(want, ran("b", row{cells: want[0], earlier: true}, row{cells: want[1]})); diff != "" {
		t.Error(diff)
	}
	captioned(". 1 of the 2 rows are of the last run, which took ")
	if diff := cmp.Diff(want[1:], ran("", row{cells: want[1]})); diff != "" {
		t.Error(diff)
	}
}

// A missed bound is an error that names the row.
func TestMisses(t *testing.T) {
	t.Parallel()
	h := testHostile(t)
	h.Quick, h.Ccmapd = true, "ccmapd"
	h.kind.run = func(_ context.Context, h *hostile) error {
		r := row{cells: []string{"bomb", "5 s"}}
		r.miss("took %d s", 5)
		h.add(r)
		return nil
	}
	if err := h.attack(t.Context(), t.Output()); err == nil || err.Error() != "test, bomb: took 5 s" {
		t.Error(err)
	}
	if _, err := os.Stat(h.Report); err == nil {
		t.Error("-quick wrote the page")
	}
}

// With -quick a row that is late runs once more, and no other.
func TestLate(t *testing.T) {
	t.Parallel()
	h := testHostile(t)
	h.Quick, h.Ccmapd = true, "ccmapd"
	var ran []string
	h.kind.run = func(_ context.Context, h *hostile) error {
		for _, name := range []string{"in time", "late, once", "late", "torn"} {
			if !h.wants(name) {
				continue
			}
			r := row{cells: []string{name}}
			if ran = append(ran, name); name == "late" || name == "late, once" && len(ran) < 4 {
				r.late("took %d s", 5)
			}
			if name == "torn" {
				r.late("took 1 s")
				r.miss("a file is torn")
			}
			h.add(r)
		}
		return nil
	}
	const want = "test, late: took 5 s\ntest, torn: took 1 s\ntest, torn: a file is torn"
	if err := h.attack(t.Context(), t.Output()); err == nil || err.Error() != want {
		t.Error(err)
	}
	if diff := cmp.Diff([]string{"in time", "late, once", "late", "torn", "late, once", "late"}, ran); diff != "" {
		t.Error(diff)
	}
}

func TestWants(t *testing.T) {
	t.Parallel()
	h := hostile{Campaign: campaign.Campaign{Only: "Fuzz*,ccmap"}}
	for name, want := range map[string]bool{"FuzzFold": true, "ccmap": true, "ccmapd": false} {
		if got := h.wants(name); got != want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestFuzzed(t *testing.T) {
	t.Parallel()
	for out, want := range map[string]float64{
		"": 0,
		"fuzz: elapsed: 3s, execs: 12 (4/sec)\nfuzz: elapsed: 6s, execs: 99 (4/sec)\n": 99,
		"execs: 99\n== executions\n   120  ./ccmap FuzzFold\n":                         120,
	} {
		if got := fuzzed(out); got != want {
			t.Errorf("%q: %v, want %v", out, got, want)
		}
	}
}

// A breakpoint of perf_event_open takes one of a thread's debug registers while it is
// open. Nothing else shows it.
func TestBreakpointsAreSeen(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	count := func() int {
		free, err := freeRegisters(unix.Gettid())
		if err != nil {
			testrun.Lacks(t, "no breakpoint can be set here: %v", err)
		}
		return free
	}
	// Other tests have breakpoints, too, and come and go. A count that sees none never agrees.
	for range 1000 {
		before := count()
		fd, err := setBreakpoint(unix.Gettid())
		if err != nil {
			continue // all are in use
		}
		beside := count()
		unix.Close(fd)
		if beside == before-1 && count() == before {
			return
		}
	}
	t.Error("a breakpoint does not take one of the registers that are counted as free")
}

// A stopped process is found, and so is a process of an executable.
func TestStoppedIsSeen(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	await := func(want int) {
		for held(cmd.Process.Pid) != want {
			if t.Context().Err() != nil {
				t.Fatalf("%d threads are held, want %d", held(cmd.Process.Pid), want)
			}
			time.Sleep(time.Millisecond)
		}
	}
	await(0)
	cmd.Process.Signal(unix.SIGSTOP)
	await(1)
	cmd.Process.Signal(unix.SIGCONT)
	await(0)
	if self, err := os.Executable(); err != nil || !slices.Contains(processesOf(self), os.Getpid()) || processesOf("/does/not/exist") != nil {
		t.Errorf("%d processes of %s, %v", processesOf(self), self, err)
	}
}

// A profile is in bounds if it accounts for all time, even time without samples, and
// warns of that.
func TestLosses(t *testing.T) {
	t.Parallel()
	const s = time.Second
	var got sessionReport
	for _, c := range []struct {
		seen, unaccounted, clock time.Duration
		warns                    bool
		misses                   int
	}{
		{97 * s, 3 * s, 100 * s, false, 0},
		{60 * s, 40 * s, 100 * s, true, 0},
		{60 * s, 40 * s, 100 * s, false, 1},
		{60 * s, 37 * s, 100 * s, true, 1},
		{106 * s, -6 * s, 100 * s, true, 0},
		{112 * s, -12 * s, 100 * s, true, 1},
		{90 * s, 5 * s, 95 * s, true, 1},
	} {
		got.Profile.Time, got.Loss.Unaccounted, got.Loss.Clock = c.seen, c.unaccounted, c.clock
		if r := (strain{}).row(100*s, got, c.warns); len(r.misses) != c.misses {
			t.Errorf("%+v: %q", c, r.misses)
		}
	}
	got.Profile.Time, got.Loss.Unaccounted, got.Loss.Clock = 80*s, 20*s, 100*s
	if r := (strain{seen: 90}).row(100*s, got, true); len(r.misses) != 1 {
		t.Errorf("80 %% seen, want 90 %%: %q", r.misses)
	}
	if r := (strain{}).row(s/10, sessionReport{}, true); len(r.misses) != 1 {
		t.Errorf("a clock of 0 passes: %q", r.misses)
	}
}

// docs/reliability.md has a row for every decoder that is fuzzed, and for no other.
func TestFuzzedAreInThePage(t *testing.T) {
	t.Parallel()
	h := testHostile(t)
	h.kind, h.Report = fuzzCampaign, "../../docs/reliability.md"
	want, err := fuzzTargets(t.Context(), h, "../fuzz")
	if err != nil {
		t.Fatal(err)
	}
	rows, err := h.old()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, cells := range rows {
		got = append(got, cells[0])
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rows of the page, want to got ('go -C scripts run ./hostile fuzz' makes those that are missing):\n%s", diff)
	}
}
