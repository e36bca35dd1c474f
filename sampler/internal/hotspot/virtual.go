package hotspot

import (
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"time"

	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/sampler/internal/hotspot/unwind"
	"github.com/ccmapd/ccmapd/sampler/internal/hotspot/vmstructs"
)

// virtualThreads are the virtual threads of a JVM that have no carrier, read from its heap while it runs. The JDK keeps
// them in sets, for its own dumps of threads (see containers.go), and their stacks in objects (see chunks.go).
//
// A virtual thread has no number that rises when it goes on. So its stack tells: the same words, up to 512 bytes of
// them, are taken for the same wait. Where collections came between, the words that are no pointers to objects must be
// the same. One that goes on, and comes back to the same words by the next look, is not told from one that waits.
//
// All addresses of objects are those of one time between two collections: see [heap.still].
type virtualThreads struct {
	*heap
	p    *Process
	rest *unwind.AtRest
	l    virtualLayout
	seed maphash.Seed

	found bool      // what is looked for in the layout
	again time.Time // when to look for it next
	lacks error     // why it was not found, though the JVM may have virtual threads

	places  []virtual
	index   placeIndex
	next    int32 // the place after that of the thread that was put last: threads are met in one order
	free    []int32
	all     int              // that the last census has met
	census  uint32           // its number
	epoch   uint32           // of all addresses
	whole   bool             // the last census came to its end
	renewed int              // censuses since the last that was asked for
	kinds   map[uint64]owner // of containers, by class

	newOwner func(class uint64) owner
	buf      []byte // of a stack
	batch    virtualBatch
}

// virtualBatch is what was read of some virtual threads, until the next are read.
type virtualBatch struct {
	threads               []virtual
	conts, chunks, scopes []uint64
	from                  []uint64 // where their stacks begin
	sizes                 []int
	stacks                []object // … and their first bytes
}

// virtual is the virtual thread in a place, as it was at a census or look. There may be a million.
type virtual struct {
	id     uint64 // as Java numbers threads; 0: none
	object uint64 // its address in an epoch
	wait   trace
	epoch  uint32
	census uint32 // that has met it
	state  virtualState
	seq    uint8 // rises when it goes on
	locked uint8 // objects that it has locked without monitors
}

// trace is what tells a wait from the next one.
type trace struct {
	sp    int32  // of its stack, in words
	words uint32 // hash of words of the stack, and of where it is
	calls uint32 // … of those that no collection changes: only in a place
}

// virtualState is what a virtual thread does.
type virtualState uint8

const (
	mounted virtualState = iota // it has a carrier, has not begun, or has ended
	begins                      // it waits for a carrier, and has no stack
	goesOn                      // it waits for a carrier
	isParked
	parksFor // a time
	enters   // waits for a monitor
	waitsOn  // an object
)

// stateNames are the JDK's names of states in which a virtual thread has no carrier (VirtualThread.java, JDK 24 and 25).
var stateNames = map[string]virtualState{
	"STARTED": begins, "UNPARKED": goesOn, "YIELDED": goesOn, "UNBLOCKED": goesOn, "PARKED": isParked, "TIMED_PARKED": parksFor,
	"BLOCKED": enters, "WAIT": waitsOn, "TIMED_WAIT": waitsOn,
}

// virtualLayout is where objects of the JDK have what. Numbers are bytes from an object's beginning.
type virtualLayout struct {
	mirror uint64 // in a class: the handle of its java.lang.Class
	array  arrayLayout
	heap   [2]uint64 // bounds of the addresses of objects

	thread, chunk uint64 // classes
	states        map[int32]virtualState
	suspended     int32 // the bit of a state

	id, name, state, cont, scopes uint64 // in a thread
	tail, mounted                 uint64 // in a Continuation
	parent, size, sp, bottom      uint64 // in a StackChunk, in words
	words                         uint64 // of the stack, behind its fields
	queued                        queuedLayout
	text, coder                   uint64 // in a String

	hash, key, next  uint64 // in a node of a map
	keys             uint64 // in a set: its map
	table, nextTable uint64 // in a map
	referent         uint64 // in a reference
	previous         uint64 // in a scope

	roots, containers staticField
	untracked         bool // -Djdk.trackAllThreads=false

	threadSize, contSize, chunkSize, nodeSize uint64 // that are copied of objects
}

