package perfevent

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Until the next change samples stand for the period that the kernel had been told.
// The first one after a beginning stands for what its period is a part of, and the
// first one after another change for what the change has cut off, too.
func TestTimerWeighs(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	e := Timer{now: periods{each: 4 * ms, first: 10 * ms, left: 3}}
	e.before[3] = periods{each: 20 * ms, until: 1000}
	redrawn := periods{each: 11 * ms, left: 1}
	check := func(at, count int64, want time.Duration, wantNext periods) {
		t.Helper()
		if w, next := e.weigh(at, count, func() periods { return redrawn }); w != want || next != wantNext {
			t.Errorf("sample at %d: %v, then %+v; want %v, %+v", at, w, next, want, wantNext)
		}
	}
	none := periods{}
	check(500, 0, 20*ms, none) // of the event that this one has replaced
	check(2000, 100, 10*ms, periods{each: 10 * ms, left: 2})
	e.follow(periods{each: 10 * ms, left: 2}.after(e.now, 100+int64(7*ms)), 3000)
	check(2001, 100+int64(4*ms), 4*ms, none)   // it was in the ring
	check(3500, 100+int64(17*ms), 13*ms, none) // the change has cut off 3 ms
	check(3600, 100+int64(27*ms), 10*ms, none) // no redraw so soon
	late := 3000 + int64(leastDraw)
	check(late+1, 100+int64(37*ms), 10*ms, redrawn)

	e.follow(redrawn.after(e.now, 100+int64(60*ms)), late+2) // samples in the kernel were left out
	check(late+3, 100+int64(71*ms), 14*ms, none)

	e.follow(periods{each: 5 * ms, first: 9 * ms}, late+4)
	e.follow(periods{each: ms, first: 2 * ms}, late+6)
	check(late+3, 0, 11*ms, none)
	check(late+5, 0, 9*ms, none) // the change came before the first sample was seen
	check(late+5, 0, 5*ms, none)
	check(late+7, 0, 2*ms, periods{each: 2 * ms, left: -1})
}

// grid is what a number between 0 and 1 is, in the middle of equal parts.
func grid(yield func(float64) bool) {
	const parts = 1000
	for i := range parts {
		if !yield((float64(i) + 0.5) / parts) {
			return
		}
	}
}

// No period is shorter than the shortest interval. Elsewhere they are the interval
// on average, and none is near it.
func TestPeriods(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		interval := time.Duration(rapid.Int64Range(int64(LeastInterval), int64(time.Minute)).Draw(t, "interval"))
		var sum float64
		for number := range grid {
			p := period(interval, number)
			off := math.Abs(float64(p)/float64(interval) - 1)
			if p < LeastInterval || p > LeastInterval && (off < 0.999*leastSpread || off > 1.001*MostSpread) {
				t.Fatalf("with %v: %v", interval, p)
			}
			sum += float64(p) / 1000
		}
		if interval > 2*LeastInterval && math.Abs(sum/float64(interval)-1) > 1e-3 {
			t.Errorf("with %v the mean is %v", interval, time.Duration(sum))
		}
	})
}

// Threads shorter than an interval are seen as long as they live, on average over
// first periods.
func TestShortThreadsAreSeen(t *testing.T) {
	t.Parallel()
	const interval = 10 * time.Millisecond
	for _, life := range []time.Duration{LeastInterval * 3 / 2, interval / 20, interval / 10, interval / 5, interval / 2, interval - 1, interval * 5 / 4} {
		var seen, draws float64
		for number := range grid {
			p := periods{each: period(interval, number)}
			for part := range grid {
				e := p.begun(part)
				for at := e.each; at < life; at += p.each {
					seen += float64(e.weigh(0))
					e.each = p.each
				}
				draws++
			}
		}
		if got := seen / draws / float64(life); math.Abs(got-1) > 0.01 {
			t.Errorf("of threads that live for %v, %.3f of the time is seen", life, got)
		}
	}
}

// kernelTimer is the kernel's part of an event: it fires whenever the thread has run for a
// period, and forgets what had run when the period is changed (__perf_event_period,
// Linux 6.18).
type kernelTimer struct {
	count, due int64 // CPU time of the thread; when it fires
	period     int64
}

func (k *kernelTimer) change(period time.Duration) {
	k.period, k.due = int64(period), k.count+int64(period)
}

// run lets a thread run for some CPU time, and returns the counts at its samples.
func (k *kernelTimer) run(d int64) (fired []int64) {
	for end := k.count + d; ; k.due += k.period {
		if k.due > end {
			k.count = end
			return fired
		}
		k.count = k.due
		fired = append(fired, k.due)
	}
}

