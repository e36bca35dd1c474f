package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/ccmapd/ccmapd/scripts/report"
)

// serveCampaign disturbs a daemon that samples a fleet: other targets, the machine and
// clients do. Nothing may be lost that no counter has.
var serveCampaign = kind{
	name:  "serve",
	about: "disturb a daemon with twenty targets: targets, shortages and clients",
	example: `  go -C scripts run ./hostile serve             all disturbances, about 20 minutes
  go -C scripts run ./hostile serve -only '*disk*' -time 1m -o ''
                                             one, for a minute, and print the table`,
	head: []string{"disturbance", "outcome", "their own clocks", "seen", "unaccounted", "in no counter", "samples lost",
		"filed", "wrong answers", "the daemon's CPU time, of a core", "descriptors more", "resident memory, now and most"},
	flags: func(flags *flag.FlagSet) {
		flags.DurationVar(&serving, "time", 20*time.Minute, "`TIME` of all disturbances together")
	},
	run: runServe,
}

// serving is the campaign's own flag.
var serving time.Duration

const (
	fleetSize  = 20
	quickSize  = 6
	fleetTasks = "calls,sorts" // without a pause: they keep all CPUs busy
	quickStage = 2 * time.Second
	// rotation is a period's length, the shortest that there is, unless a disturbance has its own.
	rotation = time.Second
)

// disturbance is one way to disturb.
type disturbance struct {
	name   string
	quick  bool     // part of -quick
	idle   bool     // the fleet rests
	events bool     // the daemon has descriptors for each thread on each CPU, also of threads that begin
	guests []string // targets beside the fleet
	order  func(*stage) order
	before func(*stage, context.Context) error // the daemon starts
	during func(*stage, context.Context) (outcome string, err error)
	after  func(*stage)          // undoes before
	bound  func(*stage, figures) // more bounds
}

// stage is a disturbance under way.
type stage struct {
	*fleet
	served  *served
	folder  string // of the daemon
	store   string // of its files
	span    time.Duration
	still   string // the ccmapd of other disturbances
	address string // of the daemon's port
	row     row
}

// figures are of the daemon, over the disturbance.
type figures struct {
	cpu         float64 // of a core
	descriptors int
	memory      uint64 // resident, bytes
	most        uint64 // that was resident
	maps        int64  // bytes
}

func disturbances() []disturbance {
	seldom := func(*stage) order { return order{rotate: time.Hour} }
	byPerf := func(*stage) order { return order{rotate: time.Hour, defaults: "engine = \"perf\"\n"} }
	return []disturbance{
		{name: "none", quick: true, order: seldom, during: (*stage).nothing, bound: (*stage).small},
		{name: "none, by engine perf", events: true, order: byPerf, during: (*stage).nothing},
		{name: "none, and each target is filed once a second", during: (*stage).nothing},
		{name: "none, and the targets rest", idle: true, order: seldom, during: (*stage).nothing},
		{name: "a day, compressed, and the others rest", idle: true, guests: []string{"restarted"}, order: (*stage).compressed, during: (*stage).day},
		{name: "a target in a crash loop, ten a second, and the others rest", idle: true, order: seldom, guests: []string{"crashing"},
			during: (*stage).crashes, bound: (*stage).cheap},
		{name: "a target in a crash loop, ten a second", guests: []string{"crashing"}, during: (*stage).crashes},
		{name: "targets that fork, and replace themselves by exec", quick: true, guests: []string{"forking", "execing"}, before: (*stage).families, during: (*stage).execs},
		{name: "targets are stopped and continued", during: (*stage).stops},
		{name: "targets whose threads come and go", guests: []string{"threads"}, before: (*stage).threaded, during: (*stage).threads},
		{name: "a target that maps and unmaps code", guests: []string{"mapping"}, during: (*stage).maps},
		{name: "a target whose executable is replaced, restarted", guests: []string{"replaced"}, before: (*stage).builds, during: (*stage).replaces},
		{name: "the disk is full for a third of the time", quick: true, before: (*stage).mountStore, during: (*stage).fillDisk, after: (*stage).unmountStore},
		{name: "the wall clock jumps by hours", before: (*stage).buildJumping, during: (*stage).jumps, after: (*stage).buildStill},
		{name: "no descriptor is free for half of the time", guests: []string{"late"}, during: (*stage).exhaust},
		{name: "the file is loaded again, with 200 targets", order: (*stage).large, during: (*stage).reloads},
		{name: "100 clients loop over all views", order: (*stage).openTCP, during: (*stage).clients},
		{name: "100 clients loop over all views, and the targets rest", idle: true, order: (*stage).openTCP, during: (*stage).clientsAtRest},
		{name: "1,000 clients send a byte a second", order: (*stage).openTCP, during: (*stage).loris},
		{name: "oversized and malformed requests", order: (*stage).open, during: (*stage).malformed},
		{name: "another user's requests", quick: true, order: (*stage).open, during: (*stage).strangers},
	}
}