// Names of the JDK's classes.
const (
	virtualClass   = "java.lang.VirtualThread"
	contClass      = "jdk.internal.vm.Continuation"
	chunkClass     = "jdk.internal.vm.StackChunk"
	containerClass = "jdk.internal.vm.ThreadContainers"
	trackedClass   = containerClass + "$RootContainer$TrackingRootContainer"
	countedClass   = containerClass + "$RootContainer$CountingRootContainer"
	mapClass       = "java.util.concurrent.ConcurrentHashMap"
	nodeClass      = mapClass + "$Node"
	setClass       = mapClass + "$CollectionView"
	referenceClass = "java.lang.ref.Reference"
	scopeClass     = "jdk.internal.vm.StackableScope"
	stringClass    = "java.lang.String"
)

// mostVirtual bounds the virtual threads that are kept. A million of them took 267 MiB in `stuck`.
const mostVirtual = 3 << 18

// hasVirtual reports whether a JVM can have virtual threads.
func hasVirtual(vm *vmstructs.VM) bool {
	_, ok := vm.Static("ContinuationEntry._return_pc")
	return ok
}

// newVirtualThreads returns the reader of a JVM's virtual threads.
func newVirtualThreads(p *Process, rest *unwind.AtRest) *virtualThreads {
	find := func(class uint64) owner { return findOwner(p.classes, class) }
	return &virtualThreads{p: p, rest: rest, seed: maphash.MakeSeed(), newOwner: find}
}

// ready reports whether the JDK's classes for virtual threads are known. The JVM loads them as it needs them. It fails where
// objects cannot be read, or are not as they should be.
func (v *virtualThreads) ready(objects func() (*heap, error)) (ready bool, err error) {
	now := time.Now()
	if v.found || now.Before(v.again) {
		return v.found, v.lacks
	}
	c := classList{table: v.p.classes}
	err = c.find(threadClass, virtualClass, contClass, chunkClass, containerClass, trackedClass, mapClass, nodeClass, setClass,
		referenceClass, scopeClass, stringClass)
	const share = 100 // one part in so many of the time is spent on it
	v.again = time.Now().Add(share * time.Since(now))
	if err != nil || !c.has(containerClass) || !c.has(virtualClass) {
		return false, nil // it has none yet
	}
	if v.heap, v.lacks = objects(); v.lacks == nil {
		if err := v.learn(&c); err != nil {
			v.lacks = fmt.Errorf("learn the layout of virtual threads: %w", err)
		}
	}
	v.found = v.lacks == nil
	return v.found, v.lacks
}

