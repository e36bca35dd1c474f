package hotspot

import (
	"slices"

	"github.com/ccmapd/ccmapd/sampler/internal/hotspot/classes"
	"github.com/ccmapd/ccmapd/sampler/internal/hotspot/unwind"
)

// containers walks all sets in which the JDK keeps virtual threads (ThreadContainers.java of JDK 25):
//
//   - TrackingRootContainer.VTHREADS has those that belong to no other container;
//   - CONTAINER_REGISTRY refers to containers without an owner, as executors: each has a set of threads;
//   - a thread's scopes may be containers of its own: those of StructuredTaskScope.
//
// A set is the keys of a ConcurrentHashMap: a table of lists. While it grows, the lists are in two tables. All of it may
// change, or lie, while it is read: a node is visited once for each way to it, and all work has bounds.
type containers struct {
	*virtualThreads
	epoch uint32
	left  int      // of mostNodes
	gone  bool     // a collection came between
	sets  []uint64 // to be read
	raw   []byte   // of a table

	heads, keys, next, spare []uint64 // reused
	met                      map[uint64]bool
	objects                  []uint64 // threads to be read
}

// owner is a class whose objects have a set of threads, or lead to one that has.
type owner struct {
	at   uint64 // of the pointer to the set; 0: it has none
	then uint64 // … in what that points to; 0: it is the set
}

// ownersOfSets are the JDK's classes that have a set, or lead to one: the field, its type, and the field of the ThreadFlock
// that it points to. The root of a tree of a map leads to the first of its nodes.
var ownersOfSets = map[string][3]string{
	"java.util.concurrent.ThreadPerTaskExecutor": {"threads", setType, ""},
	"jdk.internal.vm.SharedThreadContainer":      {"virtualThreads", setType, ""},
	flockClass + "$ThreadContainerImpl":          {"flock", "Ljdk/internal/misc/ThreadFlock;", "threads"},
	mapClass + "$TreeBin":                        {"first", "Ljava/util/concurrent/ConcurrentHashMap$TreeNode;", ""},
}

const (
	setType    = "Ljava/util/Set;"
	flockClass = "jdk.internal.misc.ThreadFlock"
)

// Bounds of a census.
const (
	mostNodes   = 8 * mostVirtual // of maps, in all tries of a census
	slotsOf     = 8               // as many slots of a table count for a node
	nodesOfRead = 64              // a call of the kernel counts for so many nodes
	mostSlots   = 1 << 24         // of one table
	mostSets    = 1 << 18
	mostScopes  = 16 // of one thread, one in another
	mostKinds   = 1 << 12
	batchOf     = 2048 // objects are read at once
)

// begin begins a try, between two collections.
func (w *containers) begin() {
	w.epoch, _ = w.heap.epoch()
	w.gone, w.sets, w.objects, w.met = false, nil, nil, make(map[uint64]bool)
}

// spends reports whether some work may be done: nothing has spent what a census may take, nor has a collection begun.
func (w *containers) spends(nodes int) bool {
	if w.left -= nodes; w.left < 0 || w.gone {
		return false
	}
	now, quiet := w.heap.epoch()
	w.gone = !quiet || now != w.epoch
	return !w.gone
}

// read reads all virtual threads.
func (w *containers) read(platform []unwind.JavaThread) {
	if !w.l.untracked {
		w.addSets([]uint64{w.static(w.l.roots)})
	}
	w.eachMember(w.static(w.l.containers), func(references []uint64) {
		w.addContainers(w.refs(references, w.l.referent))
	})
	w.ofPlatform(platform)
	for len(w.sets) > 0 && w.spends(4*nodesOfRead) {
		set := w.sets[0]
		w.sets = w.sets[1:]
		w.eachMember(set, func(threads []uint64) {
			if w.objects = append(w.objects, threads...); len(w.objects) >= batchOf {
				w.flush()
			}
		})
		if len(w.sets) == 0 {
			w.flush()
		}
	}
}

// flush reads the threads that were met.
func (w *containers) flush() {
	for batch := range slices.Chunk(w.objects, batchOf) {
		threads, _, scopes := w.virtualThreads.read(batch, w.epoch)
		if !w.spends(len(scopes)) {
			break
		}
		for i := range threads {
			if threads[i].id != 0 {
				w.put(i)
			}
		}
		w.addScopes(scopes)
	}
	w.objects = w.objects[:0]
}

// ofPlatform adds the sets of threads with a stack of their own.
func (w *containers) ofPlatform(platform []unwind.JavaThread) {
	handles := make([]uint64, len(platform))
	for i := range platform {
		handles[i] = platform[i].Object
	}
	w.addScopes(w.refs(w.words(handles), w.l.scopes))
}

// static returns what a static field points to.
func (w *containers) static(f staticField) uint64 {
	handle := w.words([]uint64{f.class + w.l.mirror})
	return w.refs(w.words(handle), f.at)[0]
}

// addSets adds sets, each once.
func (w *containers) addSets(sets []uint64) {
	for _, set := range sets {
		if set != 0 && !w.met[set] && len(w.met) < mostSets {
			w.met[set] = true
			w.sets = append(w.sets, set)
		}
	}
}

