package bpf

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/internal/supervise"
	"github.com/ccmapd/ccmapd/internal/testrun"
	"github.com/ccmapd/ccmapd/queue"
	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/sampler/internal/enginetest"
)

// wholeRun is a Whole that runs beside a test.
type wholeRun struct {
	*Whole
	sink    sampler.Sink
	stop    func() // and wait
	samples []enginetest.Sample
}

func runWhole(t *testing.T, h *Host, programs int) *wholeRun {
	t.Helper()
	r := &wholeRun{sink: sampler.Sink{Queue: queue.New(queue.Options{RingWords: 1 << 20}), Names: ccmap.NewNames()}}
	r.open(t, h, WholeOptions{MaxPrograms: programs})
	return r
}

// open opens and runs the whole host, with the sink of r.
func (r *wholeRun) open(t *testing.T, h *Host, o WholeOptions) {
	t.Helper()
	o.Sink, o.Interval = r.sink, 2*time.Millisecond
	var err error
	if r.Whole, err = h.OpenWhole(o); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if ending, err := r.Run(ctx); err != nil || ending.Exited {
			t.Errorf("Run: %+v, %v", ending, err)
		}
	}()
	r.stop = sync.OnceFunc(func() { cancel(); <-done })
	t.Cleanup(r.stop)
}

// await waits for a sample whose frames begin and end with some, innermost first. "" stands for any.
func (r *wholeRun) await(t *testing.T, frames ...string) {
	t.Helper()
	is := func(s enginetest.Sample) bool {
		last := len(frames) - 1
		return s.Names[len(s.Names)-1] == frames[last] && (last == 0 && len(s.Names) == 1 || last > 0 && slices.ContainsFunc(s.Names[:len(s.Names)-1], func(name string) bool {
			return strings.HasPrefix(name, frames[0])
		}))
	}
	for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		r.samples = append(r.samples, enginetest.Drained(r.sink)...)
		if slices.ContainsFunc(r.samples, is) {
			return
		}
		if time.Since(began) > 3*time.Minute {
			t.Fatalf("no sample of %q among %d: %+v", frames, len(r.samples), r.Stats())
		}
	}
}

// shell starts a shell under another name.
func shell(t *testing.T, name, script string) *exec.Cmd {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.Symlink("/bin/sh", path); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, "-c", script)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	return cmd
}

// TestWhole: the whole host has every process: Go programs with their stacks, whether they are targets,
// too, or begin later; others by their names, which may be anything, with the kernel below them. The total
// is the CPU time of the machine.
func TestWhole(t *testing.T) {
	t.Parallel()
	h := openHost(t)
	path := enginetest.Build(t, "workload")
	begin := func() *enginetest.Target {
		g := enginetest.Start(t, path, "busy", "60000")
		g.Proceed(t)
		return g
	}
	target := begin()
	s, sink := enginetest.Attach(t, h.Open, target.PID(), Options{Interval: 5 * time.Millisecond})
	ending := make(chan error, 1)
	targets, stopTarget := context.WithCancel(context.Background())
	go func() {
		_, err := s.Run(targets)
		ending <- err
	}()
	shell(t, "wholeshell", "while :; do :; done")
	shell(t, "hostile", `printf '\033[2J\377]\n;x' > /proc/$$/comm; while :; do echo > /dev/null; done`)
	const most = 0.5 // hypervisors that do not tell what they steal had 0.39
	enough := 5 * time.Second
	if !testrun.IsFull() {
		enough = 2 * time.Second
	}
	stole := testrun.Stolen(t)
	r := runWhole(t, h, 100)
	r.await(t, "[process wholeshell]")
	r.await(t, "[process \ufffd[2J\ufffd\ufffd\ufffd\ufffdx]")
	r.await(t, "[kernel]", "[process \ufffd[2J\ufffd\ufffd\ufffd\ufffdx]")
	r.await(t, "main.", "[process workload]")
	before := len(r.samples)
	target.Cmd.Process.Kill()
	if err := <-ending; err != nil {
		t.Error(err)
	}
	stopTarget()
	begin()
	r.samples = r.samples[before:]
	r.await(t, "main.", "[process workload]")
	if err := r.SetInterval(5 * time.Millisecond); err != nil || r.Stats().Interval != 5*time.Millisecond {
		t.Errorf("the interval is %v, %v", r.Stats().Interval, err)
	}
	for r.Stats().Loss.Clock < enough {
		time.Sleep(10 * time.Millisecond)
	}
	r.stop()
	st := r.Stats()
	stole = testrun.Stolen(t) - stole // no timer of ours ticks meanwhile, and the kernel takes a part for the program's time
	t.Logf("%+v, not accounted for %.2f %%, stolen %v", st, 100*float64(st.Loss.Unaccounted)/float64(st.Loss.Clock), stole)
	if off := float64(st.Loss.Unaccounted.Abs()-stole) / float64(st.Loss.Clock); off > most || st.Loss.Samples() > 0 {
		t.Errorf("%.1f %% of the CPU time are not accounted for: %+v", 100*off, st.Loss)
	}
	if own := enginetest.Drained(sink); len(own) == 0 || own[0].Has("[process workload]") {
		t.Errorf("the target has %d samples of its own", len(own))
	}
	if len(h.members) != 0 || len(h.sources) != 0 {
		t.Errorf("%d members and %d sources are left", len(h.members), len(h.sources))
	}
}

