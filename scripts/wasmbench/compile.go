package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/ccmapd/ccmapd/sampler/wasm/rewrite"
)

// compileCost is what a module costs before it runs.
type compileCost struct {
	speed  float64 // of rewriting, in MB/s of the original
	growth float64 // of the module's bytes, as rewritten/plain
	time   float64 // of wazero's compilation, as rewritten/plain
}

func (c compileCost) print(program string) {
	fmt.Printf("BenchmarkCompile/guest=%s 1 %.1f MB/s %.4f bytes/plain %.4f compile/plain\n", program, c.speed, c.growth, c.time)
}

// rewriteCost rewrites a module as often as fits into a fifth of a second, and
// keeps the best: small modules take microseconds.
func rewriteCost(binary []byte) (c compileCost, err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	best := time.Duration(1<<63 - 1)
	for end := time.Now().Add(200 * time.Millisecond); time.Now().Before(end); {
		start := threadTime()
		m, err := rewrite.Rewrite(binary, rewrite.Options{MultiValue: true, TailCalls: true, Marks: true, Calls: true})
		if err != nil {
			return compileCost{}, fmt.Errorf("rewrite: %w", err)
		}
		best = min(best, threadTime()-start)
		c.growth = float64(len(m.Binary)) / float64(len(binary))
	}
	c.speed = float64(len(binary)) / 1e6 / best.Seconds()
	return c, nil
}

// compareCompilation compiles the module as it is and rewritten, in turn for half a
// second, and compares the best: small modules take microseconds. Where one of each
// takes longer, the compilations for the runs must do.
func compareCompilation(ctx context.Context, binary []byte, plain, polls time.Duration) (float64, error) {
	if plain > 200*time.Millisecond {
		return ratio(polls, plain), nil
	}
	for end := time.Now().Add(500 * time.Millisecond); time.Now().Before(end); {
		if err := errors.Join(compileAgain(ctx, binary, buildPlain, &plain), compileAgain(ctx, binary, buildPolls, &polls)); err != nil {
			return 0, err
		}
	}
	return ratio(polls, plain), nil
}

// compileAgain lowers best to what compiling takes this time.
func compileAgain(ctx context.Context, binary []byte, with builder, best *time.Duration) error {
	b, err := with(ctx, binary)
	*best = min(*best, b.took)
	return errors.Join(err, b.close(ctx))
}
