package main

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"strings"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/queue"
	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/sampler/perf"
)

// clocked is a program that measures its work by its own clocks (testdata/clocked),
// and its samples.
type clocked struct {
	*process
	in io.WriteCloser
}

var isReady = regexp.MustCompile(`^ready$`)

// buildClocked builds the program.
func (f *field) buildClocked(ctx context.Context) error {
	return command(exec.CommandContext(ctx, "go", "build", "-o", f.path("clocked"), "./scripts/field/testdata/clocked"))
}

// startClocked starts the program, which waits until it is sampled. The runtime does not
// preempt its goroutine: that would put one more function on top.
func (f *field) startClocked(ctx context.Context, arguments ...string) (*clocked, error) {
	out, in := io.Pipe()
	p, err := f.start(ctx, launch{
		command: append([]string{f.path("clocked")}, arguments...),
		env:     []string{"GODEBUG=asyncpreemptoff=1"},
		ready:   isReady, stdin: out,
	})
	return &clocked{process: p, in: in}, err
}

// sample lets the program work, samples it to its end, and hands over the samples
// with the names of their frames.
func (c *clocked) sample(ctx context.Context, o perf.Options, take func(*ccmap.Sample, []string)) error {
	names := ccmap.NewNames()
	q := queue.New(queue.Options{})
	o.PID, o.Sink, o.HitBudget = c.pid(), sampler.Sink{Queue: q, Names: names}, -1
	source, err := perf.Open(ctx, o)
	if err != nil {
		c.stop()
		return err
	}
	done := make(chan error, 1)
	go func() {
		_, err := source.Run(ctx)
		done <- err
	}()
	fmt.Fprintln(c.in)
	c.in.Close() // else the process would never end
	named := func(s *ccmap.Sample) {
		var frames []string
		for _, frame := range s.Frames {
			frames = append(frames, names.At(frame.Method).Name)
		}
		take(s, frames)
	}
	for {
		select {
		case <-q.Ready():
			q.Drain(named)
		case err := <-done:
			q.Drain(named)
			if err != nil {
				return err
			}
			return c.wait()
		}
	}
}

// output returns the program's last printed line.
func (c *clocked) output() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	lines := strings.Split(strings.TrimSpace(c.said.String()), "\n")
	return lines[len(lines)-1]
}

// after returns the time of a campaign until now, for the log.
func after(began time.Time) time.Duration { return time.Since(began).Round(time.Second) }
