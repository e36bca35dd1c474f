package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/daemon/client"
	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/internal/daemon"
	"github.com/ccmapd/ccmapd/internal/store"
)

// fleet is the programs that a daemon samples, each as a target of its own. They compute
// answers, check them, and rest when they are told to.
type fleet struct {
	*hostile
	folder  string // of their executables: each target's rule is a path
	members []*member
}

// member is a program of a fleet.
type member struct {
	*computer
	name  string
	first atRest // at the rest before the last one
}

func (h *hostile) newFleet() (*fleet, error) {
	folder, err := os.MkdirTemp(h.Work, "fleet-")
	return &fleet{hostile: h, folder: folder}, errors.Join(err, os.Chmod(folder, 0o755))
}

// executable returns the path that is the rule of a target.
func (f *fleet) executable(name string) string { return filepath.Join(f.folder, name) }

// link makes the executable of a target a computer.
func (f *fleet) link(name string) error {
	err := os.Link(f.Path("computer"), f.executable(name))
	if errors.Is(err, os.ErrExist) {
		return nil
	}
	return err
}

// join starts a program on tasks, through the command before if that is not "". It rests.
func (f *fleet) join(ctx context.Context, name, tasks, before string) (*member, error) {
	if err := f.link(name); err != nil {
		return nil, err
	}
	c, err := f.computeBy(ctx, append(strings.Fields(before), f.executable(name), tasks))
	if err != nil {
		return nil, err
	}
	m := &member{computer: c, name: name}
	f.members = append(f.members, m)
	if err := c.tell("rest"); err != nil {
		return nil, err
	}
	_, err = c.answer()
	return m, err
}

// rest lets all programs rest.
func (f *fleet) rest() error {
	var failed error
	for _, m := range f.members {
		m.first = m.last
		failed = errors.Join(failed, m.tell("rest"))
	}
	for _, m := range f.members {
		if _, err := m.answer(); err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s: %w", m.name, err))
		}
	}
	return failed
}

// resume ends the rest.
func (f *fleet) resume() error {
	var failed error
	for _, m := range f.members {
		failed = errors.Join(failed, m.tell(""))
	}
	return failed
}

// leave ends the programs from the n-th on.
func (f *fleet) leave(n int) {
	for _, m := range f.members[n:] {
		m.stop()
	}
	f.members = f.members[:n]
}

func (f *fleet) end() {
	f.leave(0)
	os.RemoveAll(f.folder)
}

// wrong returns the number of wrong answers so far.
func (f *fleet) wrong() (n int64) {
	for _, m := range f.members {
		n += m.last.Wrong
	}
	return n
}

// served is a running 'ccmapd serve'.
type served struct {
	*session
	socket string
	store  string
	client client.Daemon
}

// servedInterval is the interval of a daemon's sessions.
const servedInterval = 10 * time.Millisecond

// order is the configuration of a daemon.
type order struct {
	listen string // more lines of [listen]
	// defaults are more lines of [defaults].
	defaults string
	rotate   time.Duration
	store    string // folder of files; empty: none
	more     string // tables
}

// serve starts a daemon that has targets, by their executables. It listens when serve returns.
func (f *fleet) serve(ctx context.Context, folder string, o order, targets []string) (*served, error) {
	s := &served{session: new(session), socket: filepath.Join(folder, "s"), store: o.store}
	s.client = client.Daemon{Sockets: []string{s.socket}}
	var text strings.Builder
	fmt.Fprintf(&text, "[listen]\nsocket = %q\ngroup = \"\"\n%s\n", s.socket, o.listen)
	fmt.Fprintf(&text, "[defaults]\ninterval = %q\ntune = false\nmax_overhead = 0\nrotate = %q\n%s", servedInterval, o.rotate, o.defaults)
	if o.store != "" {
		fmt.Fprintf(&text, "[store]\nfiles = true\ndir = %q\n", o.store)
	}
	text.WriteString(o.more)
	for _, name := range targets {
		fmt.Fprintf(&text, "[[target]]\nname = %q\nmatch = { exe = %q }\n", name, f.executable(name))
	}
	file := filepath.Join(folder, "ccmapd.toml")
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		return nil, err
	}
	if err := s.start(ctx, folder, "Listening on ", []string{f.Ccmapd, "serve", "--config", file}); err != nil {
		return nil, err
	}
	<-s.samples
	if said := s.says(); !strings.Contains(said, "Listening on ") {
		<-s.ended
		return nil, fmt.Errorf("the daemon does not listen:\n%s", tail(said))
	}
	return s, nil
}

