package perf

import (
	"context"
	"time"

	"github.com/ccmapd/ccmapd/internal/hang"
	"github.com/ccmapd/ccmapd/internal/perfevent"
	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/internal/taker"
	"github.com/ccmapd/ccmapd/sampler"
)

// drainer turns the records of all rings into moments for its taker. One goroutine owns
// it: the goroutine of Open, and then the goroutine of Run.
type drainer struct {
	*taker.Taker
	threads *threads

	watch  *hang.Watch // of reads of the target's memory and files
	waiter *perfevent.Waiter
	rings  []*perfevent.Ring
	sample perfevent.Sample // reused
	moment process.Moment   // reused

	poll    time.Duration // how soon to look into bulk rings again
	pacer   pacer         // of drains
	windows windows
	checked time.Time // when the target was last looked over
}

const (
	// pace is the least time between two drains, on average over some: a single
	// record is handled at once, so that a new thread is sampled soon and a sample is
	// fresh. It bounds the drainer's wake-ups at short intervals.
	pace = 500 * time.Microsecond
	// paceAhead is how many drains may follow on each other without a pause.
	paceAhead = 8
	// minPoll is the least time between two looks into bulk rings, maxPoll the most.
	minPoll = time.Millisecond
	maxPoll = 10 * time.Millisecond
	// checkEvery is how often the target's threads and the CPUs are looked
	// over, in case a record was lost.
	checkEvery = time.Second
)

// run drains until ctx is done or the target has ended. Its caller closes the drainer.
func (d *drainer) run(ctx context.Context) (sampler.Ending, error) {
	d.Runtime.Bound(ctx)
	for ctx.Err() == nil && d.Ended == "" {
		exited, err := d.waiter.Wait(d.patience())
		if err != nil {
			return sampler.Ending{}, err
		}
		if exited {
			d.Ended = process.ExitReason(d.PID, d.Pidfd)
		}
		d.turn(ctx)
	}
	d.finish(taker.LastTake)
	return d.Ending(), nil
}

// patience is how long to wait for records.
func (d *drainer) patience() time.Duration {
	patience := min(checkEvery, max(min(d.Patience(), d.windows.patience(time.Now())), pace))
	if d.threads.bulk() {
		return min(patience, d.poll)
	}
	return patience
}

// turn drains once, at the pace, and does the other work that is due.
func (d *drainer) turn(ctx context.Context) {
	if rest := d.pacer.rest(time.Now()); rest > 0 {
		time.Sleep(rest)
	}
	now := time.Now()
	if d.drain(ctx) {
		d.poll = minPoll
	} else {
		d.poll = min(max(2*d.poll, minPoll), maxPoll)
	}
	d.Turn(ctx, now)
	d.followWindows(ctx)
	if d.WantsMore() {
		if bytes, longer := d.threads.lengthenDump(); longer {
			d.Log.Info("stacks are deep: samples carry more of them", "bytes", bytes)
		}
	}
	if now.Sub(d.checked) >= checkEvery {
		d.checked = now
		d.lookOver(ctx)
	}
}

// pacer spaces drains out: each takes a pace from the time that was saved up.
type pacer struct {
	saved time.Duration // up to paceAhead paces
	at    time.Time     // when it was reckoned
}

// rest returns how long to wait with a drain that is due now.
func (p *pacer) rest(now time.Time) time.Duration {
	p.saved = min(p.saved+now.Sub(p.at), paceAhead*pace) - pace
	p.at = now
	if p.saved >= 0 {
		return 0
	}
	rest := -p.saved
	p.saved, p.at = 0, now.Add(rest)
	return rest
}

// mostTrim lets weights become smaller alone, by what a hypervisor has taken. Time that no sample stands
// for, as at switches between threads, is shown, and not spread over the samples.
const mostTrim = 1

// lookOver finds CPUs that came online, and threads that have begun or ended without a
// record.
func (d *drainer) lookOver(ctx context.Context) {
	for _, tid := range d.threads.ended() {
		d.forget(tid)
	}
	if err := d.threads.scan(ctx); err != nil && !process.Gone(err) {
		d.Log.Debug("look for new threads", "error", err)
	}
	d.Balance()
	if d.windows.always() {
		d.Trim(mostTrim, d.threads.losses())
	}
	if err := d.openRings(); err != nil {
		d.Log.Debug("look for new CPUs", "error", err)
	}
}

// finish ends sampling, and then takes the samples that are left in the rings, for as long
// as its patience lasts.
func (d *drainer) finish(patience time.Duration) {
	d.Finish(patience, d.threads.stop, func(ctx context.Context) { d.drain(ctx) })
	d.settle()
}

// abandon ends sampling where a read of the target's memory does not return. The rest
// in the rings is lost, because samples need such reads.
func (d *drainer) abandon() {
	d.threads.stop()
	d.settle()
}

// settle hands the last samples over and detaches. It counts the samples that are
// lost: those left in the rings, and those that found a ring full and that no later
// record told of.
func (d *drainer) settle() {
	left := d.discard()
	d.Local.Publish()
	full := d.threads.detachAll()
	d.Lost.Store(max(full, d.Lost.Load()) + left)
}

// close releases everything. It may be called on a drainer that is only partly
// made, and more than once.
func (d *drainer) close() {
	d.threads.detachAll()
	for _, r := range d.rings {
		r.Close()
	}
	d.rings = nil
	if d.waiter != nil {
		d.waiter.Close()
		d.waiter = nil
	}
	if d.Taker != nil {
		d.Taker.Close()
	}
}
