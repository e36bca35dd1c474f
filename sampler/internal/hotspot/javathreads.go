package hotspot

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/sampler/internal/hotspot/unwind"
)

// JavaThreads are the threads of a JVM that run Java, read from its memory while it runs. A thread that has left Java,
// to wait or to call C, has noted its last Java frame: its stack can be read from there. The kernel counts how often
// the thread was put on a CPU: the same count shows the same wait.
//
// It belongs to the engine's goroutine.
type JavaThreads struct {
	p      *Process
	rest   *unwind.AtRest
	nested bool              // the JVM knows its threads by other numbers than we
	outer  map[uint32]uint32 // our numbers, by the JVM's

	list    []uint64 // the JVM's, at the last Refresh
	all     int      // its length
	places  []uint64 // address of the thread in each place; 0: none
	placeOf map[uint64]int32
	free    []int32
	last    []unwind.JavaThread // of the last census
	heap    *heap               // nil: not read yet

	virtual   *virtualThreads // without carriers; nil: the JVM has none
	noVirtual error           // why they cannot be read; nil: they can

	labels map[string]*ccmap.Method // by name
	stack  process.Stack
	told   process.TaskLook
	bytes  []byte
}

// Reasons why threads wait.
const (
	ReasonMonitor = "monitor enter"
	reasonWait    = "Object.wait"
	ReasonPark    = "park"
	reasonSleep   = "sleep"
	reasonNative  = "native"
	reasonJVM     = "blocked in the JVM"
)

// reasons are the texts of [process.Task.Reason].
var reasons = [...]string{reasonJVM, ReasonMonitor, reasonWait}

// waits are the methods whose last frame says why a thread waits, by class and name.
var waits = map[[2]string]string{
	{"jdk.internal.misc.Unsafe", "park"}: ReasonPark, {"java.lang.Thread", "sleep"}: reasonSleep,
	{"java.lang.Thread", "sleep0"}: reasonSleep, {"java.lang.Thread", "sleepNanos0"}: reasonSleep,
	{"java.lang.Object", "wait"}: reasonWait, {"java.lang.Object", "wait0"}: reasonWait,
}

// JavaThreads finds the threads. It fails if the JVM's tables lack something.
func (p *Process) JavaThreads() (*JavaThreads, error) {
	rest, err := p.java.AtRest(p.vm)
	if err != nil {
		return nil, process.As(fmt.Errorf("threads at rest cannot be read: %w", err), sampler.ErrProgram)
	}
	ts := &JavaThreads{p: p, rest: rest, nested: process.IsNested(p.pid), placeOf: make(map[uint64]int32), labels: make(map[string]*ccmap.Method)}
	if hasVirtual(p.vm) {
		ts.virtual = newVirtualThreads(p, rest)
	}
	return ts, nil
}

// objects returns the reader of objects.
func (ts *JavaThreads) objects() (*heap, error) {
	if ts.heap == nil {
		h, err := newHeap(ts.p.vm)
		if err != nil {
			return nil, fmt.Errorf("read objects of the JVM: %w", err)
		}
		ts.heap = h
	}
	return ts.heap, nil
}

// Refresh reads the JVM's list of threads. The place of a thread that has ended is another one's later.
func (ts *JavaThreads) Refresh() error {
	err := ts.refresh()
	ts.refreshVirtual()
	return err
}

func (ts *JavaThreads) refresh() error {
	list, all := ts.rest.List()
	if ts.all = all; slices.Equal(list, ts.list) {
		return nil
	}
	ts.list = list
	listed := make(map[uint64]bool, len(list))
	for _, addr := range list {
		listed[addr] = true
	}
	for place, addr := range ts.places {
		if addr != 0 && !listed[addr] {
			delete(ts.placeOf, addr)
			ts.places[place], ts.free = 0, append(ts.free, int32(place))
		}
	}
	for _, addr := range list {
		if _, known := ts.placeOf[addr]; !known {
			ts.place(addr)
		}
	}
	return ts.renumber()
}

