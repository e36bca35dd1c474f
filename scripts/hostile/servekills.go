package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/ccmapd/ccmapd/internal/daemon"
	"github.com/ccmapd/ccmapd/scripts/report"
)

// serveKillsCampaign kills a daemon at random times. Its targets must go on, and its
// files must be whole.
var serveKillsCampaign = kind{
	name:  "servekills",
	about: "kill a daemon with twenty targets at random times, and see what is left",
	example: `  go -C scripts run ./hostile servekills        1,000 rounds, about half an hour
  go -C scripts run ./hostile servekills -rounds 100 -o ''
                                             fewer, and print the table`,
	head: []string{"SIGKILL of the daemon", "rounds", "answers", "wrong", "programs and maps of BPF left", "breakpoints left",
		"descriptors left", "threads stopped or traced", "files", "torn", "temporary files after the next run", "most time that is lost"},
	flags: func(flags *flag.FlagSet) { flags.IntVar(&serveKillRounds, "rounds", 1000, "kill `N` times") },
	run:   runServeKills,
}

// serveKillRounds is the campaign's own flag.
var serveKillRounds int

// serveKill is one way to kill a daemon.
type serveKill struct {
	name  string
	share float64 // of the rounds
	quick int
	round func(*serveKilling, context.Context) error
}

func serveKills() []serveKill {
	return []serveKill{
		{"as it starts and attaches", 0.3, 2, (*serveKilling).asItStarts},
		{"as it samples and files", 0.5, 2, (*serveKilling).asItSamples},
		{"as it ends", 0.2, 1, (*serveKilling).asItEnds},
	}
}

// serveKilling is the rounds of one way, and their results.
type serveKilling struct {
	*fleet
	folder, store string
	first         []atRest
	ready, ending time.Duration // undisturbed times until all targets are sampled, and until it has ended

	answers, wrong                        int64
	objects, breakpoints, handles, halted int // left behind
	files, torn                           int
	unfiled                               time.Duration // the longest time that is in no file
}

// pausing are tasks that leave the CPUs to others: most programs do one that needs little.
func pausing(i int) string {
	special := []string{"threads", "children", "signals", "library"}
	if i < len(special) {
		return special[i]
	}
	return "eases"
}