// learn finds where objects have what.
func (v *virtualThreads) learn(c *classList) error {
	const intType, thread = "I", "Ljava/lang/Thread;"
	q := v.p.vm.Query()
	l := virtualLayout{
		mirror: q.Offset("Klass._java_mirror"), array: newArrayLayout(&v.heap.l), states: make(map[int32]virtualState),
		id: c.field(threadClass, "tid", "J"), name: c.field(threadClass, "name", "Ljava/lang/String;"),
		scopes: c.field(threadClass, "headStackableScopes", "Ljdk/internal/vm/StackableScope;"),
		state:  c.field(virtualClass, "state", intType), cont: c.field(virtualClass, "cont", "Ljdk/internal/vm/Continuation;"),
		tail: c.field(contClass, "tail", "Ljdk/internal/vm/StackChunk;"), mounted: c.field(contClass, "mounted", "Z"),
		parent: c.field(chunkClass, "parent", "Ljdk/internal/vm/StackChunk;"), size: c.field(chunkClass, "size", intType),
		sp: c.field(chunkClass, "sp", intType), bottom: c.field(chunkClass, "bottom", intType),
		text: c.field(stringClass, "value", "[B"), coder: c.field(stringClass, "coder", "B"),
		hash: c.field(nodeClass, "hash", intType), key: c.field(nodeClass, "key", "Ljava/lang/Object;"),
		next:      c.field(nodeClass, "next", "Ljava/util/concurrent/ConcurrentHashMap$Node;"),
		keys:      c.field(setClass, "map", "Ljava/util/concurrent/ConcurrentHashMap;"),
		table:     c.field(mapClass, "table", "[Ljava/util/concurrent/ConcurrentHashMap$Node;"),
		nextTable: c.field(mapClass, "nextTable", "[Ljava/util/concurrent/ConcurrentHashMap$Node;"),
		referent:  c.field(referenceClass, "referent", "Ljava/lang/Object;"), previous: c.field(scopeClass, "previous", "Ljdk/internal/vm/StackableScope;"),
		containers: c.static(containerClass, "CONTAINER_REGISTRY", "Ljava/util/Set;"), suspended: c.constant(virtualClass, "SUSPENDED"),
	}
	for name, state := range stateNames {
		l.states[c.constant(virtualClass, name)] = state
	}
	if l.untracked = !c.has(trackedClass); !l.untracked {
		l.roots = c.static(trackedClass, "VTHREADS", "Ljava/util/Set;")
	}
	l.queued = newQueuedLayout(c)
	if err := errors.Join(c.err, q.Err()); err != nil {
		return err
	}
	l.thread, l.chunk = c.named[virtualClass].Address, c.named[chunkClass].Address
	return v.measure(l)
}

// measure finds how much is copied of each object, and where the heap is.
func (v *virtualThreads) measure(l virtualLayout) error {
	extent := func(fields ...uint64) uint64 { return slices.Max(fields)&^7 + 8 }
	class := v.heap.l.class
	l.threadSize, l.contSize = extent(class, l.id, l.name, l.scopes, l.state, l.cont), extent(class, l.tail, l.mounted)
	l.chunkSize = extent(class, l.parent, l.size, l.sp, l.bottom, l.queued.locked, l.queued.flags)
	l.nodeSize = extent(class, l.hash, l.key, l.next)
	q := v.p.vm.Query()
	shape, reserved := q.Offset("Klass._layout_helper"), q.Offset("CollectedHeap._reserved")
	start, size := q.Offset("MemRegion._start"), q.Offset("MemRegion._word_size")
	if err := q.Err(); err != nil {
		return err
	}
	const slow = 7 // bits of a size that say how to make an object (klass.hpp)
	l.words = uint64(uint32(v.words([]uint64{(l.chunk + shape) &^ 7})[0]>>(8*(shape&4)))) &^ slow
	at := v.words([]uint64{v.heap.l.collector})[0] + reserved
	bounds := v.words([]uint64{at + start, at + size})
	l.heap = [2]uint64{bounds[0], bounds[0] + 8*bounds[1]}
	const most = 1 << 12
	if sizes := max(l.threadSize, l.contSize, l.chunkSize, l.nodeSize, l.words, l.mirror, l.keys, l.table, l.nextTable, l.referent, l.previous, l.text, l.coder); sizes > most || l.words < l.chunkSize {
		return fmt.Errorf("objects of %d bytes: %w", sizes, vmstructs.ErrUnsupported)
	}
	v.l = l
	return nil
}

// take takes a census: all virtual threads. It fails if collections came between, again and again.
func (v *virtualThreads) take(platform []unwind.JavaThread) error {
	v.census++
	v.whole, v.next = false, 0
	w := containers{virtualThreads: v, left: mostNodes}
	spent := false
	err := v.still(func() {
		if spent = w.left <= 0; !spent {
			v.all, v.next = 0, 0
			w.begin()
			w.read(platform)
		}
	})
	if err == nil && spent {
		err = errMoving
	}
	if err != nil {
		return err
	}
	v.epoch = w.epoch
	v.whole = true
	v.sweep()
	return nil
}

// sweep frees the places of threads that the census has not met.
func (v *virtualThreads) sweep() {
	free := len(v.free)
	for place := range v.places {
		if t := &v.places[place]; t.id != 0 && t.census != v.census {
			*t = virtual{}
			v.free = append(v.free, int32(place))
		}
	}
	if len(v.free) > free {
		v.index.build(v.seed, v.places)
	}
}

