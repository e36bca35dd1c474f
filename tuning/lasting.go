package tuning

import "strings"

// Resumed is the reason of the first interval of a session that begins where an earlier one of the same program had
// settled.
const Resumed = "an earlier run of this build had settled there"

const (
	arrow   = ": interval " // stands in the reason of every change
	settles = "settled to " // begins the reasons of the slowdown
)

// Lasting reports whether the interval of a reason fits the next session of the same program: the tuner has decided on
// it, now or before. An interval that is longer because this profile has settled does not fit the next one, which
// begins with nothing.
func Lasting(reason string) bool {
	return reason == Resumed || strings.Contains(reason, arrow) && !strings.HasPrefix(reason, settles)
}
