package unwind

import (
	"encoding/binary"
	"fmt"

	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/sampler/internal/hotspot/vmstructs"
)

// State is what a JavaThread does, by the JVM's number (JavaThreadState of globalDefinitions.hpp, JDK 17 to 25). An
// odd number is the way out of the state before it.
type State int32

// The states.
const (
	InNative State = 4  // in a native method, or a system call of one
	Blocked  State = 10 // it waits: for a monitor, parked, asleep, or for the JVM
)

// JavaThread is a thread of the JVM's list, as its descriptor was at one instant.
type JavaThread struct {
	Addr  uint64 // of its descriptor
	TID   uint32 // 0: it has not begun, or has ended
	State State

	SP               uint64 // of its last Java frame; 0: it runs Java, or has none
	Pending, Waiting uint64 // the monitors that it waits to enter, and that it waits on; 0: none

	Object  uint64 // address of the pointer to its java.lang.Thread; 0: not known
	Virtual uint64 // … to the virtual thread that it runs, which may be itself; 0: not known, JDK 20 and earlier

	anchor                anchor
	stackBase, stackBytes uint64
	ownerID               uint64 // by which monitors know it: JDK 24 and later
	locked                [mostLocked]uint64
}

// StackLeft returns how many bytes the stack has from an address on; 0 if the address is not on it.
func (t *JavaThread) StackLeft(addr uint64) uint64 {
	if t.stackBytes > mostStack || addr >= t.stackBase || t.stackBase-addr > t.stackBytes {
		return 0
	}
	return t.stackBase - addr
}

const (
	mostStack = 1 << 34 // bytes
	// mostLocked is how many objects a thread can have locked without monitors (LockStack::CAPACITY, JDK 21 to 25).
	mostLocked = 8
	// MostAtRest bounds the threads that are read.
	MostAtRest = 1 << 16
)

// restLayout says where a JavaThread and a monitor have what tells how a thread waits.
type restLayout struct {
	state                 number
	pending, waiting      uint64
	stackBase, stackBytes uint64
	owner, object         uint64 // of an ObjectMonitor
	ownerID               uint64 // 0: owners are addresses, JDK 23 and earlier
	lockTop, lockBase     uint64 // 0: no locks without monitors, JDK 20 and earlier
	thread, virtual       uint64 // handles of its java.lang.Thread, and of the virtual thread that it runs; 0: not known
	anonymous             uint64 // the owner that a monitor has whose owner is not known to it
	from, to              uint64 // all that is read of a JavaThread is there
}

func newRestLayout(vm *vmstructs.VM, l *threadLayout) (restLayout, error) {
	q := vm.Query()
	r := restLayout{
		state:     numberOf(vm, "JavaThread._thread_state"),
		pending:   q.Offset("JavaThread._current_pending_monitor", "Thread._current_pending_monitor"),
		waiting:   q.Offset("JavaThread._current_waiting_monitor", "Thread._current_waiting_monitor"),
		stackBase: q.Offset("JavaThread._stack_base", "Thread._stack_base"), stackBytes: q.Offset("JavaThread._stack_size", "Thread._stack_size"),
		owner: q.Offset("ObjectMonitor._owner"), object: q.Offset("ObjectMonitor._object"),
	}
	if err := q.Err(); err != nil {
		return r, err
	}
	r.ownerID, _ = vm.Offset("JavaThread._monitor_owner_id")
	r.thread, _ = vm.Offset("JavaThread._threadObj")
	r.virtual, _ = vm.Offset("JavaThread._vthread")
	if stack, ok := vm.Offset("JavaThread._lock_stack"); ok {
		top, ok1 := vm.Offset("LockStack._top")
		base, ok2 := vm.Offset("LockStack._base[0]")
		if anonymous, ok3 := vm.Const("ObjectMonitor::ANONYMOUS_OWNER"); ok1 && ok2 && ok3 {
			r.lockTop, r.lockBase, r.anonymous = stack+top, stack+base, uint64(anonymous)
		}
	}
	return r, r.bound(l)
}

// bound finds what is read of a JavaThread, and refuses tables that make no sense.
func (r *restLayout) bound(l *threadLayout) error {
	anchor := l.anchor + max(l.sp, l.fp, l.pc) + 8
	fields := []uint64{r.state.at, r.pending, r.waiting, r.stackBase, r.stackBytes, l.osthread, l.anchor, anchor}
	for _, at := range []uint64{r.ownerID, r.thread, r.virtual} {
		if at != 0 {
			fields = append(fields, at)
		}
	}
	if r.lockBase != 0 {
		fields = append(fields, r.lockTop, r.lockBase+8*(mostLocked-1))
	}
	r.from, r.to = fields[0], 0
	for _, at := range fields {
		r.from, r.to = min(r.from, at), max(r.to, at+8)
	}
	if r.state.width != 4 || r.to > mostObject || r.owner > mostObject || r.object > mostObject {
		return fmt.Errorf("the JVM's tables have a thread of %d bytes: %w", r.to, vmstructs.ErrUnsupported)
	}
	return nil
}

// AtRest reads the threads of a JVM, and the stacks of those that have left Java, while the JVM runs. It shares the
// goroutine of its [Unwinder].
type AtRest struct {
	*Unwinder
	r restLayout
}

// AtRest returns the reader of threads. It fails if the JVM's tables lack something.
func (u *Unwinder) AtRest(vm *vmstructs.VM) (*AtRest, error) {
	r, err := newRestLayout(vm, &u.l.threads)
	if err != nil {
		return nil, fmt.Errorf("learn the layout of threads: %w", err)
	}
	return &AtRest{u, r}, nil
}