// mostRenewed bounds the censuses that are taken for addresses alone.
const mostRenewed = 16

// current reports whether the addresses are still those of objects. After a collection it takes another census.
func (v *virtualThreads) current(platform []unwind.JavaThread) bool {
	if epoch, quiet := v.heap.epoch(); quiet && v.whole && epoch == v.epoch {
		return true
	}
	if v.renewed >= mostRenewed {
		return false
	}
	v.renewed++
	return v.take(platform) == nil
}

// put takes in a virtual thread of the batch.
func (v *virtualThreads) put(at int) {
	t := &v.batch.threads[at]
	t.census = v.census
	place, known := v.find(t.id)
	if !known || v.places[place].census != v.census {
		v.all++
	}
	if known && v.places[place].isAsBefore(t) { // most are
		t.seq, t.wait.calls = v.places[place].seq, v.places[place].wait.calls
		v.places[place] = *t
		return
	}
	t.wait.calls = uint32(v.hashCalls(v.batch.stacks[at]))
	if known {
		if t.seq = v.places[place].seq; !v.places[place].continues(t) {
			t.seq++
		}
	} else if place, known = v.freePlace(); !known {
		return
	}
	if was := v.places[place].id; was != t.id {
		v.index.add(v.seed, t.id, place, v.places)
	}
	v.places[place] = *t
}

// find finds the place of a virtual thread: most often the next one.
func (v *virtualThreads) find(id uint64) (place int32, known bool) {
	place = v.next
	if known = int(place) < len(v.places) && v.places[place].id == id; !known {
		place, known = v.index.find(v.seed, id, v.places)
	}
	if known {
		v.next = place + 1
	}
	return place, known
}

// freePlace returns a place that has no thread. It reports false if there is none.
func (v *virtualThreads) freePlace() (place int32, ok bool) {
	switch {
	case len(v.free) > 0:
		place, v.free = v.free[len(v.free)-1], v.free[:len(v.free)-1]
	case len(v.places) < mostVirtual:
		place, v.places = int32(len(v.places)), append(v.places, virtual{})
	default:
		return 0, false
	}
	return place, true
}

// knows reports whether a virtual thread is one of the places.
func (v *virtualThreads) knows(id uint64) bool {
	_, known := v.index.find(v.seed, id, v.places)
	return known
}

// isAsBefore reports whether a virtual thread has the same words, in the same epoch.
func (t *virtual) isAsBefore(now *virtual) bool {
	return t.epoch == now.epoch && t.state == now.state && t.wait.sp == now.wait.sp && t.wait.words == now.wait.words
}

// continues reports whether a virtual thread is taken to be in the same wait.
func (t *virtual) continues(now *virtual) bool {
	if t.epoch == now.epoch {
		return t.isAsBefore(now)
	}
	return t.state == now.state && t.wait.sp == now.wait.sp && t.wait.calls == now.wait.calls
}

// virtualTask is the bit of [process.Task.ID] that tells virtual threads from others. The rest is Java's number.
const virtualTask = 1 << 63

// VirtualID returns Java's number of the virtual thread that a task is.
func VirtualID(task uint64) (id uint64, isVirtual bool) {
	return task &^ virtualTask, task&virtualTask != 0
}

// task tells what a virtual thread does. It reports false for one that has a carrier.
func (t *virtual) task(task *process.Task) bool {
	*task = process.Task{ID: virtualTask | t.id, State: process.Waiting, SP: uint64(uint32(t.wait.sp)), Seq: t.seq, Proof: true}
	switch t.state {
	case begins, goesOn:
		task.State = process.Runnable
	case enters:
		task.Reason = uint8(slices.Index(reasons[:], ReasonMonitor))
	case waitsOn:
		task.Reason = uint8(slices.Index(reasons[:], reasonWait))
	}
	return t.id != 0 && t.state != mounted
}

// mostParked bounds the virtual threads whose locks are looked for, of each kind.
const mostParked = 1 << 16

