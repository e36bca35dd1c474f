package unwind

import (
	"encoding/binary"
	"fmt"

	"github.com/ccmapd/ccmapd/sampler/internal/hotspot/vmstructs"
)

// number is a field that holds a number.
type number struct {
	at     uint64 // bytes from the beginning of its object
	width  int    // bytes; 0: there is no such field
	signed bool
}

// widths are the types of numbers that are read here. Any other type is an int, or an
// enumeration, which has the same width.
var widths = map[string]number{
	"u2": {width: 2}, "uint16_t": {width: 2}, "int16_t": {width: 2, signed: true},
	"int": {width: 4, signed: true}, "uint": {width: 4}, "uint32_t": {width: 4},
}

// numberOf returns a field of the JVM's tables; the zero number if it does not exist.
func numberOf(vm *vmstructs.VM, name string) number {
	at, ok := vm.Offset(name)
	if !ok {
		return number{}
	}
	typ, _ := vm.FieldType(name)
	n, ok := widths[typ]
	if !ok {
		n = widths["int"]
	}
	n.at = at
	return n
}

// of returns the number in an object. It is 0 where the object is too short.
func (n number) of(object []byte) int {
	if n.width == 0 || n.at > uint64(len(object)) || uint64(len(object))-n.at < uint64(n.width) {
		return 0
	}
	b := object[n.at:]
	switch {
	case n.width == 2 && n.signed:
		return int(int16(binary.LittleEndian.Uint16(b)))
	case n.width == 2:
		return int(binary.LittleEndian.Uint16(b))
	case n.signed:
		return int(int32(binary.LittleEndian.Uint32(b)))
	}
	return int(binary.LittleEndian.Uint32(b))
}

// word returns the word at an offset of an object; 0 where the object is too short.
func word(object []byte, at uint64) uint64 {
	if at > uint64(len(object)) || uint64(len(object))-at < 8 {
		return 0
	}
	return binary.LittleEndian.Uint64(object[at:])
}

// layout has the offsets and addresses that the tables of a JVM give.
type layout struct {
	// Code cache.
	heaps               uint64 // address of a pointer to the array of heaps
	lowBound, highBound uint64 // addresses of the words that bound the code cache
	arrayLen            number
	arrayData           uint64
	memory, segmap      uint64 // in a heap: where VirtualSpaces begin
	low, high           uint64 // in a VirtualSpace
	log2Segment         number
	block               uint64 // bytes of a HeapBlock
	heapSize            uint64
	callStub            uint64 // address of the word that holds the return address into the call stub
	continuation        uint64 // the same of enterSpecial; 0: the JVM has no virtual threads
	sizeBlob, sizeNM    uint64
	name, codeBegin     uint64
	size, frameSize     number
	frameComplete       number
	code, data          number // offsets, JDK 23 and later
	codeEnd             uint64
	nm                  nmethodLayout
	wrapperAnchor       uint64 // in a JavaCallWrapper
	threads             threadLayout
	pcOffset, pcScope   number
	sizePC              uint64
}

// nmethodLayout says where a compiled method has what.
type nmethodLayout struct {
	method     uint64
	compileID  number
	pcs, deps  number // offsets: where the descriptors begin, and where they end in JDK 17
	scopes     uint64 // address of the scopes' data, JDK 17
	immutable  uint64 // address of the data that does not change; see isSplit
	immSize    number
	scopesAt   number // offset there
	metadata   number // offset of the table of methods, JDK 17
	mutable    uint64 // address of the data that changes
	mutSize    number
	relocation number // bytes at its beginning
	isSplit    bool   // the data is not in the code cache: JDK 24 and later

	deopt, deoptMH         uint64 // addresses of the handlers, JDK 17
	deoptAt, deoptMHAt     number // offsets of the handlers
	origPC                 number
	hasDeopt, hasDeoptAddr bool
}

// threadLayout says how an OS thread is found among the JavaThreads.
type threadLayout struct {
	list          uint64 // address of a pointer to the ThreadsList
	length        number
	threads       uint64
	osthread, tid uint64
	anchor        uint64
	sp, fp, pc    uint64 // in the anchor
}

