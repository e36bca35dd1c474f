package goproc

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unsafe"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/gosym"
	"github.com/ccmapd/ccmapd/internal/process"
)

// resting is a goroutine, at rest or not, at an instant.
type resting struct {
	process.Task
	addr   uint64 // of its descriptor
	labels uint64
}

// liveMemory is the target's memory, read many ranges at once: see [process.Live].
type liveMemory interface {
	process.Memory
	ReadMany(addrs []uint64, bufs [][]byte) (int, error)
}

// MostGoroutines bounds how many goroutines are read.
const MostGoroutines = 1 << 20

// Goroutines are all goroutines of a process, read from its memory while it runs, at rest or not. It belongs to the
// engine's goroutine.
//
// The target may write anything to its memory. What is kept for a goroutine has 12 bytes, and no read is longer than
// a range of the list.
type Goroutines struct {
	p      *Process
	memory liveMemory
	layout gosym.Layout
	waits  gosym.WaitLayout
	parts  runtimeParts
	size   int // bytes of a descriptor that are read

	addrs []uint64 // a copy of the runtime's list
	order []int32  // of addrs, by address, without duplicates
	total uint64   // length of the runtime's list

	notes   notes
	own     map[uint64]bool   // by the entry of the first function: a goroutine of the runtime
	outsets map[uint64]outset // by the same

	// scratch
	bytes []byte
	at    []uint64
	bufs  [][]byte
	ok    []bool
	look  look
}

// Goroutines finds the goroutines. It returns [ErrNotYet] for a program that has not begun to run. A version of Go
// whose structures are not known, or do not hold, is refused by an error that wraps [sampler.ErrProgram].
func (p *Process) Goroutines(ctx context.Context, memory process.Live) (*Goroutines, error) {
	if p.code.table == nil {
		return nil, ErrNotYet
	}
	gs := &Goroutines{p: p, memory: memory, own: make(map[uint64]bool), outsets: make(map[uint64]outset)}
	layouts, known := p.code.table.Layouts()
	var waits bool
	if gs.waits, waits = p.code.table.WaitLayout(); !known || !waits {
		return nil, errWaits("%s, want Go 1.20 to 1.27", cmp.Or(p.code.table.GoVersion(), "it is of an unknown version"))
	}
	gs.layout = layouts[0]
	l := gs.layout
	gs.size = bytesOf(l.GStackHi, l.GSchedPC, l.GSchedSP, l.GSyscallSP, l.GSyscallPC, l.GStatus, l.GID, l.GLabels,
		gs.waits.Since, gs.waits.Reason, gs.waits.Seq, gs.waits.StartPC)
	if gs.size > maxLayout {
		return nil, errWaits("a descriptor of %d bytes", gs.size)
	}
	var err error
	if gs.parts, err = p.findParts(ctx, l); err == nil {
		err = gs.prove()
	}
	if errors.Is(err, errNotYet) {
		return nil, fmt.Errorf("%w: %w", ErrNotYet, err)
	}
	return gs, err
}

// ErrNotYet: the program's runtime has not begun yet. Try again.
var ErrNotYet = errors.New("the program has not begun")

// prove reports whether the goroutines that each runtime has of its own wait for the reasons that they must have.
func (gs *Goroutines) prove() error {
	if err := gs.Refresh(); err != nil {
		return errNotYet
	}
	proved, refuted := 0, ""
	gs.Census(func(_ int, g *process.Task) bool {
		name, own := gs.parts.own[g.Start]
		if !own || g.State != process.Waiting {
			return true
		}
		if slices.Contains(reasonsOfOwn[name], gs.text(g.Reason)) {
			proved++
		} else if reason := gs.text(g.Reason); !strings.HasPrefix(reason, "GC ") && reason != "preempted" {
			refuted = fmt.Sprintf("%s waits for %q", name, reason)
		}
		return true
	})
	switch {
	case proved > 0 && refuted == "":
		return nil
	case refuted != "":
		return errWaits("the structures are not those of %s: %s", gs.p.code.table.GoVersion(), refuted)
	}
	return errNotYet
}

// Len returns how many goroutines there were at the last Refresh, dead ones included, up to [MostGoroutines]; all is
// without that bound.
func (gs *Goroutines) Len() (n int, all uint64) { return len(gs.addrs), gs.total }

