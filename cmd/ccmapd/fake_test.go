package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/sampler/engine"
)

// fakeEngine attaches to every process and takes 30 samples of 10 ms: 20 of
// main.work below main.main, 10 of main.main alone. It catches as many calls of
// main.work as it may in a second. Then the target ends, or the source waits to be
// stopped.
func fakeEngine(waits bool) engine.Engine {
	return engine.Engine{Name: "fake", Open: func(_ context.Context, a sampler.ProcessOptions) (engine.Source, error) {
		return &fakeSource{ProcessOptions: a, waits: waits}, nil
	}}
}

// refusingEngine cannot attach.
func refusingEngine(name string, err error) engine.Engine {
	return engine.Engine{Name: name, Open: func(context.Context, sampler.ProcessOptions) (engine.Source, error) { return nil, err }}
}

type fakeSource struct {
	sampler.ProcessOptions
	engine   string // "": fake
	build    string
	embedded bool
	waits    bool
	probes   int
	tuned    atomic.Int64
	targets  int // methods that the calls it catches reach; 0: main.work
}

func (s *fakeSource) Run(ctx context.Context) (sampler.Ending, error) {
	r := s.Sink.Queue.Ring()
	defer r.Close()
	for i := range 30 {
		names := []string{"main.work", "main.main"}
		r.Push(s.stack(names[min(i/20, 1):]))
	}
	for i := range int(s.HitBudget) {
		hit := s.stack([]string{"main.work", "main.main"})
		if s.targets > 0 {
			hit = s.stack([]string{fmt.Sprint("main.work", i%s.targets), "main.main"})
		}
		hit.Hit, hit.Weight = true, 0
		r.Push(hit)
	}
	r.Publish()
	if s.waits {
		<-ctx.Done()
		return sampler.Ending{Reason: "stopped"}, nil
	}
	return sampler.Ending{Reason: "target exited with code 0", Exited: true}, nil
}

func (s *fakeSource) stack(names []string) *ccmap.Sample {
	sample := &ccmap.Sample{Thread: 1, Time: monotonic(), Weight: int64(10 * time.Millisecond), Fresh: ccmap.FreshUnknown}
	for _, name := range names {
		id := s.Sink.Names.Intern(ccmap.Method{Name: name})
		sample.Frames = append(sample.Frames, ccmap.Frame{Method: id, Offset: 1})
	}
	return sample
}

// monotonic returns CLOCK_MONOTONIC in ns.
func monotonic() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic(err)
	}
	return t.Nano()
}

func (s *fakeSource) SetInterval(d time.Duration) error { s.tuned.Store(int64(d)); return nil }
func (s *fakeSource) Close() error                      { return nil }

func (s *fakeSource) Stats() sampler.Stats {
	return sampler.Stats{
		Counts: sampler.Counts{
			sampler.Samples: 30, sampler.Caught: uint64(max(s.HitBudget, 0)), sampler.Watchpoints: uint64(s.probes),
		},
		Threads: 1, Interval: cmp.Or(time.Duration(s.tuned.Load()), s.Interval),
	}
}

func (s *fakeSource) Info() sampler.Info {
	info := sampler.Info{
		Target: ccmap.Target{PID: s.PID, Executable: "/usr/bin/fake", BuildID: s.build, Runtime: "go1.26.8"},
		Engine: cmp.Or(s.engine, "fake"), Embedded: s.embedded, Sink: s.Sink,
	}
	if !s.embedded {
		info.NoKernelTime = "this is a test"
	}
	return info
}

// result is what a command has printed, and its exit code.
type result struct {
	code           int
	stdout, stderr string
}

// runEngines runs a command line in this process, with the given engines.
func runEngines(t *testing.T, all []engine.Engine, args ...string) result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	root := newRoot(&environment{stdin: strings.NewReader(""), stdout: &stdout, stderr: &stderr, engines: all})
	code := execute(root, args)
	return result{code, stdout.String(), stderr.String()}
}

// run runs a command line in this process, with its own engines, and returns the exit code.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	return execute(newRoot(&environment{stdin: stdin, stdout: stdout, stderr: stderr, engines: engine.All()}), args)
}
