// Package family samples the processes that descend from one, beside the session of that one. It
// works like this:
//
//  1. [Open] watches for children. The processes that the target has begun before are found by
//     their parents.
//  2. A child that executes a program is attached to at once. A child that goes on with the
//     program of its parent is attached to when it has lived for a moment: most execute soon. Each
//     has a session of package session. One that is neither a Go program nor a JVM is looked at
//     again as it gets older.
//  3. When a child has ended, its profile goes into the profile of its program: of all children
//     with the same build. Profiles of children with the target's own build become part of the
//     target's.
//  4. When the session of the target ends, all end. [Family.Write] writes a file for each other
//     program, and the reports say which children there were, and why some were not sampled.
//
// A child that ends before it is attached to leaves no samples. It is counted.
package family

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/cmd/ccmapd/internal/session"
	"github.com/ccmapd/ccmapd/internal/budget"
	"github.com/ccmapd/ccmapd/internal/perfevent"
	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/internal/supervise"
	"github.com/ccmapd/ccmapd/manager"
	"github.com/ccmapd/ccmapd/tuning"
)

// Options of a family.
type Options struct {
	PID       int   // of the target
	MaxMemory int64 // of a profile, bytes; 0: no limit
	Window    time.Duration
	Logger    *slog.Logger

	// Session returns the configuration of a child's session, as if it were the target, and the
	// opener of its source. Any goroutine calls it.
	Session func(ctx context.Context, pid int) (session.Config, session.Opener)

	// Outputs returns the outputs for the profile of another program, and of the first process
	// that has run it. The name is foreign.
	Outputs func(name string, pid int) []manager.Dump
}

// Family samples the children of a target. Its methods are called in the order that
// [session.Children] has.
//
//	options         never change
//	kin, meter, share the goroutine of follow; before Begin, the caller of Open
//	ctx, stop       set by Open
//	work            follow, and the goroutines of members
//	all others      under mu
type Family struct {
	options Options
	kin     *perfevent.Kin
	meter   budget.Meter
	share   budget.Share                // of the target's session
	status  func() manager.Status       // of the target's session
	watched map[int]map[uint32]struct{} // threads, by process
	ctx     context.Context
	stop    context.CancelFunc
	work    sync.WaitGroup
	gate    *supervise.Gate
	places  chan struct{} // a token for each process that is sampled

	mu        sync.Mutex
	members   map[int]*member // that live, or are still sampled
	programs  []*program      // that children run, in the order of their first samples
	strangers strangers
	tally     tally
	merged    *ccmap.Snapshot // the result of Merged
	target    *program        // the children's part of the target's own program
	own       ccmap.Target    // with Merged
	reaped    reaped
	closing   bool // no goroutine begins any more
}

const (
	// mostSampled bounds the children that are sampled at a time.
	mostSampled = 128
	// grace is how long a child must have lived that executes no program.
	grace = 20 * time.Millisecond
	// pace is the least time between two looks for changes.
	pace = time.Millisecond
	// chargeEvery is the time between two looks at costs.
	chargeEvery = time.Second
	// reapedAfter is how long a parent has to wait for a child that has ended.
	reapedAfter = 20 * time.Millisecond
	// mostCores is the part of a core that sampling may cost this process for each child, up to
	// mostOfAll for all.
	mostCores, mostOfAll = 0.1, 0.5
)

// Open watches for children of a process from now on. [Family.Close] must be called.
func Open(o Options) (*Family, error) {
	cpus, err := process.OnlineCPUs()
	if err != nil {
		return nil, err
	}
	f := &Family{
		options: o, watched: make(map[int]map[uint32]struct{}), members: make(map[int]*member), strangers: make(strangers),
		gate: supervise.NewGate(supervise.Machine{}, supervise.AtOnce, supervise.Backoff{}), places: make(chan struct{}, mostSampled), tally: newTally(),
	}
	f.ctx, f.stop = context.WithCancel(context.Background())
	if f.kin, err = perfevent.OpenKin(cpus); err != nil {
		return nil, fmt.Errorf("watch for children: %w", err)
	}
	if err := f.watch(o.PID); err != nil {
		f.kin.Close()
		return nil, err
	}
	f.reaped.begin(o.PID)
	return f, nil
}

// watch makes sure that children of a process are told of. Its threads are listed until a look
// finds no new one: a thread that began before its parent was watched leaves no record.
func (f *Family) watch(pid int) error {
	known := f.watched[pid]
	if known == nil {
		known = make(map[uint32]struct{})
		f.watched[pid] = known
	}
	for {
		tids, err := process.Threads(pid)
		var fresh []uint32
		for _, tid := range tids {
			if _, ok := known[tid]; !ok {
				known[tid] = struct{}{}
				fresh = append(fresh, tid)
			}
		}
		if err == nil {
			err = f.kin.Follow(fresh)
		}
		switch {
		case process.Gone(err):
			return nil
		case err != nil:
			return fmt.Errorf("watch for children of process %d: %w", pid, err)
		case len(fresh) == 0:
			return nil
		}
	}
}

// Adopt returns the configuration of the target's session.
func (f *Family) Adopt(c session.Config) session.Config {
	c.Children = f
	return f.shared(c, &f.share)
}

// shared returns a configuration whose tuner hears of the session's share of the CPU time.
func (f *Family) shared(c session.Config, share *budget.Share) session.Config {
	tune := c.Tuning
	c.DaemonCPU = share.CPU
	c.Tuning = func() tuning.Config {
		t := tune()
		if t.MaxDaemonCPU == 0 {
			t.MaxDaemonCPU = budget.OneCore
		}
		return t
	}
	return c
}

