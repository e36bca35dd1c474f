package taker

import (
	"context"
	"time"

	"github.com/ccmapd/ccmapd/internal/beat"
	"github.com/ccmapd/ccmapd/internal/perfevent"
	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/sampler"
)

const (
	// Samples are handed over at the beats of HandOver (see package beat), so that their
	// consumer is not woken for each, and the consumers of several targets at once.
	HandOver = 200 * time.Millisecond
	// renewEvery is how often look-ups of the runtime get their share of time.
	renewEvery = time.Second
	// lastTake bounds how long an engine may take the moments that are left when a
	// session ends. They take some ms, unless the target is hostile or the machine
	// busy; the rest is lost.
	lastTake = 250 * time.Millisecond

	// bodiesAtOnce bounds the code that is hashed each renewEvery, bytes: 1 to 2 % of a core, until the
	// sampled functions are done. At the end of a session there may be bodiesAtEnd.
	bodiesAtOnce = 48 << 10
	bodiesAtEnd  = 512 << 10
)

// Patience is how long the engine may wait for moments before it must call Turn.
func (t *Taker) Patience() time.Duration {
	if t.pending && !t.due.IsZero() {
		return min(t.Catcher.Patience(), max(time.Until(t.due), 0))
	}
	return t.Catcher.Patience()
}

// wait notes that a sample waits for its hand-over.
func (t *Taker) wait(at uint64) {
	if !t.pending {
		t.pending, t.oldest = true, int64(at)
	}
}

// dueBy reports whether samples wait that were taken before the last beat.
func (t *Taker) dueBy(now time.Time) bool {
	if !t.pending {
		return false
	}
	if t.due.IsZero() {
		taken := now.Add(-time.Duration(max(perfevent.Monotonic()-t.oldest, 0)))
		t.due = beat.Of(taken, HandOver).Add(HandOver)
	}
	return !beat.Of(now, HandOver).Before(t.due)
}

// Turn does the work that is due. Call it after moments were taken, and when the
// patience is over.
func (t *Taker) Turn(ctx context.Context, now time.Time) {
	t.Catcher.Turn(now)
	if t.dueBy(now) {
		t.Local.Publish()
		t.due, t.pending = time.Time{}, false
		t.Balance()
	}
	t.Judge.Review(now)
	t.meterSwitches(now)
	if t.stale {
		t.refresh(ctx, now)
	}
	if now.Sub(t.renewed) >= renewEvery {
		t.renewed = now
		t.countFiles()
		t.Runtime.Renew(now)
		t.unnamed.review(t.Sink.Names, t.Runtime)
		t.hashBodies(bodiesAtOnce)
	}
	t.countWatches()
}

// hashBodies lets the runtime tell the bodies of sampled methods.
func (t *Taker) hashBodies(bytes int) {
	if b, ok := t.Runtime.(process.Bodied); ok {
		b.HashBodies(bytes)
	}
}

// Pause ends watching and the catching of calls until Resume is called. The engine's timers are
// off meanwhile, and moments that are left must have been taken.
func (t *Taker) Pause() {
	t.Judge.Rest()
	t.Catcher.Hold(true)
	t.meter.look(time.Now(), 0, false)
	t.paused = true
}

// Resume ends a pause.
func (t *Taker) Resume() {
	t.Catcher.Hold(false)
	t.meter.look(time.Now(), 0, true)
	t.paused = false
}

// MappedCode notes that the target has mapped code since the symbols were loaded.
func (t *Taker) MappedCode() { t.stale = true }

// WantsMore reports whether a stack did not fit into its moment since the last call.
func (t *Taker) WantsMore() bool {
	wants := t.deepen
	t.deepen = false
	return wants
}

// refresh takes up code that was mapped since the symbols were loaded.
func (t *Taker) refresh(ctx context.Context, now time.Time) {
	looked, err := t.Runtime.Refresh(ctx, now)
	if err != nil && !process.Gone(err) {
		t.Log.Debug("look for new code", "error", err)
	}
	t.stale = !looked
}

// Replace ends the session because the target has replaced itself by another program.
func (t *Taker) Replace() {
	name, err := process.Executable(t.PID)
	if err != nil {
		name = "another program"
	}
	t.Replaced = true
	t.Ended = "target replaced itself by " + name
}

// Ending says how the session ended.
func (t *Taker) Ending() sampler.Ending {
	if t.Ended != "" {
		return sampler.Ending{Reason: t.Ended, Exited: true}
	}
	return sampler.Ending{Reason: "stopped"}
}

// Balance publishes how much of the CPU time so far no sample stands for.
func (t *Taker) Balance() { t.balance(t.ledger.Read()) }

// balance publishes how much of the CPU time at a reading of the clock no sample
// stands for, now that the samples until then are taken. Where there is no
// reading, because the target is no more, the last one stands. After an exec it is
// another program's. In a pause only a look tells of an exec.
func (t *Taker) balance(now process.CPUTimes, ok bool) {
	if t.paused && !t.Replaced && t.Runtime.SameProgram() != nil {
		t.Replace()
	}
	if ok && !t.Replaced {
		loss := t.ledger.Balance(now)
		loss.ClockTick = max(loss.ClockTick, t.Cycle)
		t.counts.unaccounted.Store(&loss)
	}
}

// finish ends sampling and takes the records that are left, for as long as lastTake, and the last of the
// profile that the target's runtime keeps.
func (t *Taker) finish(r Records) {
	now, ok := t.ledger.Read()
	t.Catcher.Finish()
	t.readSwitches(time.Now())
	r.Stop()
	ctx, cancel := context.WithTimeout(context.Background(), lastTake)
	defer cancel()
	t.Runtime.Bound(ctx)
	r.TakeLast(ctx)
	t.balance(now, ok)
	t.countWatches()
	t.unnamed.review(t.Sink.Names, t.Runtime)
	t.hashBodies(bodiesAtEnd)
	t.countFiles()
	t.counting.end()
}