// Reuses reports that a new goroutine takes the descriptor of the one that has ended last on its processor (gfget and
// gfput of runtime/proc.go, Go 1.20 to 1.27).
func (gs *Goroutines) Reuses() bool { return true }

// Reason returns the runtime's text for what a goroutine waits for; "" if it has none.
func (gs *Goroutines) Reason(t *process.Task) string { return gs.text(t.Reason) }

func (gs *Goroutines) text(n uint8) string {
	if int(n) >= len(gs.parts.reasons) {
		return ""
	}
	return gs.parts.reasons[n]
}

// Refresh takes up goroutines that were added to the list.
func (gs *Goroutines) Refresh() error {
	var length, first [8]byte
	if err := cmp.Or(gs.memory.Read(gs.parts.allglen, length[:]), gs.memory.Read(gs.parts.allgptr, first[:])); err != nil {
		return err
	}
	gs.total = binary.NativeEndian.Uint64(length[:])
	n, old := int(min(gs.total, MostGoroutines)), len(gs.addrs)
	if n <= old {
		return nil
	}
	at := binary.NativeEndian.Uint64(first[:]) + 8*uint64(old)
	if !plausible(at) {
		return fmt.Errorf("the list of goroutines is at %#x", at)
	}
	added := make([]uint64, n-old)
	if err := gs.memory.Read(at, unsafe.Slice((*byte)(unsafe.Pointer(&added[0])), 8*len(added))); err != nil {
		return err
	}
	gs.addrs = append(gs.addrs, added...)
	gs.sort()
	return nil
}

// sort puts the descriptors in the order of their addresses, so that neighbours are read at once. What can be none
// is left out.
func (gs *Goroutines) sort() {
	gs.order = gs.order[:0]
	for i, addr := range gs.addrs {
		if plausible(addr) {
			gs.order = append(gs.order, int32(i))
		}
	}
	slices.SortFunc(gs.order, func(a, b int32) int { return cmp.Compare(gs.addrs[a], gs.addrs[b]) })
	gs.order = slices.CompactFunc(gs.order, func(a, b int32) bool { return gs.addrs[a] == gs.addrs[b] })
}

// Bounds of one read of a census.
const (
	censusGap    = 4 << 10   // bytes between descriptors that are read over
	censusRange  = 64 << 10  // bytes of a range
	censusRanges = 64        // of a call
	censusBytes  = 512 << 10 // of a call, about
)

// Census reads all goroutines, and calls visit with each that is not dead and its place in the list, until visit
// returns false. The places stay.
func (gs *Goroutines) Census(visit func(place int, t *process.Task) bool) {
	for from := 0; from < len(gs.order); {
		end := gs.ranges(from)
		gs.readAll()
		for r, i := 0, from; r < len(gs.at); r++ {
			last := gs.at[r] + uint64(len(gs.bufs[r]))
			for ; i < end && gs.addrs[gs.order[i]]+uint64(gs.size) <= last; i++ {
				addr := gs.addrs[gs.order[i]]
				if !gs.ok[r] {
					continue
				}
				var g resting
				gs.decode(addr, gs.bufs[r][addr-gs.at[r]:], &g)
				if g.State != process.Dead && !visit(int(gs.order[i]), &g.Task) {
					return
				}
			}
		}
		from = end
	}
}

// ranges sets what to read for goroutines from a place in the order on, and returns where the next call begins.
func (gs *Goroutines) ranges(from int) (end int) {
	gs.at, gs.bufs = gs.at[:0], gs.bufs[:0]
	if gs.bytes == nil {
		gs.bytes = make([]byte, censusBytes+censusRange)
	}
	size, used := uint64(gs.size), 0
	for end = from; end < len(gs.order) && len(gs.at) < censusRanges && used < censusBytes; {
		first := gs.addrs[gs.order[end]]
		last := first
		for end < len(gs.order) {
			addr := gs.addrs[gs.order[end]]
			if addr > last+censusGap || addr+size-first > censusRange {
				break
			}
			last = addr
			end++
		}
		n := int(last + size - first)
		gs.at, gs.bufs = append(gs.at, first), append(gs.bufs, gs.bytes[used:used+n])
		used += n
	}
	return end
}

