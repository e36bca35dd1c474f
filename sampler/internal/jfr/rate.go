package jfr

import (
	"fmt"
	"time"
)

// mostAllocations is how many events of allocations the JVM may tell in a second. Each costs the thread that
// allocates a walk of its stack.
const mostAllocations = 5000

// rate counts events by the second, as they tell the time themselves.
type rate struct {
	second int64 // since 1970
	count  int64 // events in it
	most   int64 // of any second
	limit  int64 // events a second
}

// add notes an event at a time, ns since 1970. Those of a thread may come late: they count in the second that is
// counted.
func (r *rate) add(at int64) {
	if second := at / int64(time.Second); second > r.second {
		r.second, r.count = second, 0
	}
	r.count++
	r.most = max(r.most, r.count)
}

func (r *rate) isTooHigh() bool { return r.most > r.limit }

// warning says that the JVM picks allocations, and what that means.
func (r *rate) warning(interval time.Duration) string {
	return fmt.Sprintf("%d allocations of a second needed a buffer, more than %d: since then the JVM picks at most %d a second, and the shares of large and small objects are wrong",
		r.most, r.limit, perSecond(interval))
}
