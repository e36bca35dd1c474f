package main

import (
	"context"
	"fmt"
	"io"
	"regexp"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/scripts/campaign"
)

var isReady = regexp.MustCompile(`^ready$`)

// buildClocked builds the program that measures its work by its own clocks.
func (f *field) buildClocked(ctx context.Context) error {
	return campaign.Build(ctx, f.Path("clocked"), "./scripts/field/testdata/clocked")
}

// sampleClocked runs the program, samples it to its end with an engine, and hands over the samples with
// the names of their frames. The program waits until it is sampled. It returns the
// program's last line. The runtime does not preempt its goroutine: that would put one more
// function on top.
func (f *field) sampleClocked(ctx context.Context, engine campaign.Engine, o sampler.ProcessOptions, take func(*ccmap.Sample, []string), arguments ...string) (string, error) {
	out, in := io.Pipe()
	p, err := campaign.Launch{
		Command: append([]string{f.Path("clocked")}, arguments...),
		Env:     []string{"GODEBUG=asyncpreemptoff=1"},
		Ready:   isReady, Stdin: out,
	}.Start(ctx)
	if err != nil {
		return "", err
	}
	o.PID, o.HitBudget = p.PID(), -1
	err = engine.Sample(ctx, o, func(ctx context.Context, _ campaign.Source) error {
		fmt.Fprintln(in)
		in.Close() // else the process would never end
		<-ctx.Done()
		return nil
	}, func(s *ccmap.Sample, names *ccmap.Names) {
		var frames []string
		for _, frame := range s.Frames {
			frames = append(frames, names.At(frame.Method).Name)
		}
		take(s, frames)
	})
	if err != nil {
		p.Stop()
		return "", err
	}
	return p.LastLine(), p.Wait()
}

// after returns the time of a campaign until now, for the log.
func after(began time.Time) time.Duration { return time.Since(began).Round(time.Second) }
