package family

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/cmd/ccmapd/internal/session"
	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/internal/programtest"
	"github.com/ccmapd/ccmapd/internal/testrun"
	"github.com/ccmapd/ccmapd/manager"
	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/sampler/engine"
	"github.com/ccmapd/ccmapd/tuning"
)

// roleArg makes the test binary a program of a family: see play.
const roleArg = "-role"

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == roleArg {
		play(os.Args[2:])
		return
	}
	os.Exit(testrun.Guard(m).Run())
}

// play is the program of a family:
//
//	spin             use a third of a CPU until standard input ends
//	many N COMMAND…  start so many processes beside each other, and spin
//	each N COMMAND…  start so many one after the other, say so, and spin
func play(args []string) {
	switch args[0] {
	case "spin":
		spin()
	case "many", "each":
		n, _ := strconv.Atoi(args[1])
		var all sync.WaitGroup
		for range n {
			c := exec.Command(args[2], args[3:]...)
			c.Stdin, c.Stderr = os.Stdin, os.Stderr
			if args[0] == "many" {
				all.Go(func() { run(c) })
			} else {
				run(c)
			}
		}
		fmt.Println("started")
		spin()
		all.Wait()
	}
}

func run(c *exec.Cmd) {
	if err := c.Run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}

func spin() {
	var over atomic.Bool
	go func() {
		io.Copy(io.Discard, os.Stdin)
		over.Store(true)
	}()
	for x := uint64(1); !over.Load(); time.Sleep(2 * time.Millisecond) {
		for began := time.Now(); time.Since(began) < time.Millisecond; {
			x *= 3
		}
	}
}

// household is a target with its family, under test.
type household struct {
	*Family
	main   *session.Session
	in     io.WriteCloser
	ended  chan struct{}
	report manager.Report
	files  map[string]*ccmap.Snapshot // that were written
}

