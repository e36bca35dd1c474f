package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ccmapd/ccmapd/scripts/report"
)

// lossesCampaign compares the CPU time in a profile with the CPU clock of the sampled
// process.
var lossesCampaign = kind{
	name:  "losses",
	about: "hold the time that a profile knows of against the process's own clock",
	example: `  go -C scripts run ./hostile losses            all programs, about two minutes
  go -C scripts run ./hostile losses -only 'threads*' -o ''
                                             some, printed`,
	head: []string{"program, and what goes on beside it", "interval", "its own clock", "ccmapd's reading",
		"seen", "unaccounted", "samples lost", "warns"},
	run: runLosses,
}

// strain is a program, and conditions that may lose samples.
type strain struct {
	name     string
	tasks    string // of the computer
	interval time.Duration
	hogs     int           // processes beside it, with two CPUs each
	before   string        // command that starts ccmapd
	stop     time.Duration // time for which ccmapd is stopped meanwhile
	quick    bool
	seen     float64 // least part, percent; 0: no bound
}

func strains() []strain {
	const ms = time.Millisecond
	return []strain{
		{name: "calls and sorts", tasks: "calls,sorts", interval: 10 * ms, seen: 90},
		{name: "calls and sorts, often", tasks: "calls,sorts", interval: ms, seen: 90, quick: true},
		{name: "calls and sorts, as often as can be", tasks: "calls,sorts", interval: ms / 10, seen: 90},
		{name: "threads that live for less than an interval", tasks: "threads", interval: 10 * ms},
		{name: "threads that come and go, often", tasks: "threads", interval: ms, quick: true},
		{name: "deep stacks and garbage", tasks: "stacks,garbage", interval: ms, seen: 90},
		{name: "plugin, C library, children and signals", tasks: "plugin,library,children,signals", interval: ms, seen: 80},
		{name: "all of these", tasks: "all", interval: ms},
		{name: "all, with 2 busy processes beside", tasks: "all", interval: ms, hogs: 2},
		{name: "all, with 2 busy processes, ccmapd at nice 19", tasks: "all", interval: ms, hogs: 2, before: "nice -n 19"},
		{name: "all, ccmapd stopped for 1 s", tasks: "all", interval: ms, stop: time.Second, quick: true},
		{name: "all, ccmapd stopped for 3 s", tasks: "all", interval: ms / 10, stop: 3 * time.Second},
	}
}

// strainTime and quickStrain are the times that a program works while it is sampled.
const (
	strainTime  = 5 * time.Second
	quickStrain = 2 * time.Second
)

func runLosses(ctx context.Context, h *hostile) error {
	if err := h.buildComputer(ctx); err != nil {
		return err
	}
	var failed error
	for _, s := range strains() {
		if !h.wants(s.name) || h.Quick && !s.quick {
			continue
		}
		if err := h.strain(ctx, s); err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s: %w", s.name, err))
		}
	}
	return failed
}

