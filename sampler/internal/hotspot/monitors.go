package hotspot

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"

	"github.com/ccmapd/ccmapd/sampler/internal/hotspot/unwind"
)

// queuedLayout is where the JVM notes which monitor a virtual thread without a carrier waits to enter, and what such a
// thread has locked (objectMonitor.hpp, javaClasses.hpp and stackChunkOop.hpp of JDK 24 and 25):
//
//   - The thread points to its node in the monitor's queue, an ObjectWaiter, by a field that the JVM adds to the class.
//   - The node points to the monitor and, through a handle, back to the thread. The JVM's tables do not say where: see
//     [lockReader.learnNodes].
//   - What a thread has locked while nobody else wanted it has no monitor. Its stack has these objects, in words.
type queuedLayout struct {
	node          uint64 // in a thread; 0: not known
	locked, flags uint64 // in a StackChunk: how many objects its thread has locked, and what its words are; 0: not known
	lacks         error  // why something of it is not known

	learned         bool
	thread, monitor uint64 // in a node: the handle, and the monitor
}

// newQueuedLayout finds the fields that the JVM has added to the JDK's classes.
func newQueuedLayout(c *classList) queuedLayout {
	own := classList{table: c.table, named: c.named}
	l := queuedLayout{
		node:   own.added(virtualClass, "objectWaiter", "J"),
		locked: own.added(chunkClass, "lockStackSize", "B"), flags: own.added(chunkClass, "flags", "B"),
	}
	l.lacks = own.err
	return l
}

// lockedIn returns how many objects the thread of a StackChunk has locked.
func (l *queuedLayout) lockedIn(chunk object) uint8 {
	if l.locked == 0 {
		return 0
	}
	return min(chunk.octet(l.locked), mostLockedObjects)
}

// Bounds of monitors.
const (
	mostLockedObjects = 8       // of a thread (LockStack::CAPACITY, JDK 21 to 25)
	mostMonitors      = 1 << 10 // that are asked for their owners
	nodesToLearn      = 64      // nodes that tell where they have what
	wordsOfNode       = 8       // that are looked at
)

// errNodes says that where nodes have what was not found.
var errNodes = errors.New("their nodes in the queues of monitors are not as those of JDK 24 and 25")

// readMonitors adds the monitors that threads wait to enter.
func (r *lockReader) readMonitors(threads []unwind.JavaThread, found map[uint64]Lock) error {
	var monitors, ids []uint64
	for i := range threads {
		if t := &threads[i]; t.TID != 0 && t.Pending != 0 {
			monitors, ids = append(monitors, t.Pending), append(ids, uint64(t.TID))
		}
	}
	ofVirtual, virtualIDs, err := r.queued()
	monitors, ids = append(monitors, ofVirtual...), append(ids, virtualIDs...)
	locks := make(map[uint64]Lock)
	for i, at := range monitors {
		l, met := locks[at]
		if !met && len(locks) < mostMonitors {
			l = r.monitor(at, threads)
			locks[at] = l
		}
		if l.Addr != 0 {
			found[ids[i]] = l
		}
	}
	return err
}

// monitor reads a monitor. It returns none if its object says that it is of no such monitor.
func (r *lockReader) monitor(at uint64, threads []unwind.JavaThread) Lock {
	m := r.rest.Monitor(at)
	if !r.hasMonitor(m.Object, at) {
		return Lock{}
	}
	l := Lock{Addr: m.Object, Monitor: true, Owner: r.ownerOf(&m, threads)}
	if c := r.lineage(r.classesOf([]uint64{m.Object})[0]).class; c != nil {
		l.Class = c.Name
	}
	if again := r.rest.Monitor(at); again != m {
		l.Owner = 0
	}
	return l
}

// hasMonitor reports whether an object has a monitor, and its mark refers to no other one. With UseObjectMonitorTable no
// mark refers to one.
func (h *heap) hasMonitor(object, monitor uint64) bool {
	if object == 0 {
		return false
	}
	const lowest = 3
	mark := h.words([]uint64{object + h.l.mark})[0]
	return mark&lowest == h.l.monitored && (h.l.tabled || mark&^lowest == monitor)
}

// ownerOf returns the task that owns a monitor; 0: none, or it is not known.
func (r *lockReader) ownerOf(m *unwind.Monitor, threads []unwind.JavaThread) uint64 {
	if place, known := r.rest.Owner(m, threads); known {
		return uint64(threads[place].TID)
	}
	switch {
	case r.virtual == nil:
	case m.Locked:
		return r.lockedBy()[m.Object]
	case m.Number != 0:
		if r.virtual.knows(m.Number) {
			return virtualTask | m.Number
		}
	}
	return 0
}

