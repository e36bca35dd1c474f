package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/daemon/config"
	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/internal/supervise"
	"github.com/ccmapd/ccmapd/internal/testrun"
	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/sampler/engine"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(testrun.Guard(m)) }

// fakeProcess is a process of a fakeHost.
type fakeProcess struct {
	process.Facts
	file   process.FileID
	hangs  chan struct{} // until it is closed, nobody learns the file; nil: the file is known
	build  string
	commit time.Time // of its source
	method string    // that all its samples are of
	body   uint64    // of that method; 0: not known
	runs   string    // its runtime
	refuse error     // the answer to attaching
	ended  chan struct{}
	reason string
	err    error // of a session with it, in place of reason
}

// fakeHost is a machine with processes that a test starts and ends. It is its own engine: each
// process that is sampled gives a sample of every, each every.
type fakeHost struct {
	every      time.Duration // between two samples of a process; set before the first one starts
	mu         sync.Mutex
	all        map[int]*fakeProcess
	identities map[int]uint64
	looks      int // at processes
	attached   []int
	onOpen     func(pid int) // called while a process is being attached to
	sampled    int           // processes, now
	network    *network
	whole      error // the answer to sampling the whole host
	programs   int   // of the whole host, at most
	// hasMemory reports whether there is memory for another program of the whole host.
	hasMemory func() bool
	// mostPrograms returns the memory of the programs of the whole host, and mostNames is that of its names.
	mostPrograms func() int64
	mostNames    int64
	entire       *fakeProcess // that stands for the whole host
	turns        atomic.Int64 // of the daemon
	// usesFrom is when the daemon begins to use half a CPU, by the clock; 0: it uses none.
	usesFrom   atomic.Int64
	usedMemory atomic.Int64 // by the daemon
}

// usedCPU returns the CPU time that the daemon has used.
func (h *fakeHost) usedCPU() time.Duration {
	if from := h.usesFrom.Load(); from != 0 {
		return time.Since(time.Unix(0, from)) / 2
	}
	return 0
}

func newFakeHost() *fakeHost {
	return &fakeHost{every: 10 * time.Millisecond, all: make(map[int]*fakeProcess), identities: make(map[int]uint64), network: newNetwork()}
}

func (h *fakeHost) dial(ctx context.Context, _, address string) (net.Conn, error) {
	return h.network.dial(ctx, address)
}

// start adds a process, which replaces the one of its number.
func (h *fakeHost) start(p fakeProcess) *fakeProcess {
	h.mu.Lock()
	defer h.mu.Unlock()
	p.ended = make(chan struct{})
	p.method = cmp.Or(p.method, "main.work")
	h.all[p.PID] = &p
	h.identities[p.PID]++
	return &p
}

// web returns a process of the program that the tests' rules fit.
func web(pid int) fakeProcess {
	return fakeProcess{
		Facts: process.Facts{PID: pid, Started: uint64(pid), Executable: "/srv/web"},
		file:  process.FileID{Inode: 1}, build: "build-1",
	}
}

func (h *fakeHost) kill(p *fakeProcess) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.all[p.PID] == p {
		delete(h.all, p.PID)
	}
	p.reason = "target exited with code 0"
	close(p.ended)
}

// fail ends the session with a process by an error. The process goes on.
func (h *fakeHost) fail(p *fakeProcess, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	next := *p
	next.ended = make(chan struct{})
	h.all[p.PID] = &next
	p.err = err
	close(p.ended)
}

// exec makes a process another program.
func (h *fakeHost) exec(p *fakeProcess, program fakeProcess) *fakeProcess {
	h.mu.Lock()
	defer h.mu.Unlock()
	program.PID, program.Started, program.ended = p.PID, p.Started, make(chan struct{})
	program.method = cmp.Or(program.method, "main.work")
	h.all[p.PID] = &program
	p.reason = "target was replaced by exec"
	close(p.ended)
	return &program
}

func (h *fakeHost) of(pid int) (*fakeProcess, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if p := h.all[pid]; p != nil {
		return p, nil
	}
	return nil, sampler.ErrNoProcess
}

