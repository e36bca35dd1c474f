package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/ccmapd/ccmapd/scripts/campaign"
)

// workload is a program to profile.
type workload struct {
	name, about string
	unit        unit
	pinned      bool          // to one CPU, with its runtime
	copies      int           // processes; 0: one
	hz          int           // of the profilers; 0: 100
	slow        bool          // left out in CI
	work        func() string // begins to work; returns its address, if it is a server
}

const serverConnections = 16

var workloads []workload

func init() { // the works call functions that look workloads up
	workloads = []workload{
		{name: "switches", about: "two threads on one CPU hand a byte to each other", unit: nanoseconds, work: pingPong},
		{name: "server", about: fmt.Sprintf("an HTTP server, %d connections", serverConnections), unit: percent, work: server},
		{name: "busy", slow: true, about: "one busy goroutine, its runtime on the same CPU", unit: percent, pinned: true, work: busy},
		{name: "threads", slow: true, about: "500 threads that mostly sleep", unit: percent, work: threads},
		{name: "twenty", slow: true, about: "twenty processes that mostly sleep", unit: percent, copies: 20, work: little},
		{name: "samples", slow: true, about: "SHA-256 at 5 kHz", unit: microsecondsASample, hz: 5000, work: hashing},
		{name: "short", slow: true, about: "threads that live for 0.5 ms", unit: percent, work: shortThreads},
	}
}

func find(name string) workload {
	for _, w := range workloads {
		if w.name == name {
			return w
		}
	}
	panic("no workload " + name) // the parent named it
}

func (w workload) frequency() int {
	if w.hz == 0 {
		return 100
	}
	return w.hz
}

// way is a way to watch a workload.
type way struct {
	name  string
	begin func(context.Context, *target) (watch, error)
}

// watch is a profiler at work.
type watch struct {
	processes   []*campaign.Process // of the profiler, for its cost
	attach      time.Duration       // until all of it samples; 0: not known
	descriptors int                 // of the profiler's
	end         func() error
}

// engine is one of ccmapd's.
type engine struct {
	name  string
	flags []string
}

const (
	again      = "nothing, again"
	perfEvery  = "`perf record -a -g`"
	perfAnchor = "`perf record -a`"
)

// ways returns the ways to watch a workload. A quick run has an engine one way alone.
func (b *bench) ways(w workload) []way {
	all := []way{{again, func(context.Context, *target) (watch, error) { return watch{end: func() error { return nil }}, nil }}}
	for _, e := range b.engines {
		flags := e.flags
		if w.hz != 0 {
			flags = append(flags[:len(flags):len(flags)], "-i", (time.Second / time.Duration(w.hz)).String(), "--tune=false", "--max-overhead=0", "--max-host-overhead=0")
		}
		all = append(all, way{e.name, b.ccmapd(flags)})
		if w.copies > 1 || b.Quick {
			continue
		}
		all = append(all, way{e.name + " `--hits 0`", b.ccmapd(append(flags[:len(flags):len(flags)], "--hits=0"))})
		if without := withoutVerdicts(b.help()); without != "" {
			all = append(all, way{e.name + " `" + without + "`", b.ccmapd(append(flags[:len(flags):len(flags)], without))})
		}
	}
	if w.copies > 1 {
		all = append(all, way{served, b.serve})
	}
	if _, err := exec.LookPath("perf"); err == nil && b.Quick {
		all = append(all, way{perfEvery, b.perf(w, false, "-g")})
	} else if err == nil {
		all = append(all, way{"`perf record -p -g`", b.perf(w, true, "-g")}, way{perfEvery, b.perf(w, false, "-g")}, way{perfAnchor, b.perf(w, false)})
	}
	if w.hz != 0 {
		return all // runtime/pprof has no other rate
	}
	return append(all, way{"`runtime/pprof`", func(_ context.Context, t *target) (watch, error) {
		return watch{end: func() error { return t.tell("end") }}, t.tell("begin")
	}})
}

// help is the help of 'ccmapd attach'.
func (b *bench) help() string {
	text, err := exec.Command(b.Ccmapd, "attach", "--help").Output()
	if err != nil {
		return ""
	}
	return string(text)
}

var (
	engineFlag  = regexp.MustCompile(`--engine [^\n]*`)
	engineName  = regexp.MustCompile(`\b(bpf|perf)\b`)
	verdictFlag = regexp.MustCompile(`--(watchpoints|verdicts)\b`)
)

// enginesIn returns the engines that a help names, in its order. A command without the flag
// has one.
func enginesIn(help string) []engine {
	var all []engine
	for _, name := range engineName.FindAllString(engineFlag.FindString(help), -1) {
		e := engine{"ccmapd, " + name, []string{"--engine=" + name}}
		if !slices.ContainsFunc(all, func(o engine) bool { return o.name == e.name }) {
			all = append(all, e)
		}
	}
	if len(all) == 0 {
		return []engine{{name: "ccmapd"}}
	}
	return all
}

// withoutVerdicts returns the flag that turns watchpoints off, if a help has one.
func withoutVerdicts(help string) string {
	switch verdictFlag.FindString(help) {
	case "--watchpoints":
		return "--watchpoints=0"
	case "--verdicts":
		return "--verdicts=0"
	}
	return ""
}