// watched is a thread that runs for some time in each cycle, its event, and a drainer
// that handles samples after a lag.
type watched struct {
	interval         time.Duration
	cycle, busy, lag int64 // ns
	random           *rand.Rand
	changes          int
}

func (w *watched) draw() periods {
	return periods{each: period(w.interval, w.random.Float64()), left: redrawAfter}
}

// sample runs the thread for so many cycles and hands over each sample's count and
// weight. Times are wall time, in which the thread begins each cycle running.
func (w *watched) sample(cycles int, take func(count int64, weight time.Duration)) (used int64) {
	e := Timer{now: w.draw().begun(w.random.Float64())}
	var k kernelTimer
	k.change(e.now.each)
	handle := func(count, at, now int64) {
		weight, next := e.weigh(at, count, w.draw)
		take(count, weight)
		if next.each != 0 {
			w.changes++
			k.change(next.each)
			e.follow(next.after(e.now, k.count), now)
		}
	}
	for c := range int64(cycles) {
		began, start := c*w.cycle, k.count
		wall := func(count int64) int64 { return began + count - start }
		for k.count-start < w.busy {
			fired := k.run(min(k.due-k.count, w.busy-(k.count-start)))
			if len(fired) == 0 {
				continue
			}
			// It runs on until the sample is handled, or sleeps.
			late := k.run(min(w.lag, w.busy-(k.count-start)))
			now := wall(fired[0]) + w.lag
			for _, count := range append(fired, late...) {
				handle(count, wall(count), now)
			}
		}
	}
	return k.count
}

// TestRedrawsLoseNoTime: the weights are the CPU time, though each change of the
// period discards what ran since the sample, for a thread that is always busy, for
// one that runs 1 ms in 100, and for one whose samples are handled late.
func TestRedrawsLoseNoTime(t *testing.T) {
	t.Parallel()
	const ms, span = int64(time.Millisecond), int64(20 * time.Minute)
	for name, w := range map[string]watched{
		"busy":        {interval: 10 * time.Millisecond, cycle: span, busy: span, lag: ms / 20},
		"late":        {interval: 10 * time.Millisecond, cycle: span, busy: span, lag: 8 * ms},
		"very late":   {interval: 10 * time.Millisecond, cycle: span, busy: span, lag: 33 * ms},
		"1 ms in 100": {interval: 10 * time.Millisecond, cycle: 100 * ms, busy: ms, lag: ms / 5},
		"short":       {interval: time.Millisecond, cycle: 10 * ms, busy: 7 * ms, lag: ms / 2},
		"shortest":    {interval: LeastInterval, cycle: span / 20, busy: span / 20, lag: ms},
	} {
		w.random = rand.New(rand.NewPCG(8, 11))
		var seen time.Duration
		used := w.sample(int(span/w.cycle), func(_ int64, weight time.Duration) { seen += weight })
		if off := float64(seen)/float64(used) - 1; math.Abs(off) > 0.003 || w.changes < 50 {
			t.Errorf("%s: weights are %v of %v, %+.2f %%, with %d changes", name, seen, time.Duration(used), 100*off, w.changes)
		}
	}
}

// TestNoLockstep samples a thread whose work alternates between two phases, in 400
// runs of 10 s each. The share of the first has no bias. It spreads less than that of
// independent samples where the phases are as round as the interval, and not much more
// in the worst case, a cycle some 10 % longer or shorter.
func TestNoLockstep(t *testing.T) {
	t.Parallel()
	const ms = float64(time.Millisecond)
	for phases, most := range map[[2]float64]float64{{5, 5}: 1, {10, 10}: 1, {3.1, 7.3}: 1, {20, 20.1}: 1, {5.5, 5.5}: 3, {2.4, 7}: 3} {
		const runs = 400
		w := watched{interval: 10 * time.Millisecond, cycle: 10e9, busy: 10e9, lag: int64(ms / 20), random: rand.New(rand.NewPCG(8, 12))}
		whole := phases[0] + phases[1]
		truth := phases[0] / whole
		var sum, squares float64
		for range runs {
			var first, all time.Duration
			offset := w.random.Float64() * whole
			w.sample(1, func(count int64, weight time.Duration) {
				all += weight
				if math.Mod(float64(count)/ms+offset, whole) < phases[0] {
					first += weight
				}
			})
			z := (float64(first)/float64(all) - truth) / math.Sqrt(truth*(1-truth)/1000)
			sum += z
			squares += z * z
		}
		bias, variance := sum/runs, squares/runs
		t.Logf("%v ms: bias %.3f σ, variance %.2f of the binomial", phases, bias, variance)
		if math.Abs(bias) > 0.25 || variance > most {
			t.Errorf("%v ms: the share is off by %.2f σ on average, and its variance is %.2f of the binomial", phases, bias, variance)
		}
	}
}