// attach starts the test binary in a role, and samples it with its children. The target is started
// first, or held until its children are watched for.
func attach(t *testing.T, held bool, open func(*household, int) session.Opener, role ...string) *household {
	t.Helper()
	if _, err := os.Stat("/proc/sys/kernel/perf_event_paranoid"); err != nil {
		testrun.Lacks(t, "sampling is not possible: %v", err)
	}
	h := &household{ended: make(chan struct{}), files: make(map[string]*ccmap.Snapshot)}
	args := append([]string{roleArg}, role...)
	c := exec.Command("/bin/sh", append([]string{"-c", `read go; exec "$0" "$@"`, self(t)}, args...)...)
	c.Stderr = os.Stderr
	in, err1 := c.StdinPipe()
	out, err2 := c.StdoutPipe()
	if err := errors.Join(err1, err2, c.Start()); err != nil {
		t.Fatal(err)
	}
	h.in = in
	t.Cleanup(func() { in.Close(); c.Process.Kill(); c.Wait() })
	proceed := func() {
		io.WriteString(in, "go\n")
		if line, err := bufio.NewReader(out).ReadString('\n'); line != "started\n" {
			t.Fatalf("the target says %q, %v", line, err)
		}
	}
	if !held {
		proceed()
	}
	shared := engine.NewShared(engine.SharedOptions{MaxHostOverhead: -1})
	t.Cleanup(func() {
		if err := shared.Close(); err != nil {
			t.Error(err)
		}
	})
	if open == nil {
		open = func(h *household, pid int) session.Opener {
			return func(o sampler.ProcessOptions) (engine.Choice, error) {
				o.PID = pid
				return engine.Attach(h.ctx, shared.Engines(), engine.Auto, o)
			}
		}
	}
	config := session.Config{
		Interval: time.Millisecond, Quiet: true, Logger: slog.New(slog.DiscardHandler), Tuning: func() tuning.Config { return tuning.Config{Off: true} },
		Dumps: func(int) []manager.Dump { return []manager.Dump{h.dump("main")} },
	}
	ofChild := config
	ofChild.Store = func(sampler.Info) manager.Dump {
		t.Error("the session of a child files its profile, which is of its program")
		return h.dump("a child's own")
	}
	var err error
	h.Family, err = Open(Options{
		PID: c.Process.Pid, Logger: config.Logger,
		Session: func(_ context.Context, pid int) (session.Config, session.Opener) { return ofChild, open(h, pid) },
		Outputs: func(name string, _ int) []manager.Dump { return []manager.Dump{h.dump(name)} },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	if held {
		proceed()
	}
	if h.main, err = session.Open(h.Adopt(config), open(h, c.Process.Pid)); err != nil {
		if errors.Is(err, sampler.ErrPermission) || errors.Is(err, sampler.ErrUnsupported) {
			testrun.Lacks(t, "sampling is not possible: %v", err)
		}
		t.Fatal(err)
	}
	go func() {
		defer close(h.ended)
		h.report, err = h.main.Run(t.Context(), io.Discard, io.Discard)
		if err != nil {
			t.Error(err)
		}
	}()
	return h
}

func self(t *testing.T) string {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return exe
}

func (h *household) dump(name string) manager.Dump {
	return manager.Dump{Name: name, Write: func(s *ccmap.Snapshot) error { h.files[name] = s; return nil }}
}

// await waits until a condition of the members holds. The test's own deadline bounds it.
func (h *household) await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for {
		h.mu.Lock()
		is := holds()
		h.mu.Unlock()
		if is {
			return
		}
		select {
		case <-h.ended:
			t.Fatalf("the session has ended before %s: %s", what, h.report.Ending.Reason)
		case <-t.Context().Done():
			t.Fatal(what)
		case <-time.After(time.Millisecond):
		}
	}
}

// sampledNow returns how many members have samples. The caller holds mu.
func (h *household) sampledNow() (n int) {
	for _, m := range h.members {
		if m.session != nil && m.session.Status().Samples > 0 {
			n++
		}
	}
	return n
}

// end ends all processes, and returns the report.
func (h *household) end(t *testing.T) childrenJSON {
	t.Helper()
	h.in.Close()
	<-h.ended
	if n := len(h.members); n > 0 {
		t.Errorf("%d members are left", n)
	}
	return h.JSON().(childrenJSON)
}

// outcomes counts the children of a program by outcome. It leaves out the child that the os package
// of each Go program has once, to find out what the kernel can do (checkPidfd, Go 1.26).
func outcomes(r childrenJSON, program string) map[Outcome]int {
	all := make(map[Outcome]int)
	for _, c := range r.Each {
		if filepath.Base(c.Program) == program {
			all[c.Outcome]++
		}
	}
	return all
}

// TestCopies: children of the target's own program are part of its profile, those that were there
// before and those that come later.
func TestCopies(t *testing.T) {
	t.Parallel()
	for name, held := range map[string]bool{"before": false, "after": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			copies := 3
			h := attach(t, held, nil, "many", strconv.Itoa(copies), self(t), roleArg, "spin")
			h.await(t, "all copies have samples", func() bool { return h.sampledNow() == copies })
			r := h.end(t)
			if got := outcomes(r, filepath.Base(self(t))); got[Sampled] != copies {
				t.Errorf("children: %v", r.Each)
			}
			if len(r.Programs) != 1 || !r.Programs[0].Own || len(h.files) != 1 {
				t.Fatalf("programs %+v, %d files", r.Programs, len(h.files))
			}
			main, children := h.files["main"].Total().Samples, r.Programs[0].Samples
			if own := int64(h.main.Status().Samples); main != own+children || h.report.Snapshot.Total().Samples != main {
				t.Errorf("the profile has %d samples: %d are its own, %d of children", main, own, children)
			}
		})
	}
}

// buildSpin builds the other program.
func buildSpin(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "spin")
	if out, err := exec.Command("go", "build", "-o", program, "./testdata/spin").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return program
}

