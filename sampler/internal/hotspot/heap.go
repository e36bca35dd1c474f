package hotspot

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/ccmapd/ccmapd/sampler/internal/hotspot/classes"
	"github.com/ccmapd/ccmapd/sampler/internal/hotspot/vmstructs"
)

// heap reads objects of Java from outside, while the JVM runs. A collector moves objects, so an address is one for the
// time between two collections: see [heap.still]. Words are read whole, and each may be any number.
type heap struct {
	memory vmstructs.Memory
	l      heapLayout

	near neighbours
}

// heapLayout is how the JVM writes pointers to objects and classes, and where it counts collections.
type heapLayout struct {
	collector           uint64 // address of the pointer to the collector
	active, collections uint64 // offsets in it: that it stops the program now, and how often it has

	oop   packed // pointers in objects
	klass packed // an object's pointer to its class
	class uint64 // offset of that pointer

	mark      uint64 // of an object's mark word
	monitored uint64 // its lowest two bits, of an object that has a monitor
	tabled    bool   // a table has the monitors of objects; else the other bits of the mark
}

// packed is how pointers are written that may have fewer bits than addresses.
type packed struct {
	bits  uint   // 64: they are addresses
	from  uint   // the lowest of the bits in their word
	base  uint64 // what is added
	shift uint   // by how many bits they are shifted
}

// address returns the address that a word of 8 bytes has at an offset of its beginning.
func (p packed) address(word uint64, offset uint64) uint64 {
	if p.bits == 64 {
		return word
	}
	n := word >> (8*(offset&4) + uint64(p.from)) & (1<<p.bits - 1)
	if n == 0 {
		return 0
	}
	return p.base + n<<p.shift
}

// movers are the collectors that move objects only while the program stops, and then leave plain pointers.
var movers = []string{"UseG1GC", "UseParallelGC", "UseSerialGC", "UseEpsilonGC"}

// coloured are the collectors that move objects while the program runs, by their flags.
var coloured = [][2]string{{"UseZGC", "ZGC"}, {"UseShenandoahGC", "Shenandoah"}}

// newHeap returns the reader of a JVM's objects. It fails for collectors that move objects while the program runs.
func newHeap(vm *vmstructs.VM) (*heap, error) {
	is := func(flag string) bool {
		on, ok := vm.Flag(flag)
		return ok && on != 0
	}
	for _, c := range coloured {
		if is(c[0]) {
			return nil, fmt.Errorf("its collector %s moves objects while the program runs; G1, Parallel and Serial are supported", c[1])
		}
	}
	known := false
	for _, flag := range movers {
		known = known || is(flag)
	}
	if !known {
		return nil, errors.New("its collector is not known; G1, Parallel and Serial are supported")
	}
	l, err := newHeapLayout(vm, is)
	if err != nil {
		return nil, fmt.Errorf("learn the layout of objects: %w", err)
	}
	return &heap{memory: vm.Memory, l: l}, nil
}