// addScopes adds the sets of scopes, and of those that these are in.
func (w *containers) addScopes(scopes []uint64) {
	for range mostScopes {
		scopes = slices.DeleteFunc(scopes, func(at uint64) bool { return at == 0 })
		if len(scopes) == 0 || !w.spends(4*nodesOfRead+len(scopes)) {
			return
		}
		w.addContainers(scopes)
		scopes = w.refs(scopes, w.l.previous)
	}
}

// addContainers adds the sets of containers.
func (w *containers) addContainers(all []uint64) {
	fields := make([]owner, len(all))
	first := make([]uint64, len(all))
	for i, class := range w.classesOf(all) {
		if fields[i] = w.ownerOf(class); fields[i].at != 0 && w.left > 0 {
			w.left -= nodesOfRead
			first[i] = w.refs(all[i:i+1], fields[i].at)[0]
		}
		if fields[i].then != 0 && first[i] != 0 {
			first[i] = w.refs(first[i:i+1], fields[i].then)[0]
		}
	}
	w.addSets(first)
}

// ownerOf returns where objects of a class have a set of threads.
func (v *virtualThreads) ownerOf(class uint64) owner {
	if o, known := v.kinds[class]; known || class == 0 {
		return o
	}
	if v.kinds == nil || len(v.kinds) >= mostKinds {
		v.kinds = make(map[uint64]owner)
	}
	v.kinds[class] = v.newOwner(class)
	return v.kinds[class]
}

// findOwner finds where objects of a class have a set of threads.
func findOwner(table *classes.Table, class uint64) (o owner) {
	c, err := table.Class(class)
	if err != nil || c.Loader != "" {
		return owner{}
	}
	fields, known := ownersOfSets[c.Name]
	if !known {
		return owner{}
	}
	list := classList{table: table, named: map[string]*classes.Class{c.Name: c}}
	if fields[2] != "" {
		if list.find(flockClass) != nil {
			return owner{}
		}
		o.then = list.field(flockClass, fields[2], setType)
		list.named[c.Name] = c
	}
	o.at = list.field(c.Name, fields[0], fields[1])
	if list.err != nil {
		return owner{}
	}
	return o
}

// eachMember visits the members of a set, some at once.
func (w *containers) eachMember(set uint64, visit func([]uint64)) {
	of := w.refs([]uint64{set}, w.l.keys)
	tables := []uint64{w.refs(of, w.l.table)[0], w.refs(of, w.l.nextTable)[0]}
	for _, table := range tables {
		if table != 0 {
			w.eachOfTable(table, visit)
		}
	}
}

// eachOfTable visits the keys of a map's table.
func (w *containers) eachOfTable(table uint64, visit func([]uint64)) {
	size := w.heap.l.oopSize()
	head := w.copies([]uint64{table}, w.l.array.length&^7+8)[0]
	length := uint64(max(0, head.number(w.l.array.length)))
	if length > mostSlots {
		return
	}
	for at := uint64(0); at < length && w.spends(nodesOfRead+batchOf/slotsOf); at += batchOf {
		w.raw = zeroed(w.raw, int(size*min(batchOf, length-at)+8))
		raw, heads := w.raw, w.heads[:0]
		if w.memory.Read(table+w.l.array.data+size*at, raw[:len(raw)-8]) != nil {
			return
		}
		for i := uint64(0); i+8 < uint64(len(raw)); i += size {
			word := object(raw).word(i)
			if size == 4 {
				word &= 1<<32 - 1
			}
			if o := w.heap.l.oop.address(word, 0); o != 0 {
				heads = append(heads, o)
			}
		}
		w.heads = heads
		w.eachOfNodes(heads, visit)
	}
}

// A node's hash tells that it is no key's (ConcurrentHashMap.java).
const hashTree = -2 // it is the root of a tree, whose nodes are a list, too

// eachOfNodes visits the keys of lists of nodes.
func (w *containers) eachOfNodes(nodes []uint64, visit func([]uint64)) {
	for len(nodes) > 0 && w.spends(nodesOfRead+len(nodes)) {
		keys, next := w.keys[:0], w.next[:0]
		for i, o := range w.copies(nodes, w.l.nodeSize) {
			switch hash := o.number(w.l.hash); {
			case o == nil:
			case hash >= 0:
				keys = append(keys, w.ref(o, w.l.key))
				if n := w.ref(o, w.l.next); n != 0 {
					next = append(next, n)
				}
			case hash == hashTree:
				next = append(next, w.firstOf(nodes[i]))
			}
		}
		w.keys, w.next, w.spare = keys, w.spare, next // one is read while the other is filled
		visit(keys)
		nodes = next
	}
}

// firstOf returns the first node of a tree.
func (w *containers) firstOf(tree uint64) uint64 {
	at := w.ownerOf(w.classesOf([]uint64{tree})[0]).at
	if at == 0 {
		return 0
	}
	return w.refs([]uint64{tree}, at)[0]
}