func (h *fakeHost) list() (map[int]uint64, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	list := make(map[int]uint64)
	for pid := range h.all {
		list[pid] = h.identities[pid]
	}
	return list, nil
}

func (h *fakeHost) facts(pid int) (process.Facts, error) {
	p, err := h.of(pid)
	if err != nil {
		return process.Facts{}, fmt.Errorf("read process state: %w", fs.ErrNotExist) // as /proc answers
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.looks++
	return p.Facts, nil
}

func (h *fakeHost) File(pid int) (process.FileID, error) {
	p, err := h.of(pid)
	if err != nil {
		return process.FileID{}, err
	}
	if p.hangs != nil {
		<-p.hangs
	}
	return p.file, nil
}

func (h *fakeHost) identity(pid int) (process.Identity, error) {
	p, err := h.of(pid)
	if err != nil {
		return process.Identity{}, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return process.Identity{Owner: p.Owner, Started: p.Started}, nil
}

// clock advances by a second with each attempt to attach.
func (h *fakeHost) clock(pid int) (time.Duration, error) {
	if _, err := h.of(pid); err != nil {
		return 0, err
	}
	return time.Duration(1+h.attempts()) * time.Second, nil
}

func (h *fakeHost) Pin(pid int) (supervise.Pin, error) {
	p, err := h.of(pid)
	if err != nil {
		return nil, err
	}
	return fakePin{p}, nil
}

type fakePin struct{ *fakeProcess }

func (p fakePin) Gone() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

func (p fakePin) Close() {}

func (h *fakeHost) engines() []engine.Engine {
	return []engine.Engine{{Name: "fake", Open: h.open}}
}

func (h *fakeHost) open(_ context.Context, o sampler.ProcessOptions) (engine.Source, error) {
	p, err := h.of(o.PID)
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	h.attached = append(h.attached, o.PID)
	onOpen, refuse := h.onOpen, p.refuse
	h.mu.Unlock()
	if onOpen != nil {
		onOpen(o.PID)
	}
	if refuse != nil {
		return nil, refuse
	}
	return &fakeSource{h: h, p: p, sink: o.Sink, interval: o.Interval}, nil
}

// openWhole samples the whole host, unless whole says why not.
func (h *fakeHost) openWhole(o engine.WholeOptions) (engine.Source, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.whole != nil {
		return nil, h.whole
	}
	h.mostPrograms, h.mostNames = o.MaxBytes, o.MaxNames
	h.programs, h.hasMemory, h.entire = o.MaxPrograms, o.HasMemory, &fakeProcess{method: "[process web]", ended: make(chan struct{})}
	return &fakeSource{h: h, p: h.entire, sink: o.Sink, interval: o.Interval}, nil
}

func (h *fakeHost) attempts() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.attached)
}

func (h *fakeHost) nowSampled() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.sampled
}

func (h *fakeHost) add(n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sampled += n
}

type fakeSource struct {
	h        *fakeHost
	p        *fakeProcess
	sink     sampler.Sink
	mu       sync.Mutex
	interval time.Duration
	samples  uint64
}

func (s *fakeSource) Run(ctx context.Context) (sampler.Ending, error) {
	s.h.add(1)
	defer s.h.add(-1)
	ring := s.sink.Queue.Ring()
	defer ring.Close()
	id := s.sink.Names.Intern(ccmap.Method{Name: s.p.method, Body: s.p.body})
	// Not at the instants of the daemon's own work: a tuner that reads what it was charged at the very
	// instant of the charge can find none in one second and two in the next, in turns.
	ticks := time.NewTicker(3 * time.Millisecond)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return sampler.Ending{Reason: "stopped"}, nil
		case <-s.p.ended:
			if s.p.err != nil {
				return sampler.Ending{}, s.p.err
			}
			return sampler.Ending{Reason: s.p.reason, Exited: true}, nil
		case <-ticks.C:
			ticks.Reset(s.h.every)
			ring.Push(&ccmap.Sample{Frames: []ccmap.Frame{{Method: id, Offset: 1}}, Thread: 1, Weight: int64(s.h.every), Fresh: ccmap.FreshUnknown})
			ring.Publish()
			s.mu.Lock()
			s.samples++
			s.mu.Unlock()
		}
	}
}

