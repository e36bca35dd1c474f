package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// pair is a plain run and another, as ratios other/plain.
type pair struct{ cpu, wall float64 }

// row is all that was measured of a program.
type row struct {
	program string
	compile compileCost
	ways    map[string][]pair
}

// measureProgram runs all pairs of a program and prints each.
func measureProgram(ctx context.Context, c config, p program) (r row, err error) {
	set, err := buildAll(ctx, p.binary)
	defer func() { err = errors.Join(err, set.close(ctx)) }()
	if err != nil {
		return row{}, err
	}
	r = row{program: p.name, compile: set.cost, ways: map[string][]pair{}}
	r.compile.print(p.name)
	rounds, err := calibrate(ctx, p, set.plain, c.length)
	if err != nil {
		return row{}, err
	}
	for _, w := range set.ways(c) {
		if r.ways[w.name], err = measurePairs(ctx, p, set.plain, w, max(1, rounds/w.shorter)); err != nil {
			return row{}, err
		}
	}
	return r, nil
}

func measurePairs(ctx context.Context, p program, plain build, w way, rounds int) (pairs []pair, err error) {
	if w.interval != 0 {
		if err := w.build.profiler.SetInterval(w.interval); err != nil {
			return nil, err
		}
	}
	for i := range w.pairs {
		one, err := measurePair(ctx, p, plain, w.build, rounds, i%2 == 0)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", w.name, err)
		}
		one.print(p.name, w.name)
		pairs = append(pairs, one)
	}
	return pairs, nil
}

// measurePair runs both; neither kind is always the first.
func measurePair(ctx context.Context, p program, plain, other build, rounds int, plainFirst bool) (pair, error) {
	order := []build{plain, other}
	if !plainFirst {
		order[0], order[1] = other, plain
	}
	var took [2]spent
	for i, b := range order {
		var err error
		if took[i], err = measure(ctx, p, b, rounds); err != nil {
			return pair{}, err
		}
	}
	if !plainFirst {
		took[0], took[1] = took[1], took[0]
	}
	return pair{cpu: ratio(took[1].cpu, took[0].cpu), wall: ratio(took[1].wall, took[0].wall)}, nil
}

func ratio(a, b time.Duration) float64 { return float64(a) / float64(b) }

// print writes the line of a benchmark's run.
func (p pair) print(program, way string) {
	fmt.Printf("BenchmarkGuest/guest=%s/%s 1 %.5f cpu/plain %.5f wall/plain\n", program, way, p.cpu, p.wall)
}