// strain samples a program from before its work until its end, and adds the row.
func (h *hostile) strain(ctx context.Context, s strain) error {
	folder, err := os.MkdirTemp(h.Work, "losses-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	long := strainTime
	if h.Quick {
		long = quickStrain
	}
	c, err := h.compute(ctx, s.tasks, "for", long.String())
	if err != nil {
		return err
	}
	defer c.stop()
	for range s.hogs {
		hog, err := h.compute(ctx, "calls,sorts", "for", time.Hour.String())
		if err != nil {
			return err
		}
		defer hog.stop()
		io.WriteString(hog.in, "\n")
	}
	file := filepath.Join(folder, "losses.json")
	ccmapd, err := h.attach(ctx, s.before, c.pid(), file, "-i", s.interval.String(), "--tune=false")
	if err != nil {
		return err
	}
	defer ccmapd.kill()
	<-ccmapd.samples
	own, err := c.works(func() {
		if s.stop > 0 {
			time.Sleep(long / 10)
			ccmapd.signal(unix.SIGSTOP)
			time.Sleep(s.stop)
			ccmapd.signal(unix.SIGCONT)
		}
	})
	if err != nil {
		return err
	}
	if _, err := ccmapd.end(); err != nil {
		return err
	}
	r, err := ccmapd.report()
	if err != nil {
		return err
	}
	top, err := h.child(ctx, limits{}, h.Ccmapd, "top", "-n", "1", file)
	if err != nil {
		return err
	}
	h.add(s.row(own, r, strings.Contains(top.stdout+top.stderr, "no sample stands for")))
	return nil
}

// works lets the computer work, and returns its CPU time by its own clock.
func (c *computer) works(meanwhile func()) (time.Duration, error) {
	before, err := cpuOf(c.pid())
	if err != nil {
		return 0, err
	}
	if _, err := io.WriteString(c.in, "\n"); err != nil {
		return 0, fmt.Errorf("start the computer's work: %w", err)
	}
	meanwhile()
	after, err := c.answer()
	switch {
	case err != nil:
		return 0, err
	case after.Wrong > 0:
		return 0, fmt.Errorf("%d answers of the computer are wrong", after.Wrong)
	}
	return after.CPU - before, nil
}

// cpuOf reads the CPU clock of a process.
func cpuOf(pid int) (time.Duration, error) {
	var t unix.Timespec
	clock := int32(^pid<<3 | 2) // CPUCLOCK_SCHED of the process, as in clock_getcpuclockid(3)
	if err := unix.ClockGettime(clock, &t); err != nil {
		return 0, fmt.Errorf("read the CPU clock of process %d: %w", pid, err)
	}
	return time.Duration(t.Nano()), nil
}

// sessionReport is the campaigns' part of ccmapd's report.
type sessionReport struct {
	Profile struct {
		Time    time.Duration `json:"time_ns"`
		Samples int64         `json:"samples"`
	} `json:"profile"`
	Loss struct {
		Source      int64         `json:"source"`
		Queue       int64         `json:"queue"`
		Clock       time.Duration `json:"clock_ns"`
		Unaccounted time.Duration `json:"unaccounted_ns"`
	} `json:"loss"`
}

// report returns ccmapd's final report.
func (s *session) report() (sessionReport, error) {
	var r sessionReport
	if err := json.NewDecoder(bytes.NewReader(s.stdout.Bytes())).Decode(&r); err != nil {
		return r, fmt.Errorf("read ccmapd's report: %w\n%s", err, tail(s.says()))
	}
	return r, nil
}

// The bounds of a row.
const (
	mostApart = 2 // percent between the two readings of the clock
	// mostTooMuch is the percentage of the clock that samples may stand for beyond it.
	// Events also run during interrupts, theirs among them, and while a hypervisor has
	// the processor; the clock may leave both out. At 1 ms that was 4 to 6 %.
	mostTooMuch = 10
	mostSilent  = 5 // percent that may be unaccounted without a warning, if chance explains it
	// grain is the finest bound, for a program that got little time.
	grain = 50 * time.Millisecond
)

// row compares a report with the process's own clock.
func (s strain) row(own time.Duration, got sessionReport, warns bool) row {
	a := account{own: own, clock: got.Loss.Clock, seen: got.Profile.Time, unaccounted: got.Loss.Unaccounted, warns: warns}
	lost := got.Loss.Source + got.Loss.Queue
	told := "no"
	if warns {
		told = "yes"
	}
	r := row{cells: []string{s.name, s.interval.String(), report.Seconds(own.Seconds()), a.cell(a.clock), a.cell(a.seen), a.cell(a.unaccounted),
		strconv.FormatInt(lost, 10), told}}
	a.check(&r, s.interval)
	if seen := a.share(a.seen); seen < s.seen {
		r.late("%.1f %% of the time was seen, want %.0f %%", seen, s.seen)
	}
	return r
}

// account compares the CPU time of programs by their own clocks with profiles of them.
type account struct {
	own                      time.Duration // by their own clocks
	clock, seen, unaccounted time.Duration // by ccmapd's reading, by samples, and their difference as ccmapd has it
	warns                    bool          // of the difference
	programs                 int           // that is, if there are several
}

// grain returns the finest bound: a profile knows of the time until a program's last sample, which is an interval ago
// on average, and by chance three.
func (a account) grain(interval time.Duration) time.Duration {
	return max(grain, time.Duration(3*a.programs)*interval)
}

// share returns a part of the own clock, in percent.
func (a account) share(part time.Duration) float64 {
	return 100 * float64(part) / float64(max(a.own, 1))
}

func (a account) cell(part time.Duration) string { return report.Percent(a.share(part)) + " %" }

// check adds the bounds that are missed, if a sample stands for an interval.
func (a account) check(r *row, interval time.Duration) {
	over := func(part time.Duration, percent float64) bool {
		return a.share(part) > percent && part > a.grain(interval)
	}
	if apart := (a.clock - a.own).Abs(); over(apart, mostApart) {
		r.late("the two readings of the clock are %v apart", apart)
	}
	if apart := (a.seen + a.unaccounted - a.clock).Abs(); over(apart, mostApart) {
		r.late("seen and unaccounted are %v off the clock", apart)
	}
	chance := 300 * math.Sqrt(float64(interval)/float64(max(a.own, 1))) // three standard deviations, percent
	if over(-a.unaccounted, max(mostTooMuch, chance)) {
		r.late("samples stand for %.1f %% more than the clock", -a.share(a.unaccounted))
	}
	if over(a.unaccounted, max(mostSilent, chance)) && !a.warns {
		r.late("%.1f %% are unaccounted, without a warning", a.share(a.unaccounted))
	}
}