// those appends the virtual threads of some kind, and who they are.
func (v *virtualThreads) those(are func(*virtual) bool, objects, ids []uint64) (_, _ []uint64) {
	most := len(objects) + mostParked
	for i := range v.places {
		if t := &v.places[i]; t.state > begins && t.epoch == v.epoch && are(t) && len(objects) < most {
			objects, ids = append(objects, t.object), append(ids, virtualTask|t.id)
		}
	}
	return objects, ids
}

// Kinds of virtual threads, for those.
func (t *virtual) mayWaitForLock() bool { return t.state == isParked || t.state == parksFor }
func (t *virtual) entersMonitor() bool  { return t.state == enters }
func (t *virtual) hasLocked() bool      { return t.locked > 0 }

// stateOf returns the state by the JDK's number.
func (l *virtualLayout) stateOf(number int32) virtualState { return l.states[number&^l.suspended] }

// read reads virtual threads, at most some thousand, with their stacks, and the scopes that they have. What is not a virtual
// thread has no number. What it returns is the batch's.
func (v *virtualThreads) read(objects []uint64, epoch uint32) (threads []virtual, chunks, scopes []uint64) {
	l, b := &v.l, &v.batch
	b.threads, b.conts, b.chunks, b.scopes = zeroed(b.threads, len(objects)), zeroed(b.conts, len(objects)), zeroed(b.chunks, len(objects)), b.scopes[:0]
	for i, o := range v.copies(objects, l.threadSize) {
		if o == nil || v.classOf(o) != l.thread {
			continue
		}
		t := &b.threads[i]
		*t = virtual{id: o.word(l.id) &^ virtualTask, object: objects[i], state: l.stateOf(o.number(l.state)), epoch: epoch}
		if scope := v.ref(o, l.scopes); scope != 0 {
			b.scopes = append(b.scopes, scope)
		}
		if t.state > begins {
			b.conts[i] = v.ref(o, l.cont)
		}
	}
	for i, o := range v.copies(b.conts, l.contSize) {
		if o != nil && o.octet(l.mounted) == 0 {
			b.chunks[i] = v.ref(o, l.tail)
		}
	}
	v.readTraces()
	return b.threads, b.chunks, b.scopes
}

// zeroed returns a slice of n zeros.
func zeroed[T any](s []T, n int) []T {
	s = slices.Grow(s[:0], n)[:n]
	clear(s)
	return s
}

// traceBytes are how much of a stack tells a wait from the next one.
const traceBytes = 512

// readTraces reads where the stacks of the batch begin. A thread that has none that makes sense has a carrier.
func (v *virtualThreads) readTraces() {
	b := &v.batch
	b.from, b.sizes = zeroed(b.from, len(b.threads)), zeroed(b.sizes, len(b.threads))
	for i, o := range v.copies(b.chunks, v.l.chunkSize) {
		if piece, ok := v.chunkOf(b.chunks[i], o); ok {
			b.threads[i].wait.sp, b.threads[i].locked = o.number(v.l.sp), v.l.queued.lockedIn(o)
			b.from[i] = piece.SP - unwind.ChunkLinks
			b.sizes[i] = int(min(traceBytes, piece.End-b.from[i]))
		}
	}
	b.stacks = v.pieces(b.from, b.sizes)
	for i, stack := range b.stacks {
		t := &b.threads[i]
		switch {
		case stack != nil:
			t.wait.words = uint32(maphash.Bytes(v.seed, stack) + maphash.Comparable(v.seed, b.chunks[i]))
		case t.state > begins:
			t.state = mounted
		}
	}
}

// hashCalls returns a hash of the words that no collection changes: those too large to be pointers to objects with few
// bits, and outside of the heap.
func (v *virtualThreads) hashCalls(stack object) uint64 {
	const few = 1 << 32
	sum := uint64(len(stack))
	for at := 0; at+8 <= len(stack); at += 8 {
		word := stack.word(uint64(at))
		if word >= few && (word < v.l.heap[0] || word >= v.l.heap[1]) {
			sum = sum*0x9e3779b97f4a7c15 + word ^ uint64(at)
			sum ^= sum >> 29
		}
	}
	return sum
}
