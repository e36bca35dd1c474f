package campaign

import (
	"context"
	"errors"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/queue"
	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/sampler/engine"
)

// Source is a source of one of the engines.
type Source interface {
	sampler.Source
	sampler.Tunable
}

// Engine is the name of an engine that opens sources.
type Engine string

// Perf samples threads, BPF samples CPUs.
const (
	Perf Engine = engine.Perf
	BPF  Engine = engine.BPF
)

// open attaches to a process.
func (e Engine) open(ctx context.Context, o sampler.ProcessOptions) (Source, error) {
	choice, err := engine.Attach(ctx, engine.All(), string(e), o)
	if err != nil {
		return nil, err
	}
	return choice.Source.(Source), nil
}

// Sample samples a process in this one, and hands over every sample with the table of its
// names. It samples while do runs. If the process ends first, do's context is done.
func (e Engine) Sample(ctx context.Context, o sampler.ProcessOptions, do func(context.Context, Source) error, take func(*ccmap.Sample, *ccmap.Names)) error {
	names, q := ccmap.NewNames(), queue.New(queue.Options{})
	o.Sink = sampler.Sink{Queue: q, Names: names}
	source, err := e.open(ctx, o)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done, did := make(chan error, 1), make(chan error, 1)
	go func() {
		_, err := source.Run(ctx)
		done <- err
	}()
	go func() {
		defer cancel()
		did <- do(ctx, source)
	}()
	for {
		select {
		case <-q.Ready():
			q.Drain(func(s *ccmap.Sample) { take(s, names) })
		case err := <-done:
			q.Drain(func(s *ccmap.Sample) { take(s, names) })
			cancel()
			return errors.Join(err, <-did)
		}
	}
}