// TestOtherProgram: a child that becomes another program is sampled as that, into a file of its own.
func TestOtherProgram(t *testing.T) {
	t.Parallel()
	other := buildSpin(t)
	h := attach(t, true, nil, "many", "2", "/bin/sh", "-c", `cd /; exec "$0"`, other)
	h.await(t, "the other program has samples", func() bool { return h.sampledNow() == 2 })
	r := h.end(t)
	if got := outcomes(r, "spin"); got[Sampled] != 2 {
		t.Errorf("children: %v", r.Each)
	}
	var text bytes.Buffer
	h.Text(&text)
	file, heaviest := h.Heaviest()
	if p := r.Programs[0]; p.Processes != 2 || p.CPU <= 0 || !strings.Contains(text.String(), "CPU time  samples  processes  program") {
		t.Errorf("%+v in\n%s", p, &text)
	}
	if own := h.files["main"].Total().Time; (file == "spin") != (r.Programs[0].CPU > own) || (heaviest == nil) == (file == "spin") {
		t.Errorf("the heaviest program is %q, with %d ns of %d", file, r.Programs[0].CPU, own)
	}
	if len(r.Programs) != 1 || r.Programs[0].Own || len(r.Programs[0].Written) != 1 || r.Programs[0].Written[0] != "spin" {
		t.Fatalf("programs %+v", r.Programs)
	}
	s := h.files["spin"]
	if id, _ := s.Names().Lookup("main.main", ""); s.Total().Samples != r.Programs[0].Samples {
		t.Errorf("the file has %d samples of method %d, the report %d", s.Total().Samples, id, r.Programs[0].Samples)
	}
	if h.files["main"].Total().Samples != int64(h.main.Status().Samples) {
		t.Error("the target's profile has samples of another program")
	}
	if w := h.report.Written; len(w) != 2 || w[0] != "main" || w[1] != "spin" {
		t.Errorf("written: %q", w)
	}
}

// TestReaped: the CPU time of children counts once they have ended, whoever could sample them.
func TestReaped(t *testing.T) {
	t.Parallel()
	h := attach(t, true, nil, "many", "2", "/bin/sh", "-c", `i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done`)
	h.await(t, "the children have ended", func() bool { return h.tally.count() >= 2 && h.reaped.now > h.reaped.before })
	if r := h.end(t); r.Used < 10*time.Millisecond {
		t.Errorf("children have used %v: %+v", r.Used, r)
	}
}

// TestShortChildren: each child that lives a few ms is counted.
func TestShortChildren(t *testing.T) {
	testrun.Full(t, testrun.Quiet)
	t.Parallel()
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Skip(err)
	}
	short := programtest.Copy(t, sleep, "short")
	const children = 30
	h := attach(t, true, nil, "each", strconv.Itoa(children), short, "0.005")
	h.await(t, "all children have ended", func() bool { return h.tally.count() >= children && len(h.members) == 0 })
	r := h.end(t)
	if got := outcomes(r, "short"); got[Missed]+got[Stranger] != children {
		t.Errorf("outcomes %v of %d children", got, children)
	}
}

// TestManyChildren: a hundred children at once are all attached to.
func TestManyChildren(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts 100 processes")
	}
	const children = 100
	h := attach(t, true, nil, "many", strconv.Itoa(children), buildSpin(t), "wait")
	h.await(t, "all children are sampled", func() bool { return sampledNow(h) == children })
	if r := h.end(t); r.Sampled != children {
		t.Errorf("%d of %d children are sampled", r.Sampled, children)
	}
}

// TestEndsWhileOpened: a process that ends as it is attached to again was refused for the first reason, or missed.
func TestEndsWhileOpened(t *testing.T) {
	t.Parallel()
	gone := fmt.Errorf("read process state: %w", fs.ErrNotExist)
	f := &Family{}
	for outcome, errs := range map[Outcome][]error{
		Missed:  {gone},
		Refused: {sampler.ErrPermission, gone},
	} {
		m := &member{}
		for _, err := range errs {
			f.fail(m, err)
		}
		if m.child.Outcome != outcome || strings.Contains(m.child.Reason, "state") {
			t.Errorf("%v: %+v", errs, m.child)
		}
	}
}

