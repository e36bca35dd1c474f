package perf

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/activation"
	"github.com/ccmapd/ccmapd/internal/hang"
	"github.com/ccmapd/ccmapd/internal/indirect"
	"github.com/ccmapd/ccmapd/internal/perfevent"
	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/queue"
	"github.com/ccmapd/ccmapd/sampler"
	"golang.org/x/sys/unix"
)

// drainer turns the records of all rings into samples. One goroutine owns it:
// that of Open, and then that of Run.
type drainer struct {
	pid     int
	log     *slog.Logger
	sink    sampler.Sink
	threads *threads
	counts  *counts
	target  *atomic.Pointer[ccmap.Target]

	pidfd   int
	watch   *hang.Watch // of reads of the target's memory and files
	waiter  *perfevent.Waiter
	rings   []*perfevent.Ring
	runtime process.Runtime
	calls   indirect.Code // of the runtime
	taker   *taker
	judge   *activation.Judge
	catcher *indirect.Catcher
	local   *queue.Ring
	ledger  *process.Ledger
	sample  perfevent.Sample // reused

	stale    bool          // code was mapped since the symbols were loaded
	deepen   bool          // a stack did not fit into its sample
	ended    string        // why the session is over; empty while it is not
	replaced bool          // the target runs another program, which is not sampled
	poll     time.Duration // how soon to look into bulk rings again
	pending  bool          // samples were pushed since the last hand-over
	pacer    pacer         // of drains
	handed   time.Time     // when samples were last handed over
	checked  time.Time     // when the target was last looked over
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
	// handOver is how long samples may wait in the queue's ring for others, so
	// that the consumer is not woken for each.
	handOver = 50 * time.Millisecond
	// checkEvery is how often the target's threads and the CPUs are looked
	// over, in case a record was lost.
	checkEvery = time.Second
)

// run drains until ctx is done or the target has ended. Its caller closes the drainer.
func (d *drainer) run(ctx context.Context) (sampler.Ending, error) {
	d.runtime.Bound(ctx)
	for ctx.Err() == nil && d.ended == "" {
		exited, err := d.waiter.Wait(d.patience())
		if err != nil {
			return sampler.Ending{}, err
		}
		if exited {
			d.ended = process.ExitReason(d.pid, d.pidfd)
		}
		d.turn(ctx)
	}
	d.finish(lastDrain)
	if d.ended != "" {
		return sampler.Ending{Reason: d.ended, Exited: true}, nil
	}
	return sampler.Ending{Reason: "stopped"}, nil
}

// patience is how long to wait for records.
func (d *drainer) patience() time.Duration {
	patience := min(checkEvery, max(d.catcher.Patience(), pace))
	switch {
	case d.threads.bulk():
		return min(patience, d.poll)
	case d.pending:
		return min(patience, handOver)
	}
	return patience
}

// turn drains once, at the pace, and hands samples over when it is time.
func (d *drainer) turn(ctx context.Context) {
	if rest := d.pacer.rest(time.Now()); rest > 0 {
		time.Sleep(rest)
	}
	now := time.Now()
	if d.drain(ctx) {
		d.pending, d.poll = true, minPoll
	} else {
		d.poll = min(max(2*d.poll, minPoll), maxPoll)
	}
	d.catcher.Turn(now)
	if d.pending && now.Sub(d.handed) >= handOver {
		d.local.Publish()
		d.handed, d.pending = now, false
		d.balance(d.ledger.Read())
	}
	d.check(ctx, now)
	d.account()
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

// check does what need not be done for every sample.
func (d *drainer) check(ctx context.Context, now time.Time) {
	d.judge.Review(now)
	if d.deepen {
		d.deepen = false
		if bytes, longer := d.threads.lengthenDump(); longer {
			d.log.Info("stacks are deep: samples carry more of them", "bytes", bytes)
		}
	}
	if d.stale {
		d.refresh(ctx, now)
	}
	if now.Sub(d.checked) >= checkEvery {
		d.checked = now
		d.runtime.Renew(now)
		d.lookOver(ctx)
	}
}

// refresh takes up code that was mapped since the symbols were loaded.
func (d *drainer) refresh(ctx context.Context, now time.Time) {
	looked, err := d.runtime.Refresh(ctx, now)
	if err != nil && !process.Gone(err) {
		d.log.Debug("look for new code", "error", err)
	}
	d.stale = !looked
}

// lookOver finds threads that have begun or ended, of which no record told, and
// CPUs that came online.
func (d *drainer) lookOver(ctx context.Context) {
	for _, tid := range d.threads.ended() {
		d.forget(tid)
	}
	if err := d.threads.scan(ctx); err != nil && !process.Gone(err) {
		d.log.Debug("look for new threads", "error", err)
	}
	d.balance(d.ledger.Read())
	if err := d.openRings(); err != nil {
		d.log.Debug("look for new CPUs", "error", err)
	}
}

// account publishes what the judge has done.
func (d *drainer) account() {
	d.counts.armed.Store(d.judge.Armed())
}

// balance publishes how much of the CPU time at a reading of the clock no sample
// stands for, now that the samples until then are taken. Where there is no
// reading, because the target is no more, the last one stands. After an exec it is
// another program's.
func (d *drainer) balance(now process.CPUTimes, ok bool) {
	if ok && !d.replaced {
		loss := d.ledger.Balance(now)
		d.counts.unaccounted.Store(&loss)
	}
}

// lastDrain bounds how long the samples that are left in the rings may take when a
// session ends. They take some ms, unless the target is hostile or the machine busy;
// the rest is lost.
const lastDrain = 250 * time.Millisecond

// finish ends sampling, and then takes the samples that are left in the rings, for as long
// as its patience lasts.
func (d *drainer) finish(patience time.Duration) {
	now, ok := d.ledger.Read()
	d.threads.stop()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	d.runtime.Bound(ctx)
	d.drain(ctx)
	d.balance(now, ok)
	d.catcher.Finish()
	d.settle()
	d.account()
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
	d.local.Publish()
	full := d.threads.detachAll()
	d.counts.lost.Store(max(full, d.counts.lost.Load()) + left)
}

// close releases everything. It may be called on a drainer that is only partly
// made, and more than once.
func (d *drainer) close() {
	d.threads.detachAll()
	if d.judge != nil {
		d.judge.Close()
	}
	if d.catcher != nil {
		d.catcher.Close()
	}
	for _, r := range d.rings {
		r.Close()
	}
	d.rings = nil
	if d.waiter != nil {
		d.waiter.Close()
		d.waiter = nil
	}
	if d.runtime != nil {
		d.runtime.Close()
	}
	if d.pidfd >= 0 {
		unix.Close(d.pidfd)
		d.pidfd = -1
	}
}