// readAll reads the ranges, and notes which could be read.
func (gs *Goroutines) readAll() {
	gs.ok = append(gs.ok[:0], make([]bool, len(gs.at))...)
	for from := 0; from < len(gs.at); {
		n, err := gs.memory.ReadMany(gs.at[from:], gs.bufs[from:])
		for i := range n {
			gs.ok[from+i] = true
		}
		from += n
		if err != nil {
			from++ // this one cannot be read
		}
	}
}

// notes are the times that the collector has noted of goroutines, in order: at most mostNotes.
//
// A marking notes of each goroutine that it finds waiting when the marking before had ended: earlier than the wait may
// have begun (work.tstart in gcMark and markroot, Go 1.20 to 1.27). But a later note of any other goroutine is from
// the end of that marking or of one after it, and so the wait had begun by then.
type notes []int64

const mostNotes = 64

// take adds a note, and returns since when its goroutine has waited at least; 0: not known.
func (n *notes) take(note int64) (since int64) {
	if note <= 0 {
		return 0
	}
	if at, known := slices.BinarySearch(*n, note); !known {
		*n = slices.Insert(*n, at, note)
		if len(*n) > mostNotes { // without one of them less is known, and nothing is wrong
			*n = slices.Delete(*n, 1, 2)
		}
	}
	for _, later := range *n {
		if later > note {
			return later
		}
	}
	return 0
}

// statusScan is set while the collector looks at the goroutine's stack (_Gscan of runtime2.go).
const statusScan = 0x1000

// states are those of the runtime's numbers (_Gidle … of runtime2.go, Go 1.20 to 1.27).
var states = [...]process.TaskState{
	1: process.Runnable, 2: process.Running, 3: process.InSyscall, 4: process.Waiting, 8: process.Running, 9: process.Runnable,
	10: process.Waiting, 11: process.Dead,
}

// decode takes the fields out of a descriptor.
func (gs *Goroutines) decode(addr uint64, b []byte, g *resting) {
	l := &gs.layout
	word := func(offset int) uint64 { return binary.NativeEndian.Uint64(b[offset:]) }
	*g = resting{addr: addr}
	g.Lo, g.Hi = word(l.GStackLo), word(l.GStackHi)
	g.ID, g.Seq, g.Proof = word(l.GID), b[gs.waits.Seq], true
	status := binary.NativeEndian.Uint32(b[l.GStatus:]) &^ statusScan
	if status >= uint32(len(states)) || g.ID == 0 || g.ID >= maxGoroutines {
		return
	}
	g.State, g.SP, g.PC, g.Start = states[status], word(l.GSchedSP), word(l.GSchedPC), word(gs.waits.StartPC)
	if l.GLabels >= 0 {
		g.labels = word(l.GLabels)
	}
	g.Since = gs.notes.take(int64(word(gs.waits.Since)))
	switch g.State {
	case process.InSyscall:
		g.SP, g.PC, g.Proof = word(l.GSyscallSP), word(l.GSyscallPC), gs.waits.SeqOfCalls
	case process.Waiting:
		g.Reason = b[gs.waits.Reason]
		if !isAmong(gs.parts.parked, g.PC) {
			g.waitElsewhere(gs)
		}
	}
}

// waitElsewhere tells what a goroutine does whose status is of a wait, but which has not parked. A coroutine has
// switched to another (runtime/coro.go, Go 1.23 to 1.27), without a trace in Seq. All others work for the runtime on
// their thread's stack.
func (g *resting) waitElsewhere(gs *Goroutines) {
	g.Proof = false
	if g.PC != g.Start && !isAmong(gs.parts.switched, g.PC) {
		g.State = process.Running
	}
}

func isAmong(funcs []gosym.Func, pc uint64) bool {
	for i := range funcs {
		if funcs[i].Entry <= pc && pc < funcs[i].End {
			return true
		}
	}
	return false
}

// Own reports whether a goroutine is one of the runtime's own, by its first function.
func (gs *Goroutines) Own(g *process.Task) bool {
	own, known := gs.own[g.Start]
	if !known {
		f, _ := gs.p.code.table.Func(g.Start)
		own = strings.HasPrefix(f.Name, "runtime.") && !notOwn[f.Name]
		const most = 1 << 16
		if len(gs.own) >= most {
			clear(gs.own)
		}
		gs.own[g.Start] = own
	}
	return own
}

