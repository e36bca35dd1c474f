package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ccmapd/ccmapd/internal/perfevent"
	"github.com/ccmapd/ccmapd/scripts/report"
)

// killsCampaign kills and stops ccmapd, and its target, at random times. Afterwards the
// target must be as if nothing had been attached.
var killsCampaign = kind{
	name:  "kills",
	about: "kill and stop ccmapd and its target at random times, and see what is left",
	example: `  go -C scripts run ./hostile kills             900 rounds, about ten minutes
  go -C scripts run ./hostile kills -quick      some of each`,
	head: []string{"attack", "rounds", "answers", "wrong", "breakpoints left", "descriptors left",
		"threads stopped or traced", "processes left", "files left", "slowest end"},
	run: runKills,
}

// assault is one way to kill or stop.
type assault struct {
	name   string
	rounds int
	quick  int
	round  func(*killing, context.Context) error
}

func assaults() []assault {
	return []assault{
		{"SIGKILL of ccmapd as it attaches", 150, 2, (*killing).asItAttaches},
		{"SIGKILL of ccmapd as it samples", 250, 4, (*killing).asItSamples},
		{"SIGKILL of ccmapd as it ends", 100, 3, (*killing).asItEnds},
		{"SIGKILL of `ccmapd run` as it starts a program", 100, 2, (*killing).asItStarts},
		{"SIGKILL of `ccmapd demo`", 50, 2, (*killing).demo},
		{"SIGKILL or SIGINT of `pgo measure --per`", 150, 2, (*killing).measured},
		{"SIGKILL of the target", 100, 2, (*killing).target},
		{"SIGSTOP and SIGCONT of ccmapd", 75, 2, (*killing).stopped},
		{"SIGSTOP of the target, SIGINT of ccmapd, SIGCONT", 75, 2, (*killing).stoppedTarget},
	}
}

// killing is the rounds of an assault, and their results.
type killing struct {
	*hostile
	folder   string    // where ccmapd writes
	computer *computer // the target
	first    atRest    // before any attachment
	ready    time.Duration
	ending   time.Duration // undisturbed times until ccmapd samples, and until it has ended

	answers, wrong                           int64
	breakpoints, descriptors, held, programs int // left behind
	slowest                                  time.Duration
	answer                                   string // of the program that ccmapd starts
}

func runKills(ctx context.Context, h *hostile) error {
	if err := perfevent.Silent(); err != nil { // each round waits for a breakpoint, which must not be left behind
		if os.Getenv("CCMAPD_WITHOUT_BREAKPOINTS") != "1" {
			return err
		}
		fmt.Fprintln(os.Stderr, "Left out:", err)
		return nil
	}
	if err := h.buildComputer(ctx); err != nil {
		return err
	}
	var failed error
	for _, a := range assaults() {
		if !h.wants(a.name) {
			continue
		}
		if err := h.assault(ctx, a); err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s: %w", a.name, err))
		}
	}
	return failed
}

