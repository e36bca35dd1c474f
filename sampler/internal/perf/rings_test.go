package perf

import (
	"context"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/perfevent"
	"github.com/ccmapd/ccmapd/internal/testrun"
	"github.com/ccmapd/ccmapd/queue"
	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/sampler/internal/enginetest"
	"github.com/ccmapd/ccmapd/sampler/internal/taker"
)

// sharedRings returns rings for many sources, which are closed after the test with its subtests.
func sharedRings(t testing.TB) *Rings {
	r := NewRings(RingOptions{})
	t.Cleanup(func() {
		if n := len(r.seats); n > 0 {
			t.Errorf("%d sources have not left the rings", n)
		}
		r.Close()
	})
	return r
}

// runSource runs a source beside the test, until stop is called, which returns how it ended.
func runSource(t testing.TB, s *Source) (stop func() sampler.Ending) {
	ctx, cancel := context.WithCancel(context.Background())
	var ending sampler.Ending
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		ending, err = s.Run(ctx)
	}()
	return sync.OnceValue(func() sampler.Ending {
		cancel()
		<-done
		if err != nil {
			t.Error(err)
		}
		return ending
	})
}

// TestSharedLossIsCounted: records of two targets find no room while nobody reads the rings. Of each target,
// the samples taken and those lost are at least as many as its CPU time has intervals.
func TestSharedLossIsCounted(t *testing.T) {
	t.Parallel()
	const interval = time.Millisecond
	r := sharedRings(t)
	targets := make([]*enginetest.Target, 2)
	sources := make([]*Source, len(targets))
	sinks := make([]sampler.Sink, len(targets))
	used := make([]time.Duration, len(targets))
	for i := range targets {
		targets[i] = enginetest.Start(t, enginetest.Build(t, "workload"), "calls", "20", "12")
		sources[i], sinks[i] = enginetest.Attach(t, r.Open, targets[i].PID(), Options{Interval: interval})
		used[i] = -enginetest.CPUTime(t, targets[i].PID())
	}
	stole := testrun.Stolen(t)
	r.draining.Lock()
	for _, g := range targets {
		g.Proceed(t)
	}
	for i, g := range targets {
		used[i] += g.Wait(t)
	}
	stole = testrun.Stolen(t) - stole
	r.draining.Unlock()
	var all uint64
	for i, s := range sources {
		samples, _ := enginetest.Collect(t, s, sinks[i])
		lost := s.Stats().Loss.Source
		all += lost
		if got, least := len(samples)+int(lost), int((used[i]-stole)*9/10/interval); got < least {
			t.Errorf("%d samples and %d lost, want %d for %v", len(samples), lost, least, used[i])
		}
	}
	if all == 0 {
		t.Error("no sample was lost, though nobody drained the rings")
	}
}

// bareDrainer returns a drainer of a process that need not be there.
func bareDrainer(r *Rings, pid uint32) *drainer {
	return &drainer{Taker: &taker.Taker{PID: int(pid)}, rings: r, seat: seat{pid: pid}}
}

// TestLossWithoutCounts: where events do not count the samples that they lose, those that a record tells of
// are one target's, and of no target that is known, all have them. With counts the record counts nothing.
func TestLossWithoutCounts(t *testing.T) {
	t.Parallel()
	const first, second, counting = 1, 2, 3
	r := NewRings(RingOptions{})
	drainers := map[uint32]*drainer{}
	for _, pid := range []uint32{first, second, counting} {
		d := bareDrainer(r, pid)
		d.seat.countsLost = pid == counting
		drainers[pid], r.seats[pid] = d, &d.seat
	}
	told := func(pid uint32, n uint64) {
		body := binary.NativeEndian.AppendUint64(make([]byte, 8), n)
		body = binary.NativeEndian.AppendUint32(body, pid)
		r.deliver(&perfevent.Ring{Next: perfevent.Record{Kind: unix.PERF_RECORD_LOST, Body: append(body, make([]byte, 20)...)}})
	}
	told(first, 5)
	told(99, 7)
	told(counting, 11)
	for pid, want := range map[uint32]uint64{first: 12, second: 7, counting: 0} {
		d := drainers[pid]
		if d.drainRecords(t.Context()); d.Lost.Load() != want || !d.seat.missed.Load() {
			t.Errorf("process %d has lost %d, want %d; told %v", pid, d.Lost.Load(), want, d.seat.missed.Load())
		}
	}
}