// Begin is part of [session.Children].
func (f *Family) Begin(ctx context.Context, status func() manager.Status) {
	f.status = status
	context.AfterFunc(ctx, f.stop)
	f.work.Go(f.follow)
}

// follow takes changes of processes until the context is done.
func (f *Family) follow() {
	defer f.kin.RingAfter(f.ctx)()
	f.warn(f.scan())
	charged := time.Now()
	for f.ctx.Err() == nil {
		if err := f.kin.Wait(f.untilDue()); err != nil {
			f.warn(err)
			return
		}
		changes, lost := f.kin.Changes()
		for _, c := range changes {
			f.heed(c)
		}
		if lost {
			f.warn(f.scan())
		}
		now := time.Now()
		if now.Sub(charged) >= chargeEvery {
			charged = now
			f.charge(now)
		}
		f.countReaped(now)
		time.Sleep(pace)
	}
}

// untilDue returns how long to wait for changes at most.
func (f *Family) untilDue() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.reaped.died {
		return reapedAfter
	}
	return chargeEvery
}

// countReaped looks how much CPU time the children of the target have used that have ended.
func (f *Family) countReaped(now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reaped.look(f.options.PID, now)
}

func (f *Family) warn(err error) {
	if err != nil {
		f.options.Logger.Warn("children are missed", "error", err)
	}
}

// heed takes in a change of a process, which need not be of the family.
func (f *Family) heed(c perfevent.Change) {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := f.members[c.PID]
	if c.Kind == perfevent.Died && (m != nil || c.PID == f.options.PID) {
		f.reaped.died = true
	}
	switch {
	case c.Kind == perfevent.Born && f.has(c.Parent):
		f.bear(c.PID, c.Parent)
	case m == nil || m.dead:
	case c.Kind == perfevent.Executed:
		m.name = c.Name
		f.executes(m)
	case c.Kind == perfevent.Died:
		f.bury(m)
	}
}

// has reports whether a process is of the family. The caller holds mu.
func (f *Family) has(pid int) bool { return pid == f.options.PID || f.members[pid] != nil }

// scan finds descendants by their parents: those that were there at first, and those whose records
// were lost.
func (f *Family) scan() error {
	for fresh := true; fresh && f.ctx.Err() == nil; {
		all, err := stats()
		if err != nil {
			return err
		}
		fresh = false
		for pid, stat := range all {
			if !f.isFresh(pid, stat) {
				continue
			}
			if err := f.watch(pid); err != nil {
				return err
			}
			f.find(pid, stat)
			fresh = true
		}
		f.buryAllBut(all)
	}
	return nil
}

// stats returns the states of all processes.
func stats() (map[int]process.Stat, error) {
	pids, err := process.PIDs()
	if err != nil {
		return nil, err
	}
	all := make(map[int]process.Stat)
	for _, pid := range pids {
		if s, err := process.ReadStat(pid); err == nil && !s.Zombie() {
			all[pid] = s
		}
	}
	return all, nil
}

func (f *Family) isFresh(pid int, s process.Stat) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.has(s.Parent) && !f.has(pid) && pid != os.Getpid()
}

// find takes in a process that was found by its parent.
func (f *Family) find(pid int, s process.Stat) {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := f.bear(pid, s.Parent)
	m.name = s.Name
	f.executes(m)
}

// buryAllBut takes in that all members have ended which are not among the processes.
func (f *Family) buryAllBut(all map[int]process.Stat) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for pid, m := range f.members {
		if _, lives := all[pid]; !lives {
			f.bury(m)
		}
	}
}

// charge tells the tuners of all sessions what these have cost.
func (f *Family) charge(now time.Time) {
	f.mu.Lock()
	shares, samples := []*budget.Share{&f.share}, []uint64{f.status().Samples}
	for _, m := range f.members {
		if m.session != nil {
			shares, samples = append(shares, &m.share), append(samples, m.session.Status().Samples)
		}
	}
	f.mu.Unlock()
	f.meter.Charge(now, budget.ProcessCPU(), min(mostCores*float64(len(shares)), mostOfAll), shares, samples)
}

// Close ends the sampling of children.
func (f *Family) Close() {
	f.mu.Lock()
	f.closing = true
	f.mu.Unlock()
	f.stop()
	f.work.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.kin != nil {
		f.kin.Close()
		f.kin = nil
	}
}

// Merged is part of [session.Children].
func (f *Family) Merged(target ccmap.Target, s *ccmap.Snapshot) *ccmap.Snapshot {
	f.Close()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.merged != nil {
		return f.merged
	}
	f.endAll()
	f.reaped.lookNow(f.options.PID)
	f.merged, f.own = s, target
	if f.target = f.programOf(target); f.target == nil {
		return s
	}
	m := f.newMap()
	if err := errors.Join(m.Merge(s), m.Merge(f.target.profile.Snapshot())); err != nil {
		f.options.Logger.Error("profile lacks children", "error", err)
		return s
	}
	f.merged = m.Snapshot()
	return f.merged
}

// Write is part of [session.Children].
func (f *Family) Write() (written []string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range f.programs {
		s := p.profile.Snapshot()
		if p == f.target || s.Total().IsZero() {
			continue
		}
		for _, d := range f.options.Outputs(p.name(), p.first) {
			if failed := d.Write(s); failed != nil {
				err = errors.Join(err, failed)
				continue
			}
			p.files = append(p.files, d.Name)
		}
		written = append(written, p.files...)
	}
	return written, err
}