// findEngines finds the engines that the command has and this machine permits.
func (b *bench) findEngines(ctx context.Context) error {
	t, err := start(ctx, find("busy"))
	if err != nil {
		return err
	}
	defer t.stop()
	for _, e := range enginesIn(b.help()) {
		s, err := b.Attach(ctx, t.processes[0].PID(), "", b.Path("probe.pb.gz"), e.flags...)
		if err == nil {
			_, err = s.End()
		}
		if err != nil {
			reason, _, _ := strings.Cut(strings.TrimSpace(err.Error()), "\n")
			b.remarks = append(b.remarks, e.name+", which is not permitted here: "+reason)
			continue
		}
		b.engines = append(b.engines, e)
	}
	if len(b.engines) == 0 {
		return errors.New(strings.Join(b.remarks, "; "))
	}
	if _, err := exec.LookPath("perf"); err != nil {
		b.remarks = append(b.remarks, "`perf record`, which is not installed")
	}
	return nil
}

// sampleable is CPU time of a target that no profiler can miss, at 100 Hz.
const sampleable = 500 * time.Millisecond

// ccmapd attaches to every process. It ends with an error if it took no sample of any, in
// a time that no profiler can miss.
func (b *bench) ccmapd(flags []string) func(context.Context, *target) (watch, error) {
	return func(ctx context.Context, t *target) (w watch, err error) {
		sessions := make([]*campaign.Session, 0, len(t.processes))
		before := t.cpu()
		w.end = func() error { return endAll(sessions, t.cpu()-before) }
		for i, p := range t.processes {
			began := time.Now()
			s, err := b.Attach(ctx, p.PID(), "", b.Path(fmt.Sprintf("%d.pb.gz", i)), flags...)
			if err != nil {
				return w, errors.Join(err, w.end())
			}
			sessions, w.processes = append(sessions, s), append(w.processes, s.Process)
			w.attach = max(w.attach, time.Since(began))
			open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.PID()))
			if err != nil {
				return w, errors.Join(err, w.end())
			}
			w.descriptors += len(open)
		}
		return w, nil
	}
}

func endAll(sessions []*campaign.Session, used time.Duration) error {
	var samples uint64
	var all error
	for _, s := range sessions {
		r, err := s.End()
		samples, all = samples+r.Source.Samples, errors.Join(all, err)
	}
	if all == nil && samples == 0 && used > sampleable {
		return errors.New("ccmapd has taken no sample")
	}
	return all
}

// perfBegins is the longest time that perf may take to begin.
const perfBegins = time.Minute

// perf runs perf record, on the target's processes or on all. It returns when perf samples,
// which takes perf a second.
func (b *bench) perf(w workload, attached bool, flags ...string) func(context.Context, *target) (watch, error) {
	return func(ctx context.Context, t *target) (watch, error) {
		data, control, answer := b.Path("perf.data"), b.Path("perf.control"), b.Path("perf.answer")
		args := append([]string{"perf", "record", "-q", "-e", "cpu-clock", "-F", fmt.Sprint(w.frequency()), "-o", data,
			"--delay=-1", "--control=fifo:" + control + "," + answer}, flags...)
		if attached {
			args = append(args, "-p", strings.Join(t.pids(), ","))
		} else {
			args = append(args, "-a")
		}
		began := time.Now()
		enabled, err := enable(control, answer)
		if err != nil {
			return watch{}, err
		}
		p, err := campaign.Launch{Command: args}.Start(ctx)
		if err != nil {
			return watch{}, err
		}
		w := watch{processes: []*campaign.Process{p}, end: func() error {
			p.Cmd.Process.Signal(syscall.SIGINT)
			err := p.Wait() // perf ends by the signal
			if wrote, missing := os.Stat(data); missing != nil || wrote.Size() == 0 {
				return errors.Join(errors.New("perf record has written nothing"), err)
			}
			return os.Remove(data)
		}}
		select {
		case err = <-enabled:
		case <-ctx.Done():
			err = ctx.Err()
		case <-time.After(perfBegins):
			err = errors.New("no answer")
		}
		if err != nil {
			return watch{}, errors.Join(fmt.Errorf("perf record does not begin: %w", err), w.end())
		}
		w.attach = time.Since(began)
		return w, nil
	}
}

// enable asks perf by a pair of pipes to begin. The channel gets its answer.
func enable(control, answer string) (<-chan error, error) {
	var files [2]*os.File
	for i, name := range []string{control, answer} {
		err1 := os.RemoveAll(name)
		err2 := syscall.Mkfifo(name, 0o600)
		file, err3 := os.OpenFile(name, os.O_RDWR, 0) // does not wait for the other side
		if err := errors.Join(err1, err2, err3); err != nil {
			return nil, err
		}
		files[i] = file
	}
	if _, err := files[0].WriteString("enable\n"); err != nil {
		return nil, err
	}
	enabled := make(chan error, 1)
	go func() {
		_, err := bufio.NewReader(files[1]).ReadString('\n')
		files[0].Close()
		files[1].Close()
		enabled <- err
	}()
	return enabled, nil
}
