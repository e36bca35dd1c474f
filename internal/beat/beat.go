// Package beat has the moments at which periodic work is done that need not be done at any moment of its own.
// They are the multiples of a period, the same for all that ask. So the work of many goroutines wakes the
// process once, and not once for each: a wake-up costs some five switches of its threads (Go 1.26).
//
// Any goroutine may call Until.
package beat

import "time"

// Until returns how long it is from now to the next beat: a period at most, and a sixteenth of one more
// right before a beat, for timers that end early.
func Until(now time.Time, period time.Duration) time.Duration {
	return now.Add(period / 16).Truncate(period).Add(period).Sub(now)
}

// Of returns the beat that comes before now, or at now. Its work is done once in each period, if it is done
// whenever that changes.
func Of(now time.Time, period time.Duration) time.Time {
	return now.Add(period / 16).Truncate(period)
}