// TestStrangersAndRefused: the report says why children are not sampled.
func TestStrangersAndRefused(t *testing.T) {
	t.Parallel()
	refused := map[int]bool{}
	var mu sync.Mutex
	open := func(h *household, pid int) session.Opener {
		return func(o sampler.ProcessOptions) (engine.Choice, error) {
			o.PID = pid
			if pid != h.options.PID {
				mu.Lock()
				defer mu.Unlock()
				refused[pid] = true
				return engine.Choice{}, fmt.Errorf("child\n%d: %w", pid, sampler.ErrPermission)
			}
			return engine.Attach(h.ctx, engine.All(), engine.Auto, o)
		}
	}
	h := attach(t, true, open, "many", "1", self(t), roleArg, "spin")
	h.await(t, "the child is refused", func() bool {
		for _, m := range h.members {
			if m.child.Outcome == Refused {
				return true
			}
		}
		return false
	})
	r := h.end(t)
	if r.Refused != 1 || r.Sampled != 0 || len(refused) != 1 {
		t.Errorf("report %+v; refused %v", r, refused)
	}
	var text bytes.Buffer
	h.Text(&text)
	for _, want := range []string{"Refused: 1 (", "not permitted"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("lacks %q: %s", want, &text)
		}
	}
	if strings.Contains(text.String(), "child\n") {
		t.Errorf("prints a reason raw: %q", &text)
	}

	h = attach(t, true, nil, "many", "2", "/bin/cat")
	h.await(t, "the strangers are known", func() bool {
		n := 0
		for _, m := range h.members {
			if m.child.Outcome == Stranger {
				n++
			}
		}
		return n == 2
	})
	if r := h.end(t); outcomes(r, "cat")[Stranger] != 2 {
		t.Errorf("report %+v", r)
	}
}

// TestLateRuntime: children whose runtime shows late are sampled, as a JVM's does, whose launcher
// loads it. The executable was a stranger at the first look, so the second child has no first look.
func TestLateRuntime(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	looks := map[int]int{}
	open := func(h *household, pid int) session.Opener {
		return func(o sampler.ProcessOptions) (engine.Choice, error) {
			mu.Lock()
			looks[pid]++
			first := len(looks) == 2 && looks[pid] == 1 // the target has the other
			mu.Unlock()
			if first {
				return engine.Choice{}, sampler.ErrNotManaged
			}
			o.PID = pid
			return engine.Attach(h.ctx, engine.All(), engine.Auto, o)
		}
	}
	h := attach(t, true, open, "many", "2", self(t), roleArg, "spin")
	h.await(t, "both children are sampled", func() bool { return sampledNow(h) == 2 })
	h.end(t)
	mu.Lock()
	defer mu.Unlock()
	for pid, n := range looks {
		if n > 2 {
			t.Errorf("process %d was looked at %d times", pid, n)
		}
	}
}

// TestLooksAtStrangers: a process of a known stranger is looked at from the first unknown age on.
func TestLooksAtStrangers(t *testing.T) {
	t.Parallel()
	file := process.FileID{Inode: 7}
	f := &Family{strangers: make(strangers)}
	first := &member{file: file, due: time.NewTimer(0)}
	for range ages {
		if f.skips(first, file) {
			t.Fatalf("look %d of the first process is skipped", first.looks)
		}
		first.dead = true // no timer
		f.lookLater(first)
	}
	second := &member{due: time.NewTimer(0), dead: true}
	if !f.skips(second, file) {
		t.Error("a process of a known stranger is looked at")
	}
	if f.lookLater(second); second.looks != len(ages) {
		t.Errorf("%d ages are known of the second process, want all %d", second.looks, len(ages))
	}
	if f.skips(second, process.FileID{Inode: 8}) {
		t.Error("a process of an unknown file is skipped")
	}
}

// sampledNow counts the members that are sampled. The caller holds mu.
func sampledNow(h *household) (n int) {
	for _, m := range h.members {
		if m.session != nil {
			n++
		}
	}
	return n
}
