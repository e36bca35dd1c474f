package family

import (
	"time"

	"github.com/ccmapd/ccmapd/internal/process"
)

// reaped is the CPU time of a target's children that have ended, and of theirs. The kernel adds it up as they are
// waited for (cutime and cstime of proc_pid_stat(5)), also for those that nobody could sample: it has no name for them.
// A child that ends after its parent, or that nobody waits for, is missing.
type reaped struct {
	before, now time.Duration
	died        bool // somebody has, since the last look
	looked      time.Time
}

// begin leaves out the children that have ended before.
func (r *reaped) begin(pid int) {
	if stat, err := process.ReadStat(pid); err == nil {
		r.before, r.now = stat.OfChildren(), stat.OfChildren()
	}
}

// look looks again, a moment after somebody has died.
func (r *reaped) look(pid int, now time.Time) {
	if r.died && now.Sub(r.looked) >= reapedAfter/2 {
		r.died, r.looked = false, now
		r.lookNow(pid)
	}
}

// lookNow looks again. Of a process that is gone the last look counts.
func (r *reaped) lookNow(pid int) {
	if stat, err := process.ReadStat(pid); err == nil {
		r.now = max(r.now, stat.OfChildren())
	}
}

// time returns the CPU time since the begin.
func (r *reaped) time() time.Duration { return r.now - r.before }
