package perf

import (
	"context"
	"errors"
	"time"

	"github.com/ccmapd/ccmapd/internal/beat"
	"github.com/ccmapd/ccmapd/internal/hang"
	"github.com/ccmapd/ccmapd/internal/perfevent"
	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/sampler/internal/taker"
)

// drainer turns the records of a target into moments for its taker. One goroutine owns it: the
// goroutine of Open, and then the goroutine of Run.
type drainer struct {
	*taker.Taker
	threads *threads
	rings   *Rings
	owned   bool // the rings are this target's alone, and its goroutine is their reader
	seat    seat // see there

	watch   *hang.Watch      // of reads of the target's memory and files
	records []byte           // that were delivered last; reused
	rest    []byte           // of them, with the one that is being handled
	sample  perfevent.Sample // reused
	moment  process.Moment   // reused
	lost    losses

	windows windows
	checked time.Time // the beat of the last look at the target
}

// records is a drainer as the loop of its session sees it.
type records struct{ d *drainer }

func (r records) Wait() (exited bool, err error) { return r.d.wait(time.Now()) }
func (r records) Turn(ctx context.Context)       { r.d.turn(ctx) }
func (r records) Stop()                          { r.d.threads.stop() }
func (r records) TakeLast(ctx context.Context)   { r.d.takeLast(ctx) }
func (r records) Settle()                        { r.d.settle() }

// checkEvery is how often the target's threads and the CPUs are looked over, in case a record was
// lost.
const checkEvery = time.Second

// wait waits for records, or for other work. It reports whether the target has ended. The reader of shared
// rings wakes all sources up at the beats. Timers of each are for what cannot wait for them.
func (d *drainer) wait(now time.Time) (exited bool, err error) {
	if d.owned {
		patience := min(beat.Until(now, checkEvery), max(min(d.Patience(), d.windows.patience(now)), pace))
		exited, err = d.seat.waiter.Wait(min(patience, d.rings.patience(now)))
		d.rings.look()
		return exited, err
	}
	patience := min(2*checkEvery, d.Catcher.Patience())
	if !d.windows.always() {
		patience = min(patience, d.windows.patience(now))
	}
	exited, err = d.seat.waiter.Wait(max(patience, pace))
	if err == nil && !exited && d.seat.floods.Load() {
		err = errFlood
	}
	return exited, errors.Join(err, d.rings.Err())
}

// turn takes the records that have arrived, and does the other work that is due.
func (d *drainer) turn(ctx context.Context) {
	now := time.Now()
	d.lookAfterLoss()
	d.drainRecords(ctx)
	d.Turn(ctx, now)
	d.followWindows(ctx)
	if d.WantsMore() {
		if bytes, longer := d.threads.lengthenDump(); longer {
			d.Log.Info("stacks are deep: samples carry more of them", "bytes", bytes)
		}
	}
	if at := beat.Of(now, checkEvery); !at.Equal(d.checked) {
		d.checked = at
		d.lookOver(ctx)
	}
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
	if d.lost.missed {
		d.lost.missed, d.lost.full = false, d.threads.lostSoFar()
	}
	d.countLost()
	if d.windows.always() {
		d.Trim(mostTrim, d.threads.losses())
	}
	if err := d.threads.follow(d.rings.ofCPUs()); err != nil {
		d.Log.Debug("look for new CPUs", "error", err)
	}
}

// settle hands the last samples over and detaches. It counts the samples that are
// lost: those left in the rings, and those that found a ring full.
func (d *drainer) settle() {
	for more := true; more; {
		_, more = d.rings.drain()
		d.discard()
	}
	d.Local.Publish()
	d.lost.full = d.threads.detachAll()
	d.countLost()
}

// close releases everything. It may be called on a drainer that is only partly
// made, and more than once.
func (d *drainer) close() {
	d.threads.detachAll()
	d.rings.leave(&d.seat)
	if d.owned {
		d.rings.Close()
	}
	d.rings.unseat(&d.seat)
	if d.Taker != nil {
		d.Taker.Close()
	}
}