func newLayout(vm *vmstructs.VM) (*layout, error) {
	q := vm.Query()
	l := &layout{
		heaps:    q.Static("CodeCache._heaps"),
		lowBound: q.Static("CodeCache._low_bound"), highBound: q.Static("CodeCache._high_bound"),
		arrayLen: numberOf(vm, "GrowableArrayBase._len"), arrayData: q.Offset("GrowableArray<int>._data"),
		memory: q.Offset("CodeHeap._memory"), segmap: q.Offset("CodeHeap._segmap"), log2Segment: numberOf(vm, "CodeHeap._log2_segment_size"),
		low: q.Offset("VirtualSpace._low"), high: q.Offset("VirtualSpace._high"),
		block: q.Size("HeapBlock"), heapSize: q.Size("CodeHeap"),
		callStub: q.Static("StubRoutines._call_stub_return_address"),
		sizeBlob: q.Size("CodeBlob"), sizeNM: q.Size("nmethod"),
		name: q.Offset("CodeBlob._name"), size: numberOf(vm, "CodeBlob._size"),
		frameSize: numberOf(vm, "CodeBlob._frame_size"), frameComplete: numberOf(vm, "CodeBlob._frame_complete_offset"),
		wrapperAnchor: q.Offset("JavaCallWrapper._anchor"),
		pcOffset:      numberOf(vm, "PcDesc._pc_offset"), pcScope: numberOf(vm, "PcDesc._scope_decode_offset"), sizePC: q.Size("PcDesc"),
	}
	l.continuation, _ = vm.Static("ContinuationEntry._return_pc")
	if l.code = numberOf(vm, "CodeBlob._code_offset"); l.code.width == 0 {
		l.codeBegin, l.codeEnd = q.Offset("CodeBlob._code_begin"), q.Offset("CodeBlob._code_end")
	} else {
		l.data = numberOf(vm, "CodeBlob._data_offset")
	}
	l.nm = newNMethodLayout(vm, q)
	l.threads = newThreadLayout(vm, q)
	if err := q.Err(); err != nil {
		return nil, err
	}
	return l, l.check()
}

func newNMethodLayout(vm *vmstructs.VM, q *vmstructs.Query) nmethodLayout {
	n := nmethodLayout{
		method:    q.Offset("nmethod._method", "CompiledMethod._method"),
		compileID: numberOf(vm, "nmethod._compile_id"),
		pcs:       numberOf(vm, "nmethod._scopes_pcs_offset"), origPC: numberOf(vm, "nmethod._orig_pc_offset"),
		metadata: numberOf(vm, "nmethod._metadata_offset"),
		deoptAt:  numberOf(vm, "nmethod._deopt_handler_offset"), deoptMHAt: numberOf(vm, "nmethod._deopt_mh_handler_offset"),
	}
	n.deopt, n.hasDeoptAddr = vm.Offset("CompiledMethod._deopt_handler_begin")
	n.deoptMH, _ = vm.Offset("CompiledMethod._deopt_mh_handler_begin")
	n.hasDeopt = n.deoptAt.width != 0
	if n.immutable, n.isSplit = vm.Offset("nmethod._immutable_data"); n.isSplit {
		n.immSize, n.scopesAt = numberOf(vm, "nmethod._immutable_data_size"), numberOf(vm, "nmethod._scopes_data_offset")
		n.mutable, _ = vm.Offset("CodeBlob._mutable_data")
		n.mutSize, n.relocation = numberOf(vm, "CodeBlob._mutable_data_size"), numberOf(vm, "CodeBlob._relocation_size")
		return n
	}
	n.scopes, n.deps = q.Offset("CompiledMethod._scopes_data_begin", "nmethod._scopes_data_begin"), numberOf(vm, "nmethod._dependencies_offset")
	return n
}

func newThreadLayout(vm *vmstructs.VM, q *vmstructs.Query) threadLayout {
	return threadLayout{
		list: q.Static("ThreadsSMRSupport._java_thread_list"), length: numberOf(vm, "ThreadsList._length"), threads: q.Offset("ThreadsList._threads"),
		osthread: q.Offset("Thread._osthread", "JavaThread._osthread"), tid: q.Offset("OSThread._thread_id"),
		anchor: q.Offset("JavaThread._anchor"),
		sp:     q.Offset("JavaFrameAnchor._last_Java_sp"), fp: q.Offset("JavaFrameAnchor._last_Java_fp"), pc: q.Offset("JavaFrameAnchor._last_Java_pc"),
	}
}

// mostObject bounds the bytes of an object of the JVM that is read whole, and the offsets
// of its fields.
const mostObject = 1 << 14

// check refuses tables that would make the unwinder read nonsense.
func (l *layout) check() error {
	for _, n := range []number{l.arrayLen, l.log2Segment, l.size, l.frameSize, l.frameComplete, l.nm.pcs, l.threads.length, l.pcOffset, l.pcScope} {
		if n.width == 0 {
			return fmt.Errorf("find a number in the JVM's tables: %w", vmstructs.ErrUnsupported)
		}
	}
	for _, size := range []uint64{l.sizeBlob, l.sizeNM, l.heapSize, l.block, l.sizePC,
		l.arrayData, l.memory, l.segmap, l.low, l.high, l.name, l.threads.threads, l.threads.osthread, l.threads.tid, l.threads.anchor,
		l.threads.sp, l.threads.fp, l.threads.pc, l.wrapperAnchor} {
		if size > mostObject {
			return fmt.Errorf("the JVM's tables have an offset or a size of %d bytes: %w", size, vmstructs.ErrUnsupported)
		}
	}
	if l.sizePC < 8 || l.sizeBlob > l.sizeNM || l.high < 8 && l.low < 8 && l.high == l.low {
		return fmt.Errorf("the JVM's tables make no sense: %w", vmstructs.ErrUnsupported)
	}
	return nil
}