func runServeKills(ctx context.Context, h *hostile) error {
	if err := h.buildComputer(ctx); err != nil {
		return err
	}
	f, err := h.crew(ctx, h.programs(), pausing)
	if f != nil {
		defer f.end()
	}
	if err == nil {
		err = f.resume()
	}
	if err != nil {
		return err
	}
	var failed error
	for _, k := range serveKills() {
		if !h.wants(k.name) {
			continue
		}
		if err := f.kills(ctx, k); err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s: %w", k.name, err))
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return failed
}

// kills runs all rounds of one way, and adds its row.
func (f *fleet) kills(ctx context.Context, k serveKill) error {
	rounds := int(float64(serveKillRounds) * k.share)
	if f.Quick {
		rounds = k.quick
	}
	folder, err := os.MkdirTemp(f.Work, "servekills-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	a := &serveKilling{fleet: f, folder: folder, store: filepath.Join(folder, "store")}
	if _, err := a.orderly(ctx); err != nil {
		return err
	}
	if err := a.ask(); err != nil {
		return err
	}
	for _, m := range a.members {
		a.first = append(a.first, m.last)
	}
	r := row{}
	for i := range rounds {
		if err := k.round(a, ctx); err != nil {
			r.miss("round %d: %v", i+1, err)
		}
		if err := a.inspect(); err != nil {
			return fmt.Errorf("round %d: %w", i+1, err)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	left, err := a.orderly(ctx)
	if err != nil {
		return err
	}
	a.cells(&r, k, rounds, left)
	f.add(r)
	return nil
}

// start starts a daemon that files once a second. Files of other rounds go; the log stays, and temporary files.
func (a *serveKilling) start(ctx context.Context) (*served, error) {
	files, _ := filepath.Glob(filepath.Join(a.store, "targets/*/*/*/*.json.zst"))
	for _, file := range files {
		os.Remove(file)
	}
	return a.serve(ctx, a.folder, order{rotate: rotation, store: a.store}, a.names())
}

// orderly runs a daemon until it has filed every target, ends it, and returns how many
// temporary files are left.
func (a *serveKilling) orderly(ctx context.Context) (left int, err error) {
	began := time.Now()
	d, err := a.start(ctx)
	if err != nil {
		return 0, err
	}
	defer d.kill()
	if err := d.sampling(ctx, a.names()); err != nil {
		return 0, err
	}
	a.ready = time.Since(began)
	err = d.awaits(ctx, "have a sample", a.names(), func(t daemon.TargetStatus) bool { return t.Status.Samples > 0 })
	if err != nil {
		return 0, err
	}
	began = time.Now()
	err = d.ends()
	a.ending = time.Since(began)
	p, err2 := periodsIn(a.store)
	return p.temporary, errors.Join(err, err2, p.errs)
}

// wait lets a random time pass, up to most.
func (a *serveKilling) wait(most time.Duration) { time.Sleep(time.Duration(a.Int64N(int64(most) + 1))) }

func (a *serveKilling) asItStarts(ctx context.Context) error {
	d, err := a.start(ctx)
	if err != nil {
		return err
	}
	a.wait(a.ready)
	return a.slay(d)
}

// startSampling starts a daemon, and returns when it samples all targets.
func (a *serveKilling) startSampling(ctx context.Context) (*served, error) {
	d, err := a.start(ctx)
	if err != nil {
		return nil, err
	}
	if err := d.sampling(ctx, a.names()); err != nil {
		d.kill()
		return nil, err
	}
	return d, nil
}

func (a *serveKilling) asItSamples(ctx context.Context) error {
	d, err := a.startSampling(ctx)
	if err != nil {
		return err
	}
	defer d.kill()
	began := time.Now()
	a.wait(3 * rotation)
	if err := a.slay(d); err != nil {
		return err
	}
	return a.filedSince(began)
}

func (a *serveKilling) asItEnds(ctx context.Context) error {
	d, err := a.startSampling(ctx)
	if err != nil {
		return err
	}
	defer d.kill()
	a.wait(rotation)
	d.signal(syscall.SIGTERM)
	a.wait(a.ending)
	return a.slay(d)
}

// slay kills the daemon, and looks for objects that it has left in the kernel.
func (a *serveKilling) slay(d *served) error {
	all := kernelObjects(d.pid())
	d.signal(unix.SIGKILL)
	<-d.ended
	a.objects += lasting(func() int { return all.living() })
	p, err := periodsIn(a.store)
	a.files += p.files
	a.torn += p.torn
	return errors.Join(err, p.errs)
}

// filedSince notes the longest time until now that the store has not of a target.
func (a *serveKilling) filedSince(began time.Time) error {
	now := time.Now()
	p, err := periodsIn(a.store)
	for _, m := range a.members {
		from := began
		if last := p.last[m.name]; last.After(from) {
			from = last
		}
		a.unfiled = max(a.unfiled, now.Sub(from))
	}
	return err
}

// objects are the BPF objects of a process, by their numbers.
type objects struct{ programs, maps []uint32 }

var (
	programLine = regexp.MustCompile(`(?m)^prog_id:\s*(\d+)`)
	mapLine     = regexp.MustCompile(`(?m)^map_id:\s*(\d+)`)
)

// kernelObjects returns the BPF objects that a process has open (fdinfo in proc(5)).
func kernelObjects(pid int) (o objects) {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fdinfo/*", pid))
	for _, file := range files {
		text, _ := os.ReadFile(file) // it may be closed
		for _, kind := range []struct {
			line *regexp.Regexp
			to   *[]uint32
		}{{programLine, &o.programs}, {mapLine, &o.maps}} {
			if found := kind.line.FindSubmatch(text); found != nil {
				if id, err := strconv.ParseUint(string(found[1]), 10, 32); err == nil {
					*kind.to = append(*kind.to, uint32(id))
				}
			}
		}
	}
	return o
}

// living returns how many of the objects exist.
func (o objects) living() (n int) {
	for _, id := range o.programs {
		if p, err := ebpf.NewProgramFromID(ebpf.ProgramID(id)); err == nil {
			p.Close()
			n++
		}
	}
	for _, id := range o.maps {
		if m, err := ebpf.NewMapFromID(ebpf.MapID(id)); err == nil {
			m.Close()
			n++
		}
	}
	return n
}

// ask lets all programs rest for a moment, and reads their reports.
func (f *fleet) ask() error {
	var failed error
	for _, m := range f.members {
		m.first = m.last
		failed = errors.Join(failed, m.tell(""))
	}
	for _, m := range f.members {
		_, err := m.answer()
		failed = errors.Join(failed, err)
	}
	return failed
}

// inspect looks at the traces of a round in all programs.
func (a *serveKilling) inspect() error {
	if err := a.ask(); err != nil {
		return err
	}
	var failed error
	for i, m := range a.members {
		pid := m.pid()
		a.answers += m.last.Answers - m.first.Answers
		a.wrong += m.last.Wrong - m.first.Wrong
		a.handles += max(0, m.last.Descriptors-a.first[i].Descriptors)
		a.halted += lasting(func() int { return held(pid) })
		a.breakpoints += lasting(func() int {
			n, err := breakpointsBeyond(pid)
			failed = err
			return n
		})
	}
	return failed
}

// breakpointsBeyond returns the number of debug registers that a process's threads have lost, and not
// this thread as well: a breakpoint on CPUs, which another ccmapd may have set, takes one of every thread.
func breakpointsBeyond(pid int) (int, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	own, err := freeRegisters(unix.Gettid())
	if err != nil {
		return 0, err
	}
	n, err := breakpoints(pid)
	return max(0, n-(debugRegisters-own)*len(threadsOf(pid))), err
}

// mostUnfiled bounds the time that is lost: a period, which ends up to 5 % late, the
// daemon's look at periods once a second, and the writing.
const mostUnfiled = 2*rotation + rotation/2

// cells fills in the row, and its misses.
func (a *serveKilling) cells(r *row, k serveKill, rounds, temporary int) {
	r.cells = []string{k.name, strconv.Itoa(rounds), report.Count(float64(a.answers))}
	for _, l := range []struct {
		what string
		n    int
		bad  bool
	}{
		{"wrong answers", int(a.wrong), true}, {"BPF objects", a.objects, true}, {"breakpoints", a.breakpoints, true}, {"descriptors", a.handles, true},
		{"threads stopped or traced", a.halted, true}, {"files", a.files, false}, {"torn files", a.torn, true}, {"temporary files", temporary, true},
	} {
		r.cells = append(r.cells, report.Number(float64(l.n), 0))
		if l.bad && l.n > 0 {
			r.miss("%d %s, want none", l.n, l.what)
		}
	}
	most := mostUnfiled
	if a.Quick {
		most *= 10
	}
	cell := "–"
	if a.unfiled > 0 {
		cell = report.Number(a.unfiled.Seconds(), 2) + " s"
	}
	if a.unfiled > most {
		r.late("%v are lost, want at most %v", a.unfiled, most)
	}
	r.cells = append(r.cells, cell)
}
