package hotspot

import (
	"context"
	"maps"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/ehframe"
	"github.com/ccmapd/ccmapd/internal/gosym"
	"github.com/ccmapd/ccmapd/internal/process"
)

// native is the code of the target's libraries, with a cache of the rows of their call frame
// information. It belongs to the engine's goroutine.
type native struct {
	table *gosym.Table
	rows  map[uint64]*ehframe.Row // by address; nil where the file has no row

	next    time.Time     // when the memory map may be read again
	spent   time.Duration // on loading, until next was set
	renewed time.Time     // when look-ups were last given time to load for
}

const (
	// maxRows bounds the cache of rows, which can have 1 KB. A full cache is emptied: what is
	// hot comes back at once.
	maxRows = 1 << 13
	// stepsPerSample bounds the look-ups of one sample, in steps of some ns. Beyond the bound
	// addresses are unknown: the target has made its files so that they take long.
	stepsPerSample = 1 << 22
	// loadShare is the part of the time that loading symbols may take, one in so many,
	// and loadPause the least time between two loads: the target decides how often it
	// maps code, and how much.
	loadShare = 20
	loadPause = 20 * time.Millisecond
)

func openNative(ctx context.Context, pid int, o gosym.Options) (*native, error) {
	o.Native = true
	table, err := gosym.Open(ctx, pid, o)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	return &native{table: table, rows: make(map[uint64]*ehframe.Row), next: now.Add(loadPause), renewed: now}, nil
}

// load loads what samples ask of the library at an address. The first ones do, and now the
// kernel may verify an engine's program meanwhile.
func (n *native) load(addr uint64) {
	n.table.CallFrame(addr)
	n.table.SymbolEntry(addr)
}

// limitSteps begins a sample.
func (n *native) limitSteps() { n.table.Limit(stepsPerSample) }

// holds reports whether an address is in a library's code.
func (n *native) holds(pc uint64) bool { return n.table.Kind(pc) != gosym.KindUnknown }

// entry returns where the function at an address begins; the address itself where that is not
// known.
func (n *native) entry(pc uint64) uint64 {
	if entry, ok := n.table.SymbolEntry(pc); ok {
		return entry
	}
	return pc
}

// beginners are the functions of glibc that begin a thread, by all names that its symbol tables have for them
// (glibc 2.31 to 2.41).
var beginners = map[string]bool{
	"start_thread": true, "clone": true, "__clone": true, "clone3": true, "__clone3": true, "__GI___clone": true, "__GI___clone3": true,
	"__clone_internal": true,
}

// begins reports whether the function at an address may be one that begins a thread: most systems have no symbols
// of these.
func (n *native) begins(pc uint64) bool {
	name, ok := n.table.SymbolName(pc)
	return !ok || beginners[name]
}

// row returns the call frame information of an instruction.
func (n *native) row(pc uint64) (*ehframe.Row, bool) {
	r, ok := n.rows[pc]
	if !ok {
		if len(n.rows) >= maxRows {
			clear(n.rows)
		}
		r, _ = n.table.CallFrame(pc)
		if !n.table.Exceeded() {
			n.rows[pc] = r
		}
	}
	return r, r != nil
}

// bytes returns the memory of the rows, at most.
func (n *native) bytes() int64 {
	const of = 1 << 10
	return of * int64(len(n.rows))
}

// ending says why climbing through C functions stopped.
type ending uint8

const (
	stepped    ending = iota // it has not
	endAtRoot                // nothing has called the outermost function
	endOfStack               // the next return address is not in the copied piece
	endLost                  // no information leads on
	endOutside               // the frame is in no library's code
)

// maxFrames bounds the frames of one stack.
const maxFrames = 1 << 12

// climb appends the addresses of C functions to pcs, from the frame on, and goes up until the
// frame is in no library. exact says that the frame's PC is no return address. slot is where the
// innermost function has its return address; 0 where that is unknown.
func (n *native) climb(f *ehframe.Frame, stack view, pcs []uint64, exact bool) (_ []uint64, slot uint64, end ending) {
	for len(pcs) < maxFrames {
		pc := f.PC()
		if !n.holds(pc) {
			return pcs, slot, endOutside
		}
		pcs = append(pcs, pc)
		if exact, end = n.up(f, exact, stack); end != stepped {
			return pcs, slot, end
		}
		if len(pcs) == 1 {
			slot = slotUnder(f)
		}
	}
	return pcs, slot, endLost
}

// up makes f the caller's frame. exact says that a frame's PC is no return address.
func (n *native) up(f *ehframe.Frame, exact bool, stack view) (next bool, end ending) {
	pc := f.PC()
	if !exact {
		pc--
	}
	row, ok := n.row(pc)
	if !ok {
		if n.byFramePointer(f, stack) {
			return false, stepped
		}
		return false, endLost
	}
	n.table.Spend(row.Steps())
	if n.table.Exceeded() {
		return false, endLost
	}
	how := row.Up(f, stack.word)
	if row.Born(f, how, n.row) {
		return false, endAtRoot
	}
	switch how {
	case ehframe.AtRoot:
		return false, endAtRoot
	case ehframe.Unreadable:
		return false, endOfStack
	case ehframe.Lost:
		return false, endLost
	}
	return row.Signal, stepped
}

// byFramePointer goes up from a function without call frame information, if the frame pointer
// shows a frame that was called from a library.
func (n *native) byFramePointer(f *ehframe.Frame, stack view) bool {
	bp, ok := f.Get(ehframe.BP)
	if !ok || bp&7 != 0 || bp < f.SP() {
		return false
	}
	next, ok1 := stack.word(bp)
	pc, ok2 := stack.word(bp + 8)
	if !ok1 || !ok2 || !n.holds(pc) {
		return false
	}
	*f = (&process.Registers{IP: pc, SP: bp + 16, BP: next}).Frame()
	return true
}

// frames appends the frames of C functions, whose addresses climb has found.
func (n *native) frames(pcs []uint64, names *ccmap.Names, dst []ccmap.Frame) []ccmap.Frame {
	return n.table.Stack(pcs, names, dst)
}

// refresh takes up libraries that were mapped since, unless it did so a moment ago.
func (n *native) refresh(ctx context.Context, now time.Time) (looked bool, err error) {
	if now.Before(n.next) {
		return false, nil
	}
	changed, err := n.table.Refresh(ctx)
	if changed {
		clear(n.rows)
	}
	took := n.table.LoadTime() - n.spent
	n.spent = n.table.LoadTime()
	n.next = time.Now().Add(max(loadPause, (loadShare-1)*took))
	return true, err
}

// renew gives look-ups their share of the time since the last call, to load for.
func (n *native) renew(now time.Time) {
	share := now.Sub(n.renewed) / loadShare
	n.renewed = now
	if stale := n.table.Renew(share); stale != nil {
		maps.DeleteFunc(n.rows, func(pc uint64, _ *ehframe.Row) bool { return stale(pc) })
	}
}