// renumber learns the numbers of threads of a JVM that has others.
func (ts *JavaThreads) renumber() error {
	if !ts.nested {
		return nil
	}
	tids, err := process.Threads(ts.p.pid)
	ts.outer = make(map[uint32]uint32, len(tids))
	for _, tid := range tids {
		ts.outer[process.InnerThread(ts.p.pid, tid)] = tid
	}
	return err
}

// read reads threads, with our numbers.
func (ts *JavaThreads) read(addrs []uint64, dst []unwind.JavaThread) []unwind.JavaThread {
	begin := len(dst)
	dst = ts.rest.Read(addrs, dst)
	for i := begin; ts.nested && i < len(dst); i++ {
		dst[i].TID = ts.outer[dst[i].TID]
	}
	return dst
}

// place gives a thread a place.
func (ts *JavaThreads) place(addr uint64) {
	at := int32(len(ts.places))
	if n := len(ts.free); n > 0 {
		at, ts.free = ts.free[n-1], ts.free[:n-1]
		ts.places[at] = addr
	} else {
		ts.places = append(ts.places, addr)
	}
	ts.placeOf[addr] = at
}

// virtualBase is the first place of virtual threads. Those of others are below.
const virtualBase = unwind.MostAtRest

// Len returns how many places there are, and how long the JVM's list is, virtual threads included.
func (ts *JavaThreads) Len() (places int, all uint64) {
	places, all = len(ts.places), uint64(max(ts.all, len(ts.places)))
	if v := ts.virtual; v != nil && len(v.places) > 0 {
		more := max(v.all-len(v.places), 0) + int(all) - places
		places = virtualBase + len(v.places)
		all = uint64(places + more)
	}
	return places, all
}

// censusBatch is how many threads are read at once.
const censusBatch = 1024

// Reuses reports that a new thread has a place of its own.
func (ts *JavaThreads) Reuses() bool { return false }

// Census visits the threads of the program that have begun, until visit returns false.
func (ts *JavaThreads) Census(visit func(place int, t *process.Task) bool) {
	ts.last = ts.last[:0]
	for batch := range slices.Chunk(ts.places, censusBatch) {
		ts.last = ts.read(batch, ts.last)
	}
	for place := range ts.last {
		var task process.Task
		if ts.places[place] != 0 && ts.task(&ts.last[place], &task) && !visit(place, &task) {
			return
		}
	}
	if ts.virtual != nil && ts.noVirtual == nil {
		ts.visitVirtual(visit)
	}
}

// visitVirtual visits the virtual threads that the last Refresh has found.
func (ts *JavaThreads) visitVirtual(visit func(place int, t *process.Task) bool) {
	for place := range ts.virtual.places {
		var task process.Task
		if ts.virtual.places[place].task(&task) && !visit(virtualBase+place, &task) {
			return
		}
	}
}

// refreshVirtual finds the virtual threads without carriers.
func (ts *JavaThreads) refreshVirtual() {
	if ts.virtual == nil {
		return
	}
	var ready bool
	if ready, ts.noVirtual = ts.virtual.ready(ts.objects); ready {
		ts.virtual.renewed = 0
		ts.noVirtual = ts.virtual.take(ts.last)
	}
}

// errUntracked says that the JVM does not know its virtual threads.
var errUntracked = errors.New("the JVM keeps no list of those without an executor (-Djdk.trackAllThreads=false)")

// VirtualUnknown says why virtual threads without a carrier are not known, or not all of them; nil: they are.
func (ts *JavaThreads) VirtualUnknown() error {
	switch v := ts.virtual; {
	case ts.noVirtual != nil || v == nil:
	case v.l.untracked:
		return errUntracked
	case v.all > mostVirtual:
		return fmt.Errorf("%d of %d were read, to bound memory", mostVirtual, v.all)
	}
	return ts.noVirtual
}