// programs returns how many programs the daemon samples.
func (h *hostile) programs() int {
	if h.Quick {
		return quickSize
	}
	return fleetSize
}

// easing are tasks of which one keeps a CPU busy.
func easing(i int) string {
	if i == 0 {
		return "calls"
	}
	return "eases"
}

func runServe(ctx context.Context, h *hostile) error {
	if err := h.buildComputer(ctx); err != nil {
		return err
	}
	tasks := func(int) string { return fleetTasks }
	if h.Quick {
		tasks = easing
	}
	f, err := h.crew(ctx, h.programs(), tasks)
	if f != nil {
		defer f.end()
	}
	if err != nil {
		return err
	}
	all := disturbances()
	span := serving / time.Duration(len(all))
	if h.Quick {
		span = quickStage
	}
	var failed error
	for _, d := range all {
		if !h.wants(d.name) || h.Quick && !d.quick {
			continue
		}
		if err := f.disturb(ctx, d, span); err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s: %w", d.name, err))
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return failed
}

// crew starts a fleet of n programs, each on tasks. They rest.
func (h *hostile) crew(ctx context.Context, n int, tasks func(i int) string) (*fleet, error) {
	f, err := h.newFleet()
	if err != nil {
		return nil, err
	}
	for i := range n {
		if _, err := f.join(ctx, fmt.Sprintf("t%02d", i), tasks(i), ""); err != nil {
			return f, err
		}
	}
	return f, nil
}

// names returns the names of all targets of the fleet.
func (f *fleet) names() []string {
	all := make([]string, len(f.members))
	for i, m := range f.members {
		all[i] = m.name
	}
	return all
}

// disturb runs one disturbance with a daemon of its own, and adds its row.
func (f *fleet) disturb(ctx context.Context, d disturbance, span time.Duration) error {
	folder, err := os.MkdirTemp(f.Work, "serve-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	s := &stage{fleet: f, folder: folder, store: filepath.Join(folder, "store"), span: span}
	if d.after != nil {
		defer d.after(s)
	}
	if d.before != nil {
		if err := d.before(s, ctx); err != nil {
			return err
		}
	}
	defer f.leave(f.programs()) // guests of before
	o := order{rotate: rotation, store: s.store}
	if d.order != nil {
		o = d.order(s)
	}
	if err := errors.Join(os.Chmod(folder, 0o755), os.MkdirAll(s.store, 0o755)); err != nil {
		return err
	}
	own := f.members[:f.programs()]
	if s.served, err = f.serve(ctx, folder, o, append((&fleet{members: own}).names(), d.guests...)); err != nil {
		return err
	}
	defer s.served.kill()
	if err := s.served.sampling(ctx, f.names()); err != nil {
		return err
	}
	return s.measure(ctx, d)
}

// measure disturbs, and fills in the row.
func (s *stage) measure(ctx context.Context, d disturbance) error {
	pid, own, wrong := s.served.pid(), s.members[:s.programs()], s.wrong()
	open := s.descriptors()
	cpu, err := cpuOf(pid)
	if err != nil {
		return err
	}
	began := time.Now()
	if !d.idle {
		err = s.resume()
	}
	said, failed := d.during(s, ctx)
	took := time.Since(began)
	now, err2 := cpuOf(pid)
	if !d.idle {
		err2 = errors.Join(err2, s.rest())
	}
	if err := errors.Join(err, err2); err != nil {
		return errors.Join(failed, err, errors.New(tail(s.served.says())))
	}
	if failed != nil {
		s.row.miss("%v", failed)
	}
	a, samples, err := s.served.account(ctx, own)
	if err != nil {
		return err
	}
	all, err := s.served.targets(ctx)
	if err != nil {
		return err
	}
	fig := figures{cpu: float64(now-cpu) / float64(took), memory: memoryOf(pid, "VmRSS"), most: memoryOf(pid, "VmHWM")}
	fig.descriptors = s.more(open + d.mostEvents(own))
	lost := uint64(0)
	for _, t := range all {
		fig.maps += t.Status.Bytes
		lost += t.Status.LostSource + t.Status.LostQueue + t.Status.LostCorrupt
	}
	s.checkGuests(ctx)
	if err := s.served.ends(); err != nil {
		return err
	}
	filed, err := s.filed(d, samples)
	if err != nil {
		return err
	}
	if d.bound != nil {
		d.bound(s, fig)
	}
	s.fill(d, said, a, lost, filed, s.wrong()-wrong, fig)
	return nil
}

// eventsOfThread are the events of engine perf for a thread on a CPU: a timer, the thread's own records, a watchpoint.
const eventsOfThread = 3

// mostEvents returns how many descriptors for threads the daemon may have gained.
func (d disturbance) mostEvents(fleet []*member) (most int) {
	if !d.events {
		return 0
	}
	for _, m := range fleet {
		threads, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", m.pid()))
		most += len(threads) * runtime.NumCPU() * eventsOfThread
	}
	return most
}

// descriptors returns the number of the daemon's open descriptors but the segment that its store appends to: that one is
// open from the first period on, which is filed before or after the disturbance begins.
func (s *stage) descriptors() int {
	folder := fmt.Sprintf("/proc/%d/fd", s.served.pid())
	open, _ := os.ReadDir(folder)
	segments := 0
	for _, d := range open {
		if to, _ := os.Readlink(filepath.Join(folder, d.Name())); strings.HasPrefix(to, s.store) && strings.HasSuffix(to, ".seg") {
			segments = 1
		}
	}
	return len(open) - segments
}

// more returns how many more descriptors the daemon has than before, once it is at rest.
func (s *stage) more(before int) (more int) {
	lasting(func() int {
		more = s.descriptors() - before
		return max(0, more)
	})
	return more
}

// checkGuests compares the guests that live with their profiles: no time may be in no counter.
func (s *stage) checkGuests(ctx context.Context) {
	for _, m := range s.members[s.programs():] {
		a, _, err := s.served.account(ctx, []*member{m})
		if err != nil {
			s.row.miss("%s: %v", m.name, err)
		}
		a.warns = true // the profile tells
		a.check(&s.row, servedInterval)
	}
}

// filed compares the files with the profiles, and returns the cell.
func (s *stage) filed(d disturbance, samples int64) (string, error) {
	p, err := periodsIn(s.store)
	if err != nil {
		return "", err
	}
	if p.torn+p.temporary > 0 {
		s.row.miss("%d files are torn, %d temporary files are left: %v", p.torn, p.temporary, p.errs)
	}
	if p.files == 0 {
		return "–", nil
	}
	if len(d.guests) == 0 && p.sum.Samples < samples {
		s.row.miss("files have %d samples, the profiles had %d", p.sum.Samples, samples)
	}
	return report.Count(float64(p.files)) + " files", nil
}

// fill makes the cells, and adds the row.
func (s *stage) fill(d disturbance, said string, a account, lost uint64, filed string, wrong int64, f figures) {
	r := &s.row
	clocks := []string{"–", "–", "–", "–"}
	if !d.idle {
		clocks = []string{report.Seconds(a.own.Seconds()), a.cell(a.seen), a.cell(a.unaccounted), a.cell((a.own - a.seen - a.unaccounted).Abs())}
		a.check(r, servedInterval)
	}
	if wrong > 0 {
		r.miss("%d wrong answers", wrong)
	}
	if f.descriptors > 0 {
		r.miss("%d descriptors more than before", f.descriptors)
	}
	r.cells = append([]string{d.name, said}, clocks...)
	r.cells = append(r.cells, strconv.FormatUint(lost, 10), filed, strconv.FormatInt(wrong, 10),
		report.Number(100*f.cpu, 2)+" %", strconv.Itoa(f.descriptors), fmt.Sprintf("%d and %d MiB", f.memory>>20, f.most>>20))
	s.add(*r)
}

// slack multiplies bounds of time where other work keeps the machine busy.
func (s *stage) slack() time.Duration {
	if s.Quick {
		return 10
	}
	return 1
}

const (
	mostCrashing = 0.01 // of a core, for a target in a crash loop
	// The memory of the daemon, bytes: its own, and a small target's beside its map.
	daemonMemory, targetMemoryServed = 40 << 20, 4 << 20
)

// cheap bounds the daemon's CPU time.
func (s *stage) cheap(f figures) {
	if f.cpu > mostCrashing*float64(s.slack()) {
		s.row.late("the daemon took %.2f %% of a core", 100*f.cpu)
	}
}

// small bounds the daemon's memory.
func (s *stage) small(f figures) {
	most := uint64(daemonMemory + int64(s.programs())*targetMemoryServed + f.maps)
	if s.Quick {
		most *= 2 // the collector of a busy machine comes late
	}
	if f.memory > most {
		s.row.miss("the daemon had %d MiB, want at most %d", f.memory>>20, most>>20)
	}
}

// nothing lets the time pass.
func (s *stage) nothing(ctx context.Context) (string, error) {
	select {
	case <-ctx.Done():
	case <-time.After(s.span):
	}
	return "it samples", s.goesOn(ctx)
}

// goesOn returns an error unless the daemon answers, and samples all programs of the fleet, each
// without having left it.
func (s *stage) goesOn(ctx context.Context) error {
	if err := s.served.sampling(ctx, s.names()[:s.programs()]); err != nil {
		return err
	}
	all, err := s.served.targets(ctx)
	for _, m := range s.members[:s.programs()] {
		if t := all[m.name]; err == nil && t.Restarts > 0 {
			err = fmt.Errorf("target %s has %d restarts", m.name, t.Restarts)
		}
	}
	return err
}
