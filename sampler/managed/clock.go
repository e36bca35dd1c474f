package managed

import (
	"time"

	"golang.org/x/sys/unix"
)

// clock tells CLOCK_MONOTONIC. That is what time.Since goes by, too (nanotime1 in
// runtime/sys_linux_amd64.s, Go 1.26), at the price of a call into the vDSO; only
// its zero is the runtime's own.
type clock struct {
	base time.Time
	ns   int64 // CLOCK_MONOTONIC at base
}

func newClock() clock {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic(err) // the clock is there since Linux 2.6 (clock_gettime(2))
	}
	return clock{base: time.Now(), ns: t.Nano()}
}

// now returns CLOCK_MONOTONIC, ns.
func (c *clock) now() int64 { return c.ns + int64(time.Since(c.base)) }

// processTime returns the CPU time that this process has used, by all its threads.
func processTime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &t); err != nil {
		panic(err) // the clock is there since Linux 2.6 (clock_gettime(2))
	}
	return time.Duration(t.Nano())
}