// TestWholeWithoutPlaces: programs beyond the bound have their process, and no stack.
func TestWholeWithoutPlaces(t *testing.T) {
	t.Parallel()
	g := enginetest.Start(t, enginetest.Build(t, "workload"), "busy", "60000")
	g.Proceed(t)
	r := runWhole(t, openHost(t), 0)
	r.await(t, ccmap.UnknownName, "[process workload]")
	st := r.Stats()
	if st.Threads == 0 {
		t.Error("no program is known")
	}
	if !strings.Contains(st.Warning, "programs have no stacks: 0 others") {
		t.Errorf("it warns %q", st.Warning)
	}
}

// TestWholeBesideShortLives: processes that live for milliseconds are sampled by their names, and nothing
// of them is left.
func TestWholeBesideShortLives(t *testing.T) {
	t.Parallel()
	h := openHost(t)
	r := runWhole(t, h, 100)
	script := "i=0; while [ $i -lt 1000 ]; do (j=0; while [ $j -lt 300 ]; do j=$((j+1)); done) ; i=$((i+1)); done"
	began := time.Now()
	if err := shell(t, "shortlived", script).Wait(); err != nil {
		t.Fatal(err)
	}
	r.await(t, "[process shortlived]")
	t.Logf("1,000 processes in %v: %+v", time.Since(began), r.Stats())
	r.stop()
	r.programs.sweep(time.Now().Add(2 * knownFor))
	if left := len(r.programs.known); left > 0 {
		t.Errorf("%d programs are known", left)
	}
	if len(h.members) != 0 {
		t.Errorf("%d members are left", len(h.members))
	}
}

// TestProcessNames: a map has so many names of processes at most, however they are called.
func TestProcessNames(t *testing.T) {
	t.Parallel()
	names, n := ccmap.NewNames(), make(processNames)
	frame := func(name string, flags uint32) string {
		r := &record{}
		r.Flags = flags
		copy(r.Name[:], name)
		return names.At(n.frame(r, names).Method).Name
	}
	for _, c := range []struct{ name, want string }{
		{"web", "[process web]"}, {"", "[process without a name]"}, {" ", "[process without a name]"},
		{"0123456789abcdef", "[process 0123456789abcdef]"}, {"a;b]c\n", "[process a\ufffdb\ufffdc\ufffd]"}, {"\xff\xc3", "[process \ufffd\ufffd]"},
	} {
		if got := frame(c.name, 0); got != c.want {
			t.Errorf("%q is %q, want %q", c.name, got, c.want)
		}
	}
	if got := frame("kworker/7:3", kernelThread); got != "[process kworker]" {
		t.Errorf("a kernel's thread is %q", got)
	}
	for i := range 2 * mostProcessNames {
		frame(fmt.Sprint(i), 0)
	}
	if got := frame("one more", 0); got != "[process …]" || names.Len() > 2*mostProcessNames || len(n) != mostProcessNames {
		t.Errorf("one more is %q, there are %d methods", got, names.Len())
	}
	if got := frame("web", 0); got != "[process web]" {
		t.Errorf("web is %q now", got)
	}
}

