package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// pair is a plain run and another, as ratios other/plain.
type pair struct{ cpu, wall float64 }

// row is the results of a program.
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

// measurePair runs both. Which one is first alternates.
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

// spent is the time of a run: wall time, and CPU time of its own thread. The second
// leaves out other processes and other threads of this one.
type spent struct{ wall, cpu time.Duration }

// measure runs a program once.
func measure(ctx context.Context, p program, b build, rounds int) (spent, error) {
	runtime.GC() // garbage of earlier runs
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	start, before := time.Now(), threadTime()
	err := p.run(ctx, b, rounds)
	return spent{time.Since(start), threadTime() - before}, err
}

// threadTime returns the processor time of the calling thread.
func threadTime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		panic(err) // Linux has the clock
	}
	return time.Duration(t.Nano())
}

// calibrate returns the number of a program's rounds that take a length of time.
func calibrate(ctx context.Context, p program, b build, length time.Duration) (int, error) {
	for rounds := 1; ; rounds *= 2 {
		s, err := measure(ctx, p, b, rounds)
		if err != nil {
			return 0, fmt.Errorf("calibrate: %w", err)
		}
		if s.cpu >= length/2 {
			return max(1, int(float64(rounds)*float64(length)/float64(s.cpu))), nil
		}
	}
}
