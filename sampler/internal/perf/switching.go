package perf

import (
	"fmt"
	"strings"
	"time"

	"github.com/ccmapd/ccmapd/sampler"
)

// A target whose threads switch often is where events on threads do worst. The kernel stops a thread's event
// before it switches, and starts it after: the time between is on the target's clock, and no sample stands for it.
// And each switch pays for that, so that the events are on in windows only.
const (
	// manySwitches is how many switches in a second of the target's CPU time matter: fewer lose 2 % or so.
	manySwitches = 2000
	// mostLost is the most CPU time that a switch loses: 2.4 to 16.5 µs were measured on Linux 6.18 (Xeon,
	// virtual). If more is missing, switches are not all of the reason.
	mostLost = 20 * time.Microsecond
	// fewWindows is the part of the time from which on pauses are worth a word.
	fewWindows = 0.9
)

// switching says what switches have cost the profile: unseen is why no sample stands for a part of the CPU time, and
// warning why there are few samples. better says how to get a better engine; empty: there is none.
func switching(st sampler.Stats, switches uint64, better string) (unseen, warning string) {
	used := st.Loss.Clock.Seconds()
	if used <= 0 || float64(switches)/used < manySwitches {
		return "", ""
	}
	often := "its threads switch some " + thousands(float64(switches)/used) + " times in each second of CPU time, and "
	cure := ""
	if better != "" {
		cure = ": " + better
	}
	if lost := st.Loss.Unaccounted; lost > 0 && lost <= time.Duration(switches)*mostLost {
		unseen = often + "the timers of engine perf stand still in a switch" + cure
	}
	if on := st.Overhead.Sampled; on > 0 && on < fewWindows {
		warning = fmt.Sprintf("%seach switch pays for the timers of engine perf, which are on for %.0f %% of the time therefore: there are fewer samples, and each weighs more%s", often, 100*on, cure)
	}
	return unseen, warning
}

// thousands prints a number from 1,000 to 999,999, rounded.
func thousands(n float64) string { return fmt.Sprintf("%d,000", int(min(n, 999e3)/1e3+0.5)) }

// joined joins warnings, of which some may be empty.
func joined(a, b string) string { return strings.Trim(a+"; "+b, "; ") }
