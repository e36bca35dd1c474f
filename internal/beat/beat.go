// Package beat has the moments at which periodic work is done that need not be done at any moment of its own.
// They are the multiples of a period since the full hour in which the process began, the same for all that
// ask. So the work of many goroutines wakes the process once, and not once for each: a wake-up costs some five
// switches of its threads (Go 1.26).
//
// Beats follow the monotonic clock: a wall clock that is set moves none of them.
//
// Any goroutine may call the functions.
package beat

import "time"

// begin is the first beat of every period: a full hour by the wall clock, with a monotonic reading.
var begin = fullHour(time.Now())

func fullHour(now time.Time) time.Time { return now.Add(-now.Round(0).Sub(now.Truncate(time.Hour))) }

// Until returns how long it is from now to the next beat: a period at most, and a sixteenth of one more
// right before a beat, for timers that end early.
func Until(now time.Time, period time.Duration) time.Duration {
	return Of(now, period).Add(period).Sub(now)
}

// Of returns the beat that comes before now, or at now. Its work is done once in each period, if it is done
// whenever that changes. The beat has a monotonic reading where now has one.
func Of(now time.Time, period time.Duration) time.Time {
	early := period / 16
	passed := (now.Sub(begin) + early) % period
	if passed < 0 { // before begin: testing/synctest starts in 2000
		passed += period
	}
	return now.Add(early - passed)
}
