package bpf

import "time"

// A sample that is chosen for a verdict on the next one wakes ccmapd at once. That takes some 50 µs of ccmapd's
// time, and setting the watch 10 µs of the target's.
const (
	// chosenPerSecond is how many samples of a target are chosen in a second, at the default budget.
	chosenPerSecond = 50
	// leastChosen is the least share of the samples that is chosen then.
	leastChosen = 0.1
	// defaultBudget is the part of a core that verdicts may take.
	defaultBudget = 0.003
)

// choice follows the rate of samples. A target that gets little time on a busy machine has few samples, and
// few of its watches are set in time: there all samples can be chosen.
type choice struct {
	budget float64 // part of a core that verdicts may take
	taken  int     // samples since the last look
	looked time.Time
}

// share returns the share of the samples that is chosen at a rate, samples a second.
func (c *choice) share(rate float64) float64 {
	share := leastChosen
	if rate > 0 {
		share = max(share, min(chosenPerSecond/rate, 1))
	}
	return min(share*c.budget/defaultBudget, 1)
}

// look returns the share by the rate since the last look. It is unknown at the first one, and while nothing
// was sampled.
func (c *choice) look(now time.Time) (share float64, known bool) {
	elapsed, taken := now.Sub(c.looked), c.taken
	first := c.looked.IsZero()
	c.looked, c.taken = now, 0
	if first || elapsed <= 0 || taken == 0 {
		return 0, false
	}
	return c.share(float64(taken) / elapsed.Seconds()), true
}
