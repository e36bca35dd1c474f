package store

import (
	"maps"
	"math"
	"slices"
	"time"

	"github.com/ccmapd/ccmapd/internal/store/internal/deltalog"
)

// ledger says which frames of the log are in no file. It is made of the log alone, frame by frame, and goes on with
// what is appended. One goroutine at a time may call its methods.
type ledger struct {
	accounts map[uint64]*account // by stream
	filings  map[string][]mark   // by path: announced, and neither confirmed nor void
	order    int                 // of the next account
	unread   int                 // frames whose head makes no sense
}

// account is a stream in the log.
type account struct {
	order  int
	key    Key
	frames map[uint64]logged // by number
	last   uint64            // number of any frame that there was
	filed  uint64            // frames up to it are in files, or given up
}

// logged is a frame with counts.
type logged struct {
	at       deltalog.Position
	whole    bool
	after    uint64
	replaces []mark // by a whole
	process  Process
	from, to time.Time
	commit   time.Time // of the build's source; zero: not known
}

func newLedger() *ledger {
	return &ledger{accounts: make(map[uint64]*account), filings: make(map[string][]mark)}
}

// account returns the account of a stream.
func (l *ledger) account(stream uint64) *account {
	a := l.accounts[stream]
	if a == nil {
		a = &account{order: l.order, frames: make(map[uint64]logged)}
		l.accounts[stream] = a
		l.order++
	}
	return a
}

// read notes a frame. [ledger.settle] must follow the last one.
func (l *ledger) read(at deltalog.Position, f deltalog.Frame) {
	h, err := parseHead(f.Head)
	if err != nil {
		l.unread++
		return
	}
	l.note(at, f.Kind, f.Stream, f.Seq, &h)
}

func (l *ledger) note(at deltalog.Position, kind deltalog.Kind, stream, seq uint64, h *head) {
	switch kind {
	case kindDelta, kindWhole:
		a := l.account(stream)
		a.key, a.last = h.key(), max(a.last, seq)
		e := logged{
			at: at, whole: kind == kindWhole, after: h.After, process: h.process(),
			from: time.Unix(0, h.From).UTC(), to: time.Unix(0, h.To).UTC(), commit: h.commit(),
		}
		if e.whole {
			e.replaces = h.Marks
		}
		a.frames[seq] = e
	case kindFiling:
		l.filings[h.Path] = h.Marks
	case kindVoid:
		delete(l.filings, h.Path)
	case kindFiled:
		delete(l.filings, h.Path)
		l.file(h.Marks)
	case kindDropped:
		l.file(h.Marks)
	}
}

// file notes that the frames of marks are in a file, or given up.
func (l *ledger) file(marks []mark) {
	for _, m := range marks {
		if a := l.accounts[m.Stream]; a != nil {
			a.filed = max(a.filed, m.Seq)
		}
	}
}

// settle forgets the frames that are not needed, and streams without any.
func (l *ledger) settle() {
	for _, a := range l.accounts {
		l.file(a.settle())
	}
	for stream, a := range l.accounts {
		a.dropFiled()
		if len(a.frames) == 0 {
			delete(l.accounts, stream)
		}
	}
}

// settle forgets frames that a later one makes void, and returns what wholes replace: the last one, and those that it
// stands for.
func (a *account) settle() (replaced []mark) {
	least := uint64(0) // of the numbers that count
	void := uint64(math.MaxUint64)
	for _, n := range slices.Backward(slices.Sorted(maps.Keys(a.frames))) {
		f := a.frames[n]
		if n >= void {
			delete(a.frames, n)
			continue
		}
		void = min(n, f.after+1)
		if f.whole {
			replaced = append(replaced, f.replaces...)
		}
		if n < least {
			delete(a.frames, n)
		} else if f.whole {
			least = n
		}
	}
	return replaced
}

// dropFiled forgets frames that are in files.
func (a *account) dropFiled() {
	maps.DeleteFunc(a.frames, func(n uint64, _ logged) bool { return n <= a.filed })
}

// clone returns a ledger that later frames do not change.
func (l *ledger) clone() *ledger {
	other := &ledger{accounts: make(map[uint64]*account, len(l.accounts)), filings: maps.Clone(l.filings), order: l.order, unread: l.unread}
	for stream, a := range l.accounts {
		copied := *a
		copied.frames = maps.Clone(a.frames)
		other.accounts[stream] = &copied
	}
	return other
}

// oldest returns the number of the oldest segment with a frame that is needed, or next.
func (l *ledger) oldest(next uint64) uint64 {
	for _, a := range l.accounts {
		for _, f := range a.frames {
			next = min(next, f.at.Segment)
		}
	}
	return next
}

// stream has the frames of a stream in the log.
type stream struct {
	id     uint64
	order  int
	last   uint64   // number
	frames []logged // by number
}

// byKey returns the streams of each key, in the order of the log.
func (l *ledger) byKey() map[Key][]stream {
	all := make(map[Key][]stream)
	for id, a := range l.accounts {
		t := stream{id: id, order: a.order, last: a.last}
		for _, n := range slices.Sorted(maps.Keys(a.frames)) {
			t.frames = append(t.frames, a.frames[n])
		}
		all[a.key] = append(all[a.key], t)
	}
	for _, streams := range all {
		slices.SortFunc(streams, func(x, y stream) int { return x.order - y.order })
	}
	return all
}