// task tells what a thread does. It reports false for one that is no thread of the program, or that waits without
// having called Java.
func (ts *JavaThreads) task(t *unwind.JavaThread, task *process.Task) bool {
	if t.TID == 0 || ts.isOwn(t.TID) {
		return false
	}
	*task = process.Task{ID: uint64(t.TID), State: process.Running, SP: t.SP}
	if n, err := process.SwitchesOf(ts.p.pid, t.TID); err == nil {
		task.Seq, task.Proof = uint8(n), true
	}
	switch {
	case t.State < unwind.InNative:
		return false
	case t.State == unwind.Blocked || t.State == unwind.Blocked+1:
		task.State, task.Lock = process.Waiting, t.Pending
		if t.Pending != 0 {
			task.Reason = uint8(slices.Index(reasons[:], ReasonMonitor))
		} else if t.Waiting != 0 {
			task.Reason = uint8(slices.Index(reasons[:], reasonWait))
		}
	case t.State == unwind.InNative && process.IsAsleep(ts.p.pid, t.TID):
		task.State = process.InSyscall
	}
	return task.State == process.Running || t.SP != 0
}

// ofJDK are the names of the threads that each JVM has for Java's own housekeeping, as the kernel keeps them. Some serve
// virtual threads.
var ofJDK = map[string]bool{
	"Reference Handl": true, "Finalizer": true, "Common-Cleaner": true,
	"VirtualThread-u": true, "MasterPoller": true, "Read-Poller": true, "Write-Poller": true,
}

// isOwn reports whether a thread is the JVM's own.
func (ts *JavaThreads) isOwn(tid uint32) bool {
	name := ts.p.threadName(tid)
	return purposeOf(name) != "" || ofJDK[name]
}

// Own reports false: a census has no threads of the JVM's own.
func (ts *JavaThreads) Own(*process.Task) bool { return false }

// Reason returns why a thread waits, as far as that is known without its stack.
func (ts *JavaThreads) Reason(t *process.Task) string {
	if t.State == process.InSyscall {
		return reasonNative
	}
	return reasons[int(t.Reason)%len(reasons)]
}

// Outset returns the stack of a thread that runs: nothing of it is known but its labels.
func (ts *JavaThreads) Outset(t *process.Task, _ map[uint64]bool, st *process.Stack) (answering bool) {
	*st = process.Stack{PCs: st.PCs[:0], Rooted: true, Labels: ts.label(t.ID)}
	return false
}

// Bounds of a look, bytes.
const (
	lookStack = 16 << 10 // of a stack; the rest of deep ones is read later
	lookBelow = 64       // the last Java frame
)

// Look visits the threads at some places with their stacks, in that order. It reads a thread's descriptor and how often
// it was on a CPU before and after its stack: if they agree, the stack is whole.
func (ts *JavaThreads) Look(places []int32, visit func(place int32, l *process.TaskLook)) {
	for _, place := range places {
		if place >= virtualBase {
			ts.lookVirtual(place - virtualBase)
		} else {
			ts.look(ts.places[place])
		}
		visit(place, &ts.told)
	}
}

func (ts *JavaThreads) look(addr uint64) {
	ts.told = process.TaskLook{Stack: &ts.stack}
	l := &ts.told
	var pair [2]unwind.JavaThread
	before := ts.read([]uint64{addr}, pair[:0])[0]
	if addr == 0 || !ts.task(&before, &l.Task) || l.State == process.Running {
		return
	}
	l.Read = true
	m, ok := ts.copyStack(&before)
	after := ts.read([]uint64{addr}, pair[:0])[0]
	n, err := process.SwitchesOf(ts.p.pid, before.TID)
	if !ok || after != before || err == nil && uint8(n) != l.Seq {
		l.Moved = true
		return
	}
	found := ts.unwind(&before, m)
	if len(found.java.Frames) == 0 {
		l.Moved = true
		return
	}
	ts.stack.Labels = ts.label(uint64(before.TID))
	l.Why = ts.why(l, &found.java.Frames[0])
}