// notOwn are functions of the runtime in which goroutines of the program begin (runtime.isSystemGoroutine, Go 1.27).
var notOwn = map[string]bool{"runtime.main": true, "runtime.corostart": true, "runtime.handleAsyncEvent": true}

// outset is what is known of a function with which goroutines begin: how it calls others.
type outset struct {
	frame uint64            // from SP to its return address, bytes; 0: not known
	calls map[uint64]uint64 // the address that a call returns to: the callee
	wraps bool              // it calls one function alone, as the go statement of a method does (gowrap)
}

// A first function returns to goexit, outsetAt bytes below the end of the stack (newproc1 of runtime/proc.go and
// gostartcall of sys_x86.go, Go 1.20 to 1.27).
const outsetAt = 40

// Outset returns the outermost frames of a goroutine, which may run: its first function, and the function that
// it calls if answers has its entry. Each call from a function leaves its return address at the same place, so the one
// that is there is of the last such call. It may have returned just before.
func (gs *Goroutines) Outset(g *process.Task, answers map[uint64]bool, st *process.Stack) (answering bool) {
	*st = process.Stack{PCs: append(st.PCs[:0], g.Start), Rooted: true}
	at := g.Hi - outsetAt // where the function returns to
	if end, ok := gs.wordOf(g, at); len(answers) == 0 || !ok || gs.p.code.at(end).id != gosym.FuncGoexit {
		return false
	}
	gs.p.unwinder.code.beginSample()
	const deepest = 3
	function := g.Start
	for range deepest {
		o := gs.outsetOf(function)
		at -= o.frame + 8
		call, ok := gs.wordOf(g, at)
		callee, known := o.calls[call]
		if !ok || !known {
			break
		}
		st.PCs[0] = call
		st.PCs = slices.Insert(st.PCs, 0, callee)
		if answers[callee] {
			return true
		}
		if function = callee; !o.wraps {
			break
		}
	}
	st.PCs = append(st.PCs[:0], g.Start)
	return false
}

// wordOf reads a word of a goroutine's stack.
func (gs *Goroutines) wordOf(g *process.Task, at uint64) (uint64, bool) {
	var buf [8]byte
	if at&7 != 0 || at < g.Lo || at > g.Hi-8 || gs.memory.Read(at, buf[:]) != nil {
		return 0, false
	}
	return binary.NativeEndian.Uint64(buf[:]), true
}

// outsetOf returns what is known of the function that begins at an address.
func (gs *Goroutines) outsetOf(start uint64) outset {
	o, known := gs.outsets[start]
	if !known {
		const most = 1 << 10
		if len(gs.outsets) >= most {
			clear(gs.outsets)
		}
		frame, calls := gs.p.code.table.Outset(start)
		o = outset{frame: uint64(frame), calls: calls, wraps: gs.callsOne(calls)}
		gs.outsets[start] = o
	}
	return o
}

// callsOne reports whether there are calls of one function of the program alone.
func (gs *Goroutines) callsOne(calls map[uint64]uint64) bool {
	one := uint64(0)
	for _, callee := range calls {
		f, _ := gs.p.code.table.Func(callee)
		switch {
		case strings.HasPrefix(f.Name, "runtime."):
		case one != 0 && one != callee:
			return false
		default:
			one = callee
		}
	}
	return one != 0
}

// Once returns the method of a function's name, and an instruction that each call of it executes once.
func (p *Process) Once(ctx context.Context, name string, names *ccmap.Names) (pc uint64, method ccmap.MethodID, err error) {
	if pc, err = p.code.table.Once(ctx, name); err != nil {
		return 0, 0, err
	}
	method, _ = p.code.target(p.code.entry(pc), names)
	return pc, method, nil
}

// labelsOf returns the method that stands for the labels of a goroutine; nil: it has none, or they are not wanted.
func (gs *Goroutines) labelsOf(g *resting) *ccmap.Method {
	if gs.p.labels == nil {
		return nil
	}
	return gs.p.labels.at(g.labels, gs.layout.LabelsAreMap)
}