// List returns the addresses of the JVM's threads, each once, and how many there are. It returns at most 65,536.
func (a *AtRest) List() (addrs []uint64, all int) {
	a.renewBudget(nil)
	t := &a.l.threads
	head, err := a.readBytes(a.word(t.list), int(max(t.threads, t.length.at))+8)
	if err != nil {
		return nil, 0
	}
	if all = t.length.of(head); all <= 0 {
		return nil, 0
	}
	raw, err := a.readBytes(word(head, t.threads), 8*min(all, MostAtRest))
	if err != nil {
		return nil, 0
	}
	seen := make(map[uint64]bool, len(raw)/8)
	for at := uint64(0); at < uint64(len(raw)); at += 8 {
		if addr := word(raw, at); plausible(addr) && !seen[addr] {
			seen[addr] = true
			addrs = append(addrs, addr)
		}
	}
	return addrs, all
}

// Read reads threads, at most 1,024 at once. One that cannot be read has no TID.
func (a *AtRest) Read(addrs []uint64, dst []JavaThread) []JavaThread {
	a.renewBudget(nil)
	at := make([]uint64, len(addrs))
	for i, addr := range addrs {
		at[i] = addr + a.r.from
	}
	begin, size := len(dst), int(a.r.to-a.r.from)
	for i, raw := range a.batch(at, size) {
		dst = append(dst, a.decode(addrs[i], raw))
		at[i] = word(raw, a.l.threads.osthread-a.r.from) + a.l.threads.tid
	}
	for i, raw := range a.batch(at, 4) {
		dst[begin+i].TID = binary.LittleEndian.Uint32(raw)
	}
	return dst
}

// decode takes the fields out of a descriptor, whose bytes begin at r.from.
func (a *AtRest) decode(addr uint64, raw []byte) JavaThread {
	r, l := &a.r, &a.l.threads
	field := func(at uint64) uint64 { return word(raw, at-r.from) }
	optional := func(at uint64) uint64 {
		if at == 0 {
			return 0
		}
		return field(at)
	}
	t := JavaThread{
		Addr: addr, State: State(int32(field(r.state.at))), Pending: field(r.pending), Waiting: field(r.waiting),
		anchor:    anchor{field(l.anchor + l.sp), field(l.anchor + l.fp), field(l.anchor + l.pc)},
		stackBase: field(r.stackBase), stackBytes: field(r.stackBytes),
	}
	t.SP = t.anchor.sp
	t.ownerID, t.Object, t.Virtual = optional(r.ownerID), optional(r.thread), optional(r.virtual)
	if r.lockBase != 0 { // the top is an offset from the thread's beginning
		for i := uint64(0); i < mostLocked && r.lockBase+8*i < uint64(uint32(field(r.lockTop))); i++ {
			t.locked[i] = field(r.lockBase + 8*i)
		}
	}
	return t
}

// Stack finds the Java frames of a thread that has left Java. The moment has a copy of its stack, from some words below
// the last Java frame upwards.
func (a *AtRest) Stack(t *JavaThread, m *process.Moment, st *Stack) {
	*st = Stack{Frames: st.Frames[:0], Native: st.Native[:0], Thread: t.Addr}
	a.renewBudget(nil)
	a.cache.beginMoment(m.Time)
	a.stack, a.cut = view{m.Regs.SP, m.Stack}, m.Cut
	f, ok := a.fromAnchor(t.anchor)
	if !ok {
		st.Why = StaleAnchor
		return
	}
	a.walk(f, st)
	if a.spent() {
		st.Why, st.Rooted = TooMuch, false
	}
}

// Monitor is a monitor of an object, as it was at one instant.
type Monitor struct {
	Object uint64 // that it is of; 0: not known
	Number uint64 // of the java.lang.Thread that owns it; 0: none, or it is not known by its number
	Locked bool   // the owner has it among the objects that it has locked without a monitor

	owner uint64 // as the JVM writes it
}

// Monitor reads a monitor.
func (a *AtRest) Monitor(addr uint64) Monitor {
	a.renewBudget(nil)
	m := Monitor{Object: a.word(a.word(addr + a.r.object)), owner: a.word(addr + a.r.owner)}
	const deflates = 2 // ObjectMonitor::DEFLATER_MARKER; threads have greater numbers (objectMonitor.hpp, JDK 24 and 25)
	switch {
	case m.owner == 0:
	case m.owner == a.r.anonymous && a.r.lockBase != 0:
		m.Locked = true
	case a.r.ownerID != 0 && m.owner > deflates:
		m.Number = m.owner
	}
	return m
}

// Owner returns the place in all of the thread that owns a monitor. It reports false if none does, or if it is not
// known.
func (a *AtRest) Owner(m *Monitor, all []JavaThread) (place int, known bool) {
	owns := func(t *JavaThread) bool { return t.Addr == m.owner || t.StackLeft(m.owner) > 0 } // the thread, or a lock on its stack
	switch {
	case m.owner == 0:
		return 0, false
	case m.Locked:
		owns = func(t *JavaThread) bool { return t.hasLocked(m.Object) }
	case a.r.ownerID != 0:
		owns = func(t *JavaThread) bool { return t.ownerID == m.owner }
	}
	for i := range all {
		if all[i].TID != 0 && owns(&all[i]) {
			return i, true
		}
	}
	return 0, false
}

func (t *JavaThread) hasLocked(object uint64) bool {
	for _, locked := range t.locked {
		if locked == object && object != 0 {
			return true
		}
	}
	return false
}