// TestInboxBound: records beyond the bound of an inbox are counted as lost, and those within are whole.
func TestInboxBound(t *testing.T) {
	t.Parallel()
	d := bareDrainer(NewRings(RingOptions{}), 1)
	n := perfevent.Record{Kind: 77, Misc: 5, Body: make([]byte, 1<<16-32)}
	added := 0
	for ; d.seat.inbox.Lost() == 0; added++ {
		n.Body[0] = byte(added)
		if first, _ := d.seat.add(added%3, &n, inboxBound(1)); first != (added == 0) {
			t.Fatalf("record %d is the first: %v", added, first)
		}
	}
	d.countLost()
	records := d.seat.inbox.Swap(nil)
	if d.Lost.Load() != 1 || len(records) > maxInbox || len(records) < maxInbox-1<<16 {
		t.Errorf("%d lost, %d bytes are in the inbox", d.Lost.Load(), len(records))
	}
	taken := 0
	for ; len(records) > 0; taken++ {
		var got perfevent.Record
		var ring int
		ring, got, records = next(records)
		if ring != taken%3 || got.Kind != n.Kind || got.Misc != n.Misc || len(got.Body) != len(n.Body) || got.Body[0] != byte(taken) {
			t.Fatalf("record %d of ring %d: %d, %d, %d bytes", taken, ring, got.Kind, got.Misc, len(got.Body))
		}
	}
	if taken != added-1 {
		t.Errorf("%d records of %d were taken", taken, added-1)
	}
}

// TestInboxesShareABound: all inboxes together have a bound, however many there are.
func TestInboxesShareABound(t *testing.T) {
	t.Parallel()
	for seats, want := range map[int]int{0: 16 << 20, 1: 16 << 20, 4: 16 << 20, 5: 64 << 20 / 5, 256: 256 << 10} {
		if got := inboxBound(seats); got != want {
			t.Errorf("%d seats: %d bytes, want %d", seats, got, want)
		}
	}
}

// recordOf returns a ring with a record of a process.
func recordOf(kind, pid uint32, bytes int) *perfevent.Ring {
	body := make([]byte, bytes)
	binary.NativeEndian.PutUint32(body, pid)                           // of FORK, EXIT, COMM and MMAP
	binary.NativeEndian.PutUint32(body[len(body)-sampleIDBytes:], pid) // of others
	return &perfevent.Ring{Next: perfevent.Record{Kind: kind, Body: body}}
}

// sampleIDBytes is the length of the fields at the end of a record: pid and tid, time, CPU.
const sampleIDBytes = 24

// TestFullInboxIsLookedAfter: a source whose inbox has no room for the record of an exec, of mapped code or of a
// thread looks for all of them.
func TestFullInboxIsLookedAfter(t *testing.T) {
	t.Parallel()
	r := newRings(nil)
	d := bareDrainer(r, 1)
	r.seats[1] = &d.seat
	d.seat.inbox.Add(nil, make([]byte, inboxBound(1)), inboxBound(1))
	for kind, want := range map[uint32]bool{
		unix.PERF_RECORD_SAMPLE: false, unix.PERF_RECORD_COMM: true, unix.PERF_RECORD_EXIT: true, unix.PERF_RECORD_FORK: true, unix.PERF_RECORD_MMAP: true,
	} {
		before := d.seat.inbox.Lost()
		r.post(&d.seat, recordOf(kind, 1, 64))
		if missed := d.seat.missed.Swap(false); missed != want || d.seat.inbox.Lost() != before+1 {
			t.Errorf("record %d is missed: %v, want %v; %d found no room", kind, missed, want, d.seat.inbox.Lost()-before)
		}
	}
}

// TestTellsTooMuch: records that are not samples are counted for each target and second, and samples are not.
func TestTellsTooMuch(t *testing.T) {
	t.Parallel()
	const loud, quiet, bytes = 1, 2, 4 << 10
	r := NewRings(RingOptions{})
	seats := map[uint32]*seat{loud: {pid: loud}, quiet: {pid: quiet}}
	r.seats = seats
	enough := mostTold/(bytes+recordHead) + 1
	for i := range 2 * enough {
		if i == enough-1 {
			r.forgetTold() // the second is over
		}
		if seats[loud].floods.Load() {
			t.Fatalf("%d records in a second are too many, want %d", i-enough+1, enough)
		}
		r.post(seats[loud], recordOf(unix.PERF_RECORD_MMAP, loud, bytes))
		r.post(seats[quiet], recordOf(unix.PERF_RECORD_SAMPLE, quiet, bytes))
		if i == 2*enough-2 {
			break
		}
	}
	if !seats[loud].floods.Load() || seats[quiet].floods.Load() {
		t.Errorf("loud: %v, quiet: %v", seats[loud].floods.Load(), seats[quiet].floods.Load())
	}
	woken := 0
	for _, s := range r.woken {
		if s == seats[loud] {
			woken++
		}
	}
	if woken != 2 { // for its first record, and for the last
		t.Errorf("it is woken %d times", woken)
	}
}

