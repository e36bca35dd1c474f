package managed

import (
	"time"

	"golang.org/x/sys/unix"
)

// processTime returns the CPU time that this process has used, by all its threads.
func processTime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &t); err != nil {
		panic(err) // the clock is there since Linux 2.6 (clock_gettime(2))
	}
	return time.Duration(t.Nano())
}