func (s *served) pid() int { return s.cmd.Process.Pid }

// targets asks the daemon for the states of its targets, by name.
func (s *served) targets(ctx context.Context) (map[string]daemon.TargetStatus, error) {
	var answer struct {
		Targets []daemon.TargetStatus `json:"targets"`
	}
	if err := s.client.Get(ctx, &answer, "targets"); err != nil {
		return nil, err
	}
	all := make(map[string]daemon.TargetStatus)
	for _, t := range answer.Targets {
		all[t.Name] = t
	}
	return all, nil
}

// awaits returns when all targets are as they must be.
func (s *served) awaits(ctx context.Context, what string, names []string, is func(daemon.TargetStatus) bool) error {
	for deadline := time.Now().Add(2 * longestEnd); ; time.Sleep(10 * time.Millisecond) {
		all, err := s.targets(ctx)
		late := ""
		for _, name := range names {
			if t := all[name]; !is(t) {
				late = fmt.Sprintf("target %s does not %s: it is %s %s", name, what, t.State, t.Reason)
			}
		}
		switch {
		case err == nil && late == "":
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case time.Now().After(deadline):
			return errors.Join(err, errors.New(late), errors.New(tail(s.says())))
		}
	}
}

// sampling returns when all targets are sampled.
func (s *served) sampling(ctx context.Context, names []string) error {
	return s.awaits(ctx, "begin", names, func(t daemon.TargetStatus) bool { return t.State == daemon.Sampling })
}

// profile reads the profile of a target.
func (s *served) profile(ctx context.Context, name string) (*ccmap.Map, error) {
	return (&client.Reader{Sockets: []string{s.socket}}).Read(ctx, "@"+name, export.ReadOptions{})
}

// settle is how long a daemon may take until its profiles have all that resting programs did.
const settle = 30 * time.Second

// account compares the profiles with the clocks of programs that rest, since the rest before.
func (s *served) account(ctx context.Context, members []*member) (a account, samples int64, err error) {
	for deadline := time.Now().Add(settle); ; time.Sleep(servedInterval) {
		a, samples = account{programs: len(members)}, 0
		for _, m := range members {
			profile, err := s.profile(ctx, fmt.Sprintf("%s:%d", m.name, m.pid())) // not of its children
			if err != nil {
				return a, 0, err
			}
			loss, total := profile.Meta().Loss, profile.Snapshot().Total()
			a.own += m.last.CPU - m.first.CPU
			a.clock += loss.Clock
			a.unaccounted += loss.Unaccounted
			a.seen += time.Duration(total.Time)
			samples += total.Samples
		}
		if (a.clock-a.own).Abs() <= a.grain(servedInterval) || time.Now().After(deadline) {
			return a, samples, nil
		}
	}
}

// ends ends the daemon, which logs everything.
func (s *served) ends() error {
	s.signal(syscall.SIGTERM)
	_, err := s.exit()
	return err
}

// descriptors returns the number of open descriptors of a process; 0 if it has ended.
func descriptors(pid int) int {
	open, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	return len(open)
}

// temporary is how the store calls a file while it writes it.
const temporary = ".writing"

// periods are what the store of a daemon has, in files and in its log.
type periods struct {
	files, torn, temporary int
	sum                    ccmap.Counters
	last                   map[string]time.Time // until when it has each target
	errs                   error
}

// periodsIn reads the store of a daemon that has ended.
func periodsIn(folder string) (p periods, err error) {
	p.last = make(map[string]time.Time)
	r, err := store.NewReader(folder)
	if errors.Is(err, os.ErrNotExist) {
		return p, nil
	}
	if err != nil {
		return p, err
	}
	l := r.List(store.Filter{Running: true})
	if l.Skipped > 0 || l.Damage != "" {
		p.torn++
		p.errs = fmt.Errorf("the store has %d foreign names (%w), damage %q", l.Skipped, l.First, l.Damage)
	}
	for _, e := range l.Entries {
		if e.Kind == store.KindBest {
			continue
		}
		p.files++
		m, err := r.Read(e)
		if err != nil {
			p.torn++
			p.errs = errors.Join(p.errs, err)
			continue
		}
		p.sum = p.sum.Add(m.Snapshot().Total())
		if e.To.After(p.last[e.Target]) {
			p.last[e.Target] = e.To
		}
	}
	err = filepath.WalkDir(folder, func(_ string, e os.DirEntry, err error) error {
		if err == nil && e.Name() == temporary {
			p.temporary++
		}
		return err
	})
	return p, err
}
