package sampler

import (
	"time"

	"golang.org/x/sys/unix"
)

// Clock tells CLOCK_MONOTONIC, which is the time of samples. That is what
// time.Since goes by, too (nanotime1 in runtime/sys_linux_amd64.s, Go 1.26), at the
// price of a call into the vDSO; only its zero is the runtime's own. Any goroutine
// may use it.
type Clock struct {
	base time.Time
	ns   int64 // CLOCK_MONOTONIC at base
}

// NewClock returns a clock that can be asked.
func NewClock() Clock {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic(err) // the clock is there since Linux 2.6 (clock_gettime(2))
	}
	return Clock{base: time.Now(), ns: t.Nano()}
}

// Now returns CLOCK_MONOTONIC, ns.
func (c *Clock) Now() int64 { return c.ns + int64(time.Since(c.base)) }