func (s *fakeSource) Close() error { return nil }

func (s *fakeSource) Info() sampler.Info {
	return sampler.Info{
		Target: ccmap.Target{PID: s.p.PID, Executable: s.p.Executable, BuildID: s.p.build, Commit: s.p.commit, Runtime: s.p.runs}, Engine: "fake", Sink: s.sink,
	}
}

func (s *fakeSource) Stats() sampler.Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return sampler.Stats{Interval: s.interval, Threads: 1}
}

func (s *fakeSource) SetInterval(d time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.interval = d
	return nil
}

var errRefused = errors.Join(errors.New("perf events are forbidden"), sampler.ErrPermission)

// webConfig has one target, which takes processes of web.
func webConfig(change ...func(*config.Config)) *config.Config {
	c := config.Default()
	c.Store.Files = false
	c.Defaults.Engine = engine.Auto
	c.Targets = []config.Target{{Name: "web", Match: config.Match{Exe: "/srv/web"}, Settings: c.Defaults}}
	for _, f := range change {
		f(c)
	}
	return c
}

// inDaemon runs a test beside a daemon on a fake host, on the test's own clock.
func inDaemon(t *testing.T, c *config.Config, test func(t *testing.T, h *fakeHost, d *Daemon)) {
	t.Helper()
	inLoggingDaemon(t, c, nil, test)
}

// inLoggingDaemon is inDaemon with a log.
func inLoggingDaemon(t *testing.T, c *config.Config, log *slog.Logger, test func(t *testing.T, h *fakeHost, d *Daemon)) {
	t.Helper()
	inPreparedDaemon(t, c, log, func(*Daemon) {}, test)
}

// inPreparedDaemon is inLoggingDaemon, where prepare changes the daemon before it opens its store.
func inPreparedDaemon(t *testing.T, c *config.Config, log *slog.Logger, prepare func(*Daemon), test func(t *testing.T, h *fakeHost, d *Daemon)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h := newFakeHost()
		d, err := newDaemon(Options{Load: func() (*config.Config, error) { return c, nil }, Engines: h.engines(), Turn: func() { h.turns.Add(1) }, Logger: log}, h)
		if err != nil {
			t.Fatal(err)
		}
		d.budgets.usedCPU, d.budgets.usedMemory = h.usedCPU, h.usedMemory.Load
		d.openWhole = h.openWhole
		prepare(d)
		if err := d.OpenStore(); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- d.Run(ctx) }()
		defer func() {
			stop()
			if err := <-done; err != nil {
				t.Errorf("Run: %v", err)
			}
			if n := h.nowSampled(); n != 0 {
				t.Errorf("%d processes are still sampled", n)
			}
		}()
		synctest.Wait()
		test(t, h, d)
	})
}

// slotsOf returns the slots of all targets.
func slotsOf(d *Daemon) (all []*slot) {
	for _, t := range d.roster.everyone() {
		t.shelf.mu.Lock()
		all = append(all, t.shelf.slots...)
		t.shelf.mu.Unlock()
	}
	return all
}

func mustTarget(t *testing.T, d *Daemon, name string) TargetStatus {
	t.Helper()
	s, err := d.Target(name)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// samplesOf returns the samples of a target by method, after all that was pushed was folded.
func samplesOf(t *testing.T, d *Daemon, name string, pid int) map[string]int64 {
	t.Helper()
	s, err := d.Snapshot(t.Context(), name, pid)
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[string]int64)
	for m := range s.Methods() {
		found[m.Method().Name] = m.Total().Samples
	}
	maps.DeleteFunc(found, func(_ string, n int64) bool { return n == 0 })
	return found
}

func facts(pid int, exe string) process.Facts {
	return process.Facts{PID: pid, Started: uint64(pid), Executable: exe}
}