// TestFlood: a target that makes records as fast as it can ends its own session, and not another one of the
// same rings. Its events are gone then.
func TestFlood(t *testing.T) {
	t.Parallel()
	path := enginetest.Build(t, "workload")
	for name, code := range map[string]string{"names": "", "code": longPath(t)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := sharedRings(t)
			r.mostTold = 64 << 10 // the machine may be busy
			other := enginetest.Start(t, path, "busy", "600000")
			s, _ := enginetest.Attach(t, r.Open, other.PID(), Options{})
			stop := runSource(t, s)
			other.Proceed(t)
			g := enginetest.Start(t, path, "flood", "1", code)
			flood, _ := enginetest.Attach(t, r.Open, g.PID(), Options{})
			g.Proceed(t)
			if _, err := flood.Run(t.Context()); !errors.Is(err, errFlood) {
				t.Errorf("ended with %v", err)
			}
			if r.has(&flood.drainer.seat) {
				t.Error("it has not left the rings")
			}
			enginetest.AwaitSamples(t, s, s.Stats().Counts[sampler.Samples]+10)
			if ending := stop(); ending.Exited {
				t.Errorf("the other session: %+v", ending)
			}
		})
	}
}

// longPath returns the path of a file, nearly as long as a path can be.
func longPath(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), strings.Repeat(strings.Repeat("d", 249)+"/", 15))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "code")
	if err := os.WriteFile(path, make([]byte, os.Getpagesize()), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestSharedTwice: rings have one source of a process at a time.
func TestSharedTwice(t *testing.T) {
	t.Parallel()
	r := sharedRings(t)
	g := enginetest.Start(t, enginetest.Build(t, "workload"), "calls", "1", "1")
	s, _ := enginetest.Attach(t, r.Open, g.PID(), Options{})
	sink := sampler.Sink{Queue: queue.New(queue.Options{}), Names: ccmap.NewNames()}
	if _, err := r.Open(t.Context(), Options{PID: g.PID(), Sink: sink}); err == nil || !strings.Contains(err.Error(), "sampled already") {
		t.Errorf("second source: %v", err)
	}
	s.Close()
	again, _ := enginetest.Attach(t, r.Open, g.PID(), Options{})
	again.Close()
}

// TestReaderFails: rings that cannot be read end their sources, and say why.
func TestReaderFails(t *testing.T) {
	t.Parallel()
	r := sharedRings(t)
	g := enginetest.Start(t, enginetest.Build(t, "workload"), "calls", "1", "1")
	s, _ := enginetest.Attach(t, r.Open, g.PID(), Options{})
	broken := errors.New("no more records")
	r.reader.Stop()
	r.reader.Start(r.waiter, func() error { return broken }, func() { r.ringBusy(true) })
	if _, err := s.Run(t.Context()); !errors.Is(err, broken) || !errors.Is(r.Err(), broken) {
		t.Errorf("run: %v, rings: %v", err, r.Err())
	}
	sink := sampler.Sink{Queue: queue.New(queue.Options{}), Names: ccmap.NewNames()}
	if _, err := r.Open(t.Context(), Options{PID: g.PID(), Sink: sink}); !errors.Is(err, broken) {
		t.Errorf("open: %v", err)
	}
}

// TestManyTargetsAsNobody: an ordinary user with 64 KiB of locked memory samples a dozen programs.
// TestAsNobody runs it.
func TestManyTargetsAsNobody(t *testing.T) {
	if os.Getuid() != nobody {
		t.Skip("run by TestAsNobody")
	}
	const targets = 12
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &before); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: min(64<<10, before.Max), Max: before.Max}); err != nil {
		t.Fatal(err)
	}
	defer unix.Setrlimit(unix.RLIMIT_MEMLOCK, &before)
	r := sharedRings(t)
	sources := make([]*Source, targets)
	for i := range sources {
		g := enginetest.Start(t, enginetest.Build(t, "workload"), "busy", "60000")
		sources[i], _ = enginetest.Attach(t, r.Open, g.PID(), Options{Interval: time.Millisecond})
		defer runSource(t, sources[i])()
		g.Proceed(t)
		defer g.Cmd.Process.Kill()
	}
	for _, s := range sources {
		enginetest.AwaitSamples(t, s, 5)
	}
}