// lockedBy returns the virtual threads without a carrier that have locked objects, by object.
func (r *lockReader) lockedBy() map[uint64]uint64 {
	if r.locked != nil {
		return r.locked
	}
	r.locked = make(map[uint64]uint64)
	objects, _ := r.virtual.those((*virtual).hasLocked, nil, nil)
	for batch := range slices.Chunk(objects, batchOf) {
		threads, chunks, _ := r.virtual.read(batch, r.virtual.epoch)
		r.virtual.addLocked(threads, chunks, r.locked)
	}
	return r.locked
}

// addLocked adds the objects that the threads of StackChunks have locked. They are the lowest words of a stack. A collector
// may have made them as short as pointers in objects are, and then a flag tells.
func (v *virtualThreads) addLocked(threads []virtual, chunks []uint64, by map[uint64]uint64) {
	const hasBitmap = 1 << 4 // stackChunkOop.hpp, JDK 21 to 25
	var addrs []uint64
	var owners []int
	for i, chunk := range chunks {
		for n := range threads[i].locked {
			addrs, owners = append(addrs, chunk+v.l.words+8*uint64(n)), append(owners, i)
		}
	}
	objects := v.words(addrs)
	chunkCopies := v.copies(chunks, v.l.chunkSize)
	for i, object := range objects {
		if owner := owners[i]; threads[owner].id != 0 {
			if chunkCopies[owner].octet(v.l.queued.flags)&hasBitmap != 0 {
				object = v.heap.l.oop.address(object, 0)
			}
			by[object] = virtualTask | threads[owner].id
		}
	}
}

// queued returns the monitors that virtual threads without a carrier wait to enter, and who they are. A monitor is 0 where
// the thread has gone on.
func (r *lockReader) queued() (monitors, ids []uint64, err error) {
	if r.virtual == nil {
		return nil, nil, nil
	}
	threads, ids := r.virtual.those((*virtual).entersMonitor, nil, nil)
	l := &r.virtual.l.queued
	if len(threads) == 0 {
		return nil, nil, nil
	}
	if l.lacks != nil {
		return nil, nil, fmt.Errorf("find the monitors that virtual threads wait for: %w", l.lacks)
	}
	nodes := r.words(offset(threads, l.node))
	if !l.learned {
		if err := r.learnNodes(threads, nodes); err != nil {
			return nil, nil, fmt.Errorf("find the monitors that virtual threads wait for: %w", err)
		}
	}
	of, monitors := r.words(r.words(offset(nodes, l.thread))), r.words(offset(nodes, l.monitor))
	for i := range monitors {
		if of[i] != threads[i] {
			monitors[i] = 0
		}
	}
	return monitors, ids, nil
}

// offset returns the addresses of a field of structures.
func offset(all []uint64, at uint64) []uint64 {
	fields := make([]uint64, len(all))
	for i := range all {
		if all[i] != 0 {
			fields[i] = all[i] + at
		}
	}
	return fields
}

// learnNodes finds where nodes have the handle of their thread, and their monitor: the one word that leads back to the
// thread in each of some nodes, and the one that leads to a monitor whose object says so. Nodes of threads that go on
// meanwhile tell nothing.
func (r *lockReader) learnNodes(threads, nodes []uint64) error {
	l := &r.virtual.l.queued
	handles, monitors, n := ^uint8(0), ^uint8(0), 0
	for i, node := range nodes[:min(len(nodes), nodesToLearn)] {
		back, leads := r.wordsThat(node, threads[i])
		if back == 0 || leads == 0 {
			continue
		}
		handles, monitors, n = handles&back, monitors&leads, n+1
	}
	if n == 0 || bits.OnesCount8(handles) != 1 || bits.OnesCount8(monitors) != 1 {
		return errNodes
	}
	l.thread, l.monitor = 8*uint64(bits.TrailingZeros8(handles)), 8*uint64(bits.TrailingZeros8(monitors))
	l.learned = true
	return nil
}

// wordsThat tells which words of a node lead to its thread, and which to a monitor, as bits.
func (r *lockReader) wordsThat(node, thread uint64) (toThread, toMonitor uint8) {
	addrs := make([]uint64, wordsOfNode)
	for i := range addrs {
		addrs[i] = node + 8*uint64(i)
	}
	words := r.words(addrs)
	for i, at := range r.words(words) {
		if at == thread {
			toThread |= 1 << i
		} else if r.hasMonitor(r.rest.Monitor(words[i]).Object, words[i]) {
			toMonitor |= 1 << i
		}
	}
	return toThread, toMonitor
}