func (ts *JavaThreads) lookVirtual(place int32) {
	ts.told = process.TaskLook{Stack: &ts.stack}
	if !ts.virtual.current(ts.last) {
		return
	}
	if ts.virtual.look(place, &ts.told); ts.told.Read {
		ts.stack.Labels = ts.label(ts.told.ID)
	}
}

// copyStack copies a thread's stack, from below its last Java frame upwards.
func (ts *JavaThreads) copyStack(t *unwind.JavaThread) (*process.Moment, bool) {
	m := &process.Moment{TID: t.TID, HasRegs: true, Time: uint64(time.Since(begun))}
	m.Regs.SP = t.SP - lookBelow
	left := t.StackLeft(m.Regs.SP)
	if ts.bytes == nil {
		ts.bytes = make([]byte, lookStack)
	}
	m.Stack, m.Cut = ts.bytes[:min(left, lookStack)], left > lookStack
	return m, left > lookBelow && ts.p.deep.memory.Read(m.Regs.SP, m.Stack) == nil
}

// begun makes times that only grow.
var begun = time.Now()

// unwind finds the frames of a thread. A stack that does not end in its copy is read to its end.
func (ts *JavaThreads) unwind(t *unwind.JavaThread, m *process.Moment) *calls {
	st, p := &ts.stack, ts.p
	found := foundIn(st)
	*found = calls{java: unwind.Stack{Frames: found.java.Frames[:0], Native: found.java.Native[:0]}}
	for deep := false; m != nil; m = p.deep.more() {
		*st = process.Stack{PCs: st.PCs[:0], Thread: process.OSThread | uint64(t.TID), Found: found}
		ts.rest.Stack(t, m, &found.java)
		p.adoptFrames(st)
		if st.Rooted || !st.WantDump || !deep && !p.deep.takeMoment(m) {
			break
		}
		deep = true
	}
	return found
}

// why returns why a thread waits, by its innermost frame.
func (ts *JavaThreads) why(l *process.TaskLook, innermost *unwind.Frame) string {
	switch {
	case l.State == process.InSyscall, l.Reason != 0:
		return ts.Reason(&l.Task)
	}
	if m, err := ts.p.classes.Method(innermost.Method); err == nil {
		if why, known := waits[[2]string{m.Class.Name, m.Name}]; known {
			return why
		}
	}
	return reasonJVM
}

// Name returns the name of a thread: the 15 bytes that Linux keeps, or 64 of a virtual thread's.
func (ts *JavaThreads) Name(task uint64) string {
	if id, isVirtual := VirtualID(task); isVirtual {
		return ts.virtual.name(id)
	}
	return ts.p.threadName(uint32(task))
}

// Owner returns the thread that owned a monitor at the last census; 0: none, or it is not known.
func (ts *JavaThreads) Owner(monitor uint64) (tid uint32) {
	m := ts.rest.Monitor(monitor)
	if at, known := ts.rest.Owner(&m, ts.last); known {
		return ts.last[at].TID
	}
	return 0
}

// labelThread is the key of the label that has the thread's name.
const labelThread = "thread"

// unnamed labels virtual threads, most of which have no name.
const unnamed = "virtual"

// label returns the label of a thread, if they are wanted: its name, with one * for each number, so that the threads
// of a pool have the same.
func (ts *JavaThreads) label(task uint64) *ccmap.Method {
	if !ts.p.nameThreads {
		return nil
	}
	name := cmp.Or(foldDigits(ts.Name(task)), unnamed)
	m, known := ts.labels[name]
	if !known {
		of := ccmap.LabelsMethod([]ccmap.Label{{Key: labelThread, Value: name}})
		if len(ts.labels) >= ccmap.MaxLabelSets {
			of = ccmap.LabelsMethod(nil) // the program gives its threads ever new names
			return &of
		}
		m = &of
		ts.labels[name] = m
	}
	return m
}

func foldDigits(name string) string {
	var out strings.Builder
	number := false
	for _, r := range name {
		if digit := '0' <= r && r <= '9'; digit && number {
			continue
		} else if number = digit; digit {
			r = '*'
		}
		out.WriteRune(r)
	}
	return out.String()
}