// assault runs all rounds of an assault, against one computer, and adds its row.
func (h *hostile) assault(ctx context.Context, a assault) error {
	if h.Quick {
		a.rounds = a.quick
	}
	folder, err := os.MkdirTemp(h.Work, "kills-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	k := &killing{hostile: h, folder: folder}
	if err := k.begin(ctx); err != nil {
		return err
	}
	defer func() { k.computer.stop() }()
	r := row{}
	for i := range a.rounds {
		if err := a.round(k, ctx); err != nil {
			r.miss("round %d: %v", i+1, err)
		}
		if err := k.inspect(); err != nil {
			return errors.Join(err, fmt.Errorf("round %d", i+1))
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	files, err := k.after(ctx)
	k.cells(&r, a, files)
	h.add(r)
	return err
}

// begin starts the computer, and measures the length of an undisturbed session.
func (k *killing) begin(ctx context.Context) error {
	var err error
	if k.computer, err = k.victim(ctx); err != nil {
		return err
	}
	if k.first, err = k.computer.ask(); err != nil {
		return err
	}
	o, err := k.child(ctx, limits{}, k.Path("computer"), "answer")
	if err != nil {
		return err
	}
	k.answer = strings.TrimSpace(o.stdout)
	s, err := k.session(ctx)
	if err != nil {
		return err
	}
	k.ready = time.Since(s.began)
	armed := k.armed(s)
	s.signal(unix.SIGINT)
	k.ending, err = s.end()
	return errors.Join(armed, err)
}

// victim starts a computer at all tasks. It keeps two processors busy, in a quick campaign half of one.
func (k *killing) victim(ctx context.Context) (*computer, error) {
	if k.Quick {
		return k.compute(ctx, "all,gently")
	}
	return k.compute(ctx, "all")
}

// armed waits until ccmapd has set a breakpoint. Otherwise finding none would prove
// nothing.
func (k *killing) armed(s *session) error {
	for deadline := time.Now().Add(longestEnd); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		select {
		case <-s.ended:
			return errEnded
		default:
		}
		if n, err := breakpoints(k.computer.pid()); n > 0 || err != nil {
			return err
		}
	}
	return fmt.Errorf("ccmapd set no breakpoint within %v", longestEnd)
}

// session attaches to the computer with breakpoints set all the time, and returns when
// ccmapd samples.
func (k *killing) session(ctx context.Context) (*session, error) {
	s, err := k.attachDensely(ctx)
	if err == nil {
		<-s.samples
	}
	return s, err
}

var errEnded = errors.New("ccmapd has ended")

const killsFile = "kills.json"

func (k *killing) attachDensely(ctx context.Context) (*session, error) {
	return k.attach(ctx, "", k.computer.pid(), filepath.Join(k.folder, killsFile), "-i", "1ms", "--tune=false", "--hits", "10000")
}

// wait lets a random time pass, up to most.
func (k *killing) wait(most time.Duration) { time.Sleep(time.Duration(k.Int64N(int64(most) + 1))) }

// longestSampling bounds the sampling of a session before it is disturbed.
const longestSampling = 300 * time.Millisecond

func (k *killing) asItAttaches(ctx context.Context) error {
	s, err := k.attachDensely(ctx)
	if err != nil {
		return err
	}
	k.wait(k.ready)
	s.kill()
	return nil
}

func (k *killing) asItSamples(ctx context.Context) error {
	s, err := k.session(ctx)
	if err != nil {
		return err
	}
	k.wait(longestSampling)
	s.kill()
	return nil
}

func (k *killing) asItEnds(ctx context.Context) error {
	s, err := k.session(ctx)
	if err != nil {
		return err
	}
	k.wait(longestSampling)
	s.signal(unix.SIGINT)
	k.wait(k.ending)
	s.kill()
	return nil
}

// asItStarts kills ccmapd while it holds a program that it starts, or soon after. The
// program then gives its answer or has not begun. It ends in either case: asItStarts
// awaits the end of its output.
func (k *killing) asItStarts(ctx context.Context) error {
	var out capped
	cmd := exec.CommandContext(ctx, k.Ccmapd, "run", "-q", "-o", filepath.Join(k.folder, killsFile), k.Path("computer"), "answer")
	cmd.Dir, cmd.Stdout, cmd.WaitDelay = k.folder, &out, longestEnd
	if err := cmd.Start(); err != nil {
		return err
	}
	k.wait(k.ready + k.ending)
	cmd.Process.Signal(unix.SIGKILL)
	cmd.Wait() // it was killed; the program has ended, too, unless it is stopped for good
	for _, pid := range processesOf(k.Path("computer")) {
		if held(pid) > 0 {
			k.held++
			unix.Kill(pid, unix.SIGKILL)
		}
	}
	if answer := strings.TrimSpace(out.String()); answer != "" {
		k.answers++
		if answer != k.answer {
			k.wrong++
		}
	}
	return nil
}

// demo kills a demo, whose workload is a process of ccmapd, too.
func (k *killing) demo(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, k.Ccmapd, "demo")
	cmd.Dir = k.folder
	if err := cmd.Start(); err != nil {
		return err
	}
	k.wait(k.ready + longestSampling)
	cmd.Process.Signal(unix.SIGKILL)
	cmd.Wait()
	return nil
}

// measured counts the executions of a function of the computer, and is killed or interrupted.
func (k *killing) measured(ctx context.Context) error {
	roots := []string{"main.descend", "main.(*group).area", "main.threads.func1", "main.sorts"}
	pid := strconv.Itoa(k.computer.pid())
	s := &session{}
	err := s.start(ctx, k.folder, "", []string{
		k.Ccmapd, "pgo", "measure", "--before", pid, "--after", pid, "--per", roots[k.IntN(len(roots))], "-d", "1m", "--period", "10ms",
	})
	if err != nil {
		return err
	}
	if err := k.armed(s); err != nil && !errors.Is(err, errEnded) { // by a debug register that is in use: exit says
		s.kill()
		return fmt.Errorf("%w\n%s", err, tail(s.says()))
	}
	k.wait(longestSampling)
	if k.IntN(2) == 0 {
		s.kill()
		return nil
	}
	s.signal(unix.SIGINT)
	took, err := s.exit()
	k.slowest = max(k.slowest, took)
	if errors.Is(err, errStatus) { // of too few periods, or of a debug register that armed held
		err = nil
	}
	return err
}

// target kills the computer, which ccmapd survives with a profile, and starts another.
func (k *killing) target(ctx context.Context) error {
	s, err := k.session(ctx)
	if err != nil {
		return err
	}
	k.wait(longestSampling)
	k.computer.stop()
	failed := k.ends(s)
	if k.computer, err = k.victim(ctx); err == nil {
		k.first, err = k.computer.ask()
	}
	return errors.Join(failed, err)
}

// ends waits for ccmapd's end and checks its profile.
func (k *killing) ends(s *session) error {
	took, err := s.end()
	k.slowest = max(k.slowest, took)
	return err
}

// stopped stops ccmapd for a while, while its target goes on.
func (k *killing) stopped(ctx context.Context) error {
	s, err := k.session(ctx)
	if err != nil {
		return err
	}
	k.wait(longestSampling)
	s.signal(unix.SIGSTOP)
	k.wait(longestSampling)
	err = k.computes()
	s.signal(unix.SIGCONT)
	k.wait(longestSampling / 10)
	s.signal(unix.SIGINT)
	return errors.Join(err, k.ends(s))
}

// stoppedTarget stops the computer, and ends ccmapd meanwhile.
func (k *killing) stoppedTarget(ctx context.Context) error {
	s, err := k.session(ctx)
	if err != nil {
		return err
	}
	k.wait(longestSampling)
	k.computer.cmd.Process.Signal(unix.SIGSTOP)
	k.wait(longestSampling / 10)
	s.signal(unix.SIGINT)
	err = k.ends(s)
	k.computer.cmd.Process.Signal(unix.SIGCONT)
	return err
}

// computes waits until the computer has more answers, and counts them.
func (k *killing) computes() error {
	before := k.computer.last
	deadline := time.Now().Add(longestEnd)
	for {
		now, err := k.computer.ask()
		switch {
		case err != nil:
			return err
		case now.Answers > before.Answers:
			k.answers += now.Answers - before.Answers
			k.wrong += now.Wrong - before.Wrong
			return nil
		case time.Now().After(deadline):
			return errors.New("the target computes no more")
		}
		time.Sleep(time.Millisecond)
	}
}

// inspect looks at the traces of a round. The kernel cleans up after a killed process,
// which may take it some time.
func (k *killing) inspect() error {
	if err := k.computes(); err != nil {
		return err
	}
	pid := k.computer.pid()
	k.descriptors += max(0, k.computer.last.Descriptors-k.first.Descriptors)
	k.held += lasting(func() int { return held(pid) })
	k.programs += lasting(func() int { return len(processesOf(k.Ccmapd)) })
	var failed error
	k.breakpoints += lasting(func() int {
		var n int
		n, failed = breakpoints(pid)
		return n
	})
	return failed
}

// lasting returns the number of traces that do not go away.
func lasting(count func() int) int {
	const patience = 30 * time.Second
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		if n := count(); n == 0 || time.Now().After(deadline) {
			return n
		}
	}
}

// after runs an undisturbed session, and returns the files beside its profile afterwards.
func (k *killing) after(ctx context.Context) ([]string, error) {
	s, err := k.session(ctx)
	if err != nil {
		return nil, err
	}
	s.signal(unix.SIGINT)
	_, err = s.end()
	files, err2 := leftovers(k.folder, killsFile)
	return files, errors.Join(err, err2)
}

// cells fills in the row, and its misses: no trace may be left, and no answer wrong.
func (k *killing) cells(r *row, a assault, files []string) {
	slowest := "–"
	if k.slowest > 0 {
		slowest = report.Seconds(k.slowest.Seconds())
	}
	left := []struct {
		what string
		n    int
	}{
		{"wrong answers", int(k.wrong)}, {"breakpoints", k.breakpoints}, {"descriptors", k.descriptors},
		{"threads stopped or traced", k.held}, {"processes", k.programs}, {"files", len(files)},
	}
	r.cells = []string{a.name, strconv.Itoa(a.rounds), report.Count(float64(k.answers))}
	for _, l := range left {
		r.cells = append(r.cells, strconv.Itoa(l.n))
		if l.n > 0 {
			r.miss("%d %s, want none", l.n, l.what)
		}
	}
	r.cells = append(r.cells, slowest)
}