func newHeapLayout(vm *vmstructs.VM, is func(flag string) bool) (heapLayout, error) {
	q := vm.Query()
	l := heapLayout{
		collector: q.Static("Universe._collectedHeap"), collections: q.Offset("CollectedHeap._total_collections"),
		active: q.Offset("CollectedHeap._is_stw_gc_active", "CollectedHeap._is_gc_active"),
		oop:    packed{bits: 64}, klass: packed{bits: 64},
		class: q.Offset("oopDesc._metadata._klass"),
		mark:  q.Offset("oopDesc._mark"), monitored: uint64(q.Const("markWord::monitor_value")), tabled: is("UseObjectMonitorTable"),
	}
	if is("UseCompressedOops") {
		l.oop = packedBy(vm, q, 32, "CompressedOops._base", "CompressedOops._narrow_oop._base", "CompressedOops._shift", "CompressedOops._narrow_oop._shift")
	}
	compact := is("UseCompactObjectHeaders")
	if compact || is("UseCompressedClassPointers") {
		l.klass = packedBy(vm, q, 32, "CompressedKlassPointers._base", "CompressedKlassPointers._narrow_klass._base",
			"CompressedKlassPointers._shift", "CompressedKlassPointers._narrow_klass._shift")
		l.class = q.Offset("oopDesc._metadata._compressed_klass")
	}
	if compact { // the class is in the upper bits of the object's first word
		from := min(q.Const("markWord::klass_shift"), 63)
		l.class, l.klass.from, l.klass.bits = q.Offset("oopDesc._mark"), uint(max(from, 0)), uint(64-max(from, 0))
	}
	const most = 1 << 12 // of an offset
	if at := max(l.active, l.collections, l.class, l.mark); q.Err() == nil && at > most {
		return l, fmt.Errorf("offsets of %d bytes in the JVM's tables: %w", at, vmstructs.ErrUnsupported)
	}
	return l, q.Err()
}

// packedBy reads how pointers are written: their base and shift under the names of several releases.
func packedBy(vm *vmstructs.VM, q *vmstructs.Query, bits uint, base, oldBase, shift, oldShift string) packed {
	at, by := q.Static(base, oldBase), q.Static(shift, oldShift)
	p := packed{bits: bits}
	p.base, _ = vm.Word(at)
	n, _ := vm.Word(by)
	p.shift = uint(uint32(n)) & 31
	return p
}

// words returns the words at addresses; 0 where nothing can be read.
func (h *heap) words(addrs []uint64) []uint64 {
	all, bufs := make([]byte, 8*len(addrs)), make([][]byte, len(addrs))
	for i := range bufs {
		bufs[i] = all[8*i : 8*i+8]
	}
	classes.ReadMany(h.memory, addrs, bufs)
	words := make([]uint64, len(addrs))
	for i := range words {
		if bufs[i] != nil {
			words[i] = binary.LittleEndian.Uint64(bufs[i])
		}
	}
	return words
}

// pointers returns the pointers that objects have at an offset; 0 of an object that is 0.
func (h *heap) pointers(objects []uint64, offset uint64, as packed) []uint64 {
	addrs := make([]uint64, len(objects))
	for i, object := range objects {
		if object != 0 {
			addrs[i] = object + offset&^7
		}
	}
	found := h.words(addrs)
	for i, word := range found {
		found[i] = as.address(word, offset)
	}
	return found
}

// refs returns the objects that fields of objects point to.
func (h *heap) refs(objects []uint64, offset uint64) []uint64 {
	return h.pointers(objects, offset, h.l.oop)
}

// classesOf returns the classes of objects, as addresses of Klasses.
func (h *heap) classesOf(objects []uint64) []uint64 {
	return h.pointers(objects, h.l.class, h.l.klass)
}

// errMoving says that there was no time without a collection.
var errMoving = errors.New("its collector moved objects at each try; ask again")

// still calls read until no collection has begun or been under way meanwhile: then all addresses that it has met were of
// one time. It gives up after some tries.
func (h *heap) still(read func()) error {
	const (
		tries = 20
		pause = 5 * time.Millisecond
	)
	for range tries {
		before, quiet := h.epoch()
		if quiet {
			read()
			if after, quiet := h.epoch(); quiet && after == before {
				return nil
			}
		}
		time.Sleep(pause)
	}
	return errMoving
}

// epoch returns how many collections have begun, and whether none is under way.
func (h *heap) epoch() (collections uint32, quiet bool) {
	at := h.words([]uint64{h.l.collector})[0]
	if at == 0 {
		return 0, false
	}
	var active [1]byte
	var count [4]byte
	n, _ := h.memory.ReadMany([]uint64{at + h.l.active, at + h.l.collections}, [][]byte{active[:], count[:]})
	return binary.LittleEndian.Uint32(count[:]), n == 2 && active[0] == 0
}
