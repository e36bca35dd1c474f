package main

import (
	"context"
	"errors"
	"time"
)

// The ways, as parts of a benchmark's name.
const (
	wayPlain    = "way=plain" // against plain again: the noise
	wayPolls    = "way=polls"
	way50       = "way=50ms"
	way10       = "way=10ms"
	way1        = "way=1ms"
	wayListener = "way=listener"
)

// way is how a guest is run beside the plain run.
type way struct {
	name     string // as part of a benchmark's name
	build    build
	pairs    int
	shorter  int           // how many times shorter runs are
	interval time.Duration // of the sampled build
}

// buildSet is a program in all ways.
type buildSet struct {
	plain, polls, sampled, listener build
	cost                            compileCost
}

// buildAll compiles a module in all ways. Whatever comes of it, the set is to be
// closed.
func buildAll(ctx context.Context, binary []byte) (s buildSet, err error) {
	if s.cost, err = rewriteCost(binary); err != nil {
		return s, err
	}
	for _, one := range []struct {
		to   *build
		with builder
	}{
		{&s.plain, buildPlain}, {&s.polls, buildPolls}, {&s.sampled, buildSampled}, {&s.listener, buildListener},
	} {
		if *one.to, err = one.with(ctx, binary); err != nil {
			return s, err
		}
	}
	s.cost.time, err = compareCompilation(ctx, binary, s.plain.took, s.polls.took)
	return s, err
}

func (s buildSet) ways(c config) []way {
	return []way{
		{name: wayPlain, build: s.plain, pairs: c.pairs, shorter: 1},
		{name: wayPolls, build: s.polls, pairs: c.pairs, shorter: 1},
		{name: way50, build: s.sampled, pairs: c.pairs, shorter: 1, interval: 50 * time.Millisecond},
		{name: way10, build: s.sampled, pairs: c.pairs, shorter: 1, interval: 10 * time.Millisecond},
		{name: way1, build: s.sampled, pairs: c.pairs, shorter: 1, interval: time.Millisecond},
		{name: wayListener, build: s.listener, pairs: c.listeners, shorter: 4},
	}
}

func (s buildSet) close(ctx context.Context) error {
	return errors.Join(s.plain.close(ctx), s.polls.close(ctx), s.sampled.close(ctx), s.listener.close(ctx))
}
