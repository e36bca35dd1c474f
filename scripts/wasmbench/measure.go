package main

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// spent is what a run took: on the wall, and of its own thread's processor. The
// second leaves out what other processes and other threads of this one do.
type spent struct{ wall, cpu time.Duration }

// measure runs a program once.
func measure(ctx context.Context, p program, b build, rounds int) (spent, error) {
	runtime.GC() // what earlier runs left
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

// calibrate returns how many rounds of a program take about so long.
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