func begunAt(t *testing.T, pid int) uint64 {
	t.Helper()
	stat, err := process.ReadStat(pid)
	if err != nil {
		t.Fatal(err)
	}
	return stat.Started
}

// TestWholeGivesUp: a program is not opened where there is no memory for its symbols, and after so many
// programs that kept a read waiting none is.
func TestWholeGivesUp(t *testing.T) {
	t.Parallel()
	g := enginetest.Start(t, enginetest.Build(t, "workload"), "busy", "60000")
	h := openHost(t)
	p := newPrograms(h, WholeOptions{Sink: sampler.Sink{Names: ccmap.NewNames(), Queue: queue.New(queue.Options{})}, MaxPrograms: 1, Logger: h.log})
	fresh := func() *program {
		key := programKey{pid: uint32(g.PID()), started: begunAt(t, g.PID())}
		return &program{key: key, life: supervise.NewLife(again, time.Now())}
	}
	ctx, cancel := context.WithCancel(t.Context())
	one := fresh()
	if err := p.look(ctx, one); err != nil || one.kind() != symbolic {
		t.Fatalf("the program is of kind %d: %v", one.kind(), err)
	}
	cancel()
	p.wait()
	p.options.HasMemory = func() bool { return false }
	one = fresh()
	for range 2 {
		if p.settle(one, p.look(t.Context(), one)); one.kind() != opaque {
			t.Errorf("the program is of kind %d without memory", one.kind())
		}
	}
	if got := p.warning(); got != "1 programs have no stacks: there was no memory for their symbols" {
		t.Errorf("it warns %q", got)
	}
	p.options.HasMemory = nil
	ended := fresh()
	ended.key.started++
	if p.settle(ended, p.look(t.Context(), ended)); ended.kind() != unlooked {
		t.Errorf("a process that has ended is of kind %d", ended.kind())
	}
	for pid := 1; !p.gate.IsFull(anyOwner); pid++ {
		p.gate.NoteHung(supervise.Process{PID: pid, Owner: anyOwner})
	}
	one = fresh()
	if p.settle(one, p.look(t.Context(), one)); one.kind() != opaque || !p.full {
		t.Errorf("the program is of kind %d after so many that hung", one.kind())
	}
}

// TestWholeBoundsNames: programs that come for months end a map that has too many of their names.
func TestWholeBoundsNames(t *testing.T) {
	t.Parallel()
	sink := sampler.Sink{Queue: queue.New(queue.Options{}), Names: ccmap.NewNames()}
	w, err := openHost(t).OpenWhole(WholeOptions{Sink: sink, MaxNames: 1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Run(t.Context()); !errors.Is(err, ErrNames) {
		t.Errorf("Run: %v", err)
	}
}

// TestWholeOnce: a host has one Whole at a time, and needs a sink.
func TestWholeOnce(t *testing.T) {
	t.Parallel()
	h := openHost(t)
	r := runWhole(t, h, 0)
	if _, err := h.OpenWhole(WholeOptions{Sink: r.sink}); err == nil || !strings.Contains(err.Error(), "sampled already") {
		t.Errorf("a second one: %v", err)
	}
	if _, err := h.OpenWhole(WholeOptions{}); err == nil {
		t.Error("one without a sink was opened")
	}
}
