package hotspot

import (
	"errors"
	"fmt"
	"slices"

	"github.com/ccmapd/ccmapd/sampler/internal/hotspot/classes"
	"github.com/ccmapd/ccmapd/sampler/internal/hotspot/unwind"
)

// Lock is what threads wait for: a lock of java.util.concurrent that a thread owns alone, or a monitor.
type Lock struct {
	Addr    uint64 // of its synchronizer, or of the monitor's object, until the next collection moves it
	Class   string // of that: a foreign text; "": not known
	Monitor bool
	Owner   uint64 // the task that owns it: see [VirtualID]; 0: not known, of a monitor
}

// Classes of the JDK that tell what a thread is parked for, and who owns that.
const (
	threadClass = "java.lang.Thread"
	ownableLock = "java.util.concurrent.locks.AbstractOwnableSynchronizer"
)

// Bounds of classes whose superclasses are looked at.
const (
	mostSupers = 1 << 8  // of one
	mostLooked = 1 << 15 // of all
)

// Locks returns the locks that threads were parked for at the last census, by thread: those that a thread owns alone, as
// a ReentrantLock or the writer's half of a ReentrantReadWriteLock; and the monitors that they waited to enter. Left out
// is what has no such owner, and what changed meanwhile. It fails where objects cannot be read. With monitors of virtual
// threads that cannot be found it has all others, and an error.
//
// A thread notes in parkBlocker what it parks for. That is a lock if its class descends from the JDK's class of
// synchronizers with an owner, which notes it in exclusiveOwnerThread.
func (ts *JavaThreads) Locks() (map[uint64]Lock, error) {
	if _, err := ts.objects(); err != nil {
		return nil, err
	}
	var found map[uint64]Lock
	var failed error
	err := ts.heap.still(func() {
		r := lockReader{heap: ts.heap, table: ts.p.classes, rest: ts.rest, met: make(map[uint64]lineage), left: mostLooked}
		if ts.virtual != nil && ts.virtual.found && ts.virtual.current(ts.last) {
			r.virtual = ts.virtual
		}
		found = make(map[uint64]Lock)
		failed = errors.Join(r.read(ts.last, found), r.readMonitors(ts.last, found))
	})
	if err != nil {
		return nil, fmt.Errorf("read objects of the JVM: %w", err)
	}
	if failed != nil {
		failed = fmt.Errorf("read objects of the JVM: %w", failed)
	}
	return found, failed
}

// lockReader reads what threads wait for, within one time without a collection.
type lockReader struct {
	*heap
	table *classes.Table
	rest  *unwind.AtRest
	met   map[uint64]lineage // by Klass*
	left  int                // classes that may be looked at

	virtual *virtualThreads // nil: none is known

	locked map[uint64]uint64 // see lockedBy
}

// lineage is what a class descends from.
type lineage struct {
	class        *classes.Class // nil: not a class
	thread, lock *classes.Class // the JDK's own, if it descends from them
}

// read adds the locks that threads are parked for.
func (r *lockReader) read(threads []unwind.JavaThread, found map[uint64]Lock) error {
	objects, current := r.objects(threads)
	parked, ids := r.parked(threads, current)
	if r.virtual != nil {
		parked, ids = r.virtual.those((*virtual).mayWaitForLock, parked, ids)
	}
	blocked, err := r.field(parked, func(l lineage) *classes.Class { return l.thread }, "parkBlocker", "Ljava/lang/Object;")
	if err != nil || blocked == 0 || len(parked) == 0 {
		return err
	}
	blockers := r.refs(parked, blocked)
	kinds := r.classesOf(blockers)
	for i, kind := range kinds {
		if r.lineage(kind).lock == nil {
			blockers[i] = 0
		}
	}
	owned, err := r.field(blockers, func(l lineage) *classes.Class { return l.lock }, "exclusiveOwnerThread", "Ljava/lang/Thread;")
	if err != nil || owned == 0 {
		return err
	}
	owners := r.refs(blockers, owned)
	r.addVirtual(objects, owners)
	again, ownersAgain := r.refs(parked, blocked), r.refs(blockers, owned)
	for i, lock := range blockers {
		owner := objects[owners[i]]
		if lock != 0 && again[i] == lock && ownersAgain[i] == owners[i] && owner != 0 {
			found[ids[i]] = Lock{Addr: lock, Class: r.lineage(kinds[i]).class.Name, Owner: owner}
		}
	}
	return nil
}

// objects returns the threads by their objects: by the java.lang.Thread of each, and by the virtual thread that it runs.
// current is what code in each thread takes for the thread that it runs in; 0: not known.
func (r *lockReader) objects(threads []unwind.JavaThread) (byObject map[uint64]uint64, current []uint64) {
	handles, virtual := make([]uint64, len(threads)), make([]uint64, len(threads))
	for i := range threads {
		if t := &threads[i]; t.TID != 0 {
			handles[i], virtual[i] = t.Object, t.Virtual
		}
	}
	byObject, current = make(map[uint64]uint64, len(threads)), r.words(handles)
	for i, virtual := range r.words(virtual) {
		for _, object := range []uint64{current[i], virtual} {
			if object != 0 {
				byObject[object] = uint64(threads[i].TID)
			}
		}
		if virtual != 0 {
			current[i] = virtual
		}
	}
	return byObject, current
}

// parked returns the objects of the threads that may be parked, and who they are.
func (r *lockReader) parked(threads []unwind.JavaThread, current []uint64) (objects, ids []uint64) {
	for i := range threads {
		t := &threads[i]
		if t.TID != 0 && current[i] != 0 && t.State == unwind.Blocked && t.Pending == 0 && t.Waiting == 0 {
			objects, ids = append(objects, current[i]), append(ids, uint64(t.TID))
		}
	}
	return objects, ids
}

// addVirtual adds the owners that are virtual threads without a carrier.
func (r *lockReader) addVirtual(byObject map[uint64]uint64, owners []uint64) {
	if r.virtual == nil {
		return
	}
	unknown := slices.DeleteFunc(slices.Clone(owners), func(at uint64) bool { return at == 0 || byObject[at] != 0 })
	slices.Sort(unknown)
	for batch := range slices.Chunk(slices.Compact(unknown), batchOf) {
		threads, _, _ := r.virtual.read(batch, 0)
		for i := range threads {
			if r.virtual.knows(threads[i].id) {
				byObject[batch[i]] = virtualTask | threads[i].id
			}
		}
	}
}

// field returns the offset of a field of the class that some of the objects descend from; 0 if none does.
func (r *lockReader) field(objects []uint64, of func(lineage) *classes.Class, name, descriptor string) (uint64, error) {
	for _, klass := range r.classesOf(objects) {
		if c := of(r.lineage(klass)); c != nil {
			return r.table.Field(c, name, descriptor)
		}
	}
	return 0, nil
}

// lineage returns what a class descends from.
func (r *lockReader) lineage(klass uint64) lineage {
	if klass == 0 {
		return lineage{}
	}
	l, known := r.met[klass]
	if known {
		return l
	}
	at := klass
	for i := 0; i < mostSupers && r.left > 0; i++ {
		r.left--
		c, err := r.table.Class(at)
		if err != nil {
			break
		}
		if l.class == nil {
			l.class = c
		}
		switch {
		case c.Loader != "":
		case c.Name == threadClass:
			l.thread = c
		case c.Name == ownableLock:
			l.lock = c
		}
		at = c.Super
	}
	r.met[klass] = l
	return l
}
