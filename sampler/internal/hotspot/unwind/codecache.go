package unwind

import (
	"bytes"
	"strings"
)

// heap is a part of the code cache: segments of one size, and a map with a byte each. A
// byte of 0 begins a block, 255 is free, any other number leads so many segments back
// (heap.cpp).
type heap struct {
	low, high uint64 // committed memory
	segments  []byte
	log2      uint
}

const freeSegment = 255

// blobKind says what the code of a blob is.
type blobKind uint8

const (
	otherBlob blobKind = iota
	methodBlob
	nativeBlob // the way into a native method
	interpreterBlob
	stubBlob // StubRoutines
)

// blob is a piece of generated code.
type blob struct {
	kind         blobKind
	name         string
	start        uint64
	begin, end   uint64 // of its instructions
	frame        uint64 // bytes of its frame, return address included; 0: none, or not known
	complete     uint64 // offset in its code from which on the frame is set up
	method       uint64 // of compiled methods
	compileID    int
	origPC       uint64 // offset from SP of the return address of a frame that is deoptimized
	deopt        [2]uint64
	descriptors  []descriptor
	scopes       []byte
	methods      []byte
	born         uint64 // when it was first met, CLOCK_MONOTONIC, ns
	read         uint64 // when its tables were read, the same
	checked      uint64 // when it was last seen to be the same, the same
	held         int
	hasNoScopes  bool
	nameAt, size uint64
}

// Bounds of the code cache.
const (
	maxHeaps    = 16
	maxSegments = 64 << 20 // bytes of all maps
	maxHops     = 1 << 16
	maxBlobData = 4 << 20  // bytes of one table of a blob
	maxHeld     = 64 << 20 // bytes that are kept of all blobs
	maxName     = 64       // bytes of a blob's name
	maxFrame    = 1 << 20  // bytes of a frame

	// freshFor is how long a blob is believed to be the one that was read, ns. Code is
	// replaced some times a second at most.
	freshFor = 50e6

	// youngFor is how long a blob may still be filled by the JVM, ns.
	youngFor = 1e9
)

// codeCache knows the code that the JVM has generated. What it keeps is a copy that grows
// old: a miss reads it again.
type codeCache struct {
	*memory
	l     *layout
	heaps []heap
	blobs map[uint64]*blob // by the address of their block's memory
	names map[uint64]string
	held  int
	now   uint64 // CLOCK_MONOTONIC, ns

	low, high    uint64 // addresses that are reserved for all heaps; 0 before the JVM has any
	renewed      bool   // the heaps were read in this moment
	callStub     uint64
	continuation uint64
	coding       coding
	agree        [codings]int // compiled methods whose outermost scope was theirs
}

// beginMoment begins a moment.
func (c *codeCache) beginMoment(now uint64) {
	c.now, c.renewed = now, false
	if c.held > maxHeld {
		c.blobs, c.held = nil, 0
	}
	if c.blobs == nil {
		c.blobs = make(map[uint64]*blob)
	}
	if c.high == 0 {
		c.low, c.high = c.word(c.l.lowBound), c.word(c.l.highBound)
	}
	if c.callStub == 0 {
		c.callStub = c.word(c.l.callStub)
	}
	if c.continuation == 0 && c.l.continuation != 0 {
		c.continuation = c.word(c.l.continuation)
	}
}

// contains reports whether an address is in the code cache, which may be partly used.
func (c *codeCache) contains(pc uint64) bool { return pc >= c.low && pc < c.high }

// find returns the blob that has an instruction at pc, or nil. The heaps are read again at
// most once a moment: they grow.
func (c *codeCache) find(pc uint64) *blob {
	if !c.contains(pc) {
		return nil
	}
	if b := c.look(pc); b != nil || c.renewed {
		return b
	}
	c.renewed = true
	c.readHeaps()
	return c.look(pc)
}

func (c *codeCache) look(pc uint64) *blob {
	for i := range c.heaps {
		if h := &c.heaps[i]; pc >= h.low && pc < h.high {
			if block, ok := c.blockOf(h, pc); ok {
				return c.blobAt(block+c.l.block, pc)
			}
			return nil
		}
	}
	return nil
}

// blockOf returns the block that has an address.
func (c *codeCache) blockOf(h *heap, pc uint64) (uint64, bool) {
	i := (pc - h.low) >> h.log2
	for range maxHops {
		if i >= uint64(len(h.segments)) || !c.work(1) {
			return 0, false
		}
		back := uint64(h.segments[i])
		switch {
		case back == freeSegment || back > i:
			return 0, false
		case back == 0:
			return h.low + i<<h.log2, true
		}
		i -= back
	}
	return 0, false
}

// readHeaps reads where the heaps are, and their segment maps.
func (c *codeCache) readHeaps() {
	array := c.word(c.l.heaps)
	head, err := c.readBytes(array, int(max(c.l.arrayData, c.l.arrayLen.at)+8))
	if err != nil {
		return
	}
	n := c.l.arrayLen.of(head)
	if n <= 0 || n > maxHeaps {
		return
	}
	list, err := c.readBytes(word(head, c.l.arrayData), 8*n)
	if err != nil {
		return
	}
	heaps, left := c.heaps[:0:0], maxSegments
	for i := range n {
		h, ok := c.readHeap(word(list, uint64(8*i)), left)
		if !ok {
			continue // one that is still empty
		}
		left -= len(h.segments)
		heaps = append(heaps, h)
	}
	if len(heaps) > 0 {
		c.heaps = heaps
	}
}

func (c *codeCache) readHeap(addr uint64, most int) (heap, bool) {
	raw, err := c.readBytes(addr, int(c.l.heapSize))
	if err != nil {
		return heap{}, false
	}
	h := heap{low: word(raw, c.l.memory+c.l.low), high: word(raw, c.l.memory+c.l.high), log2: uint(c.l.log2Segment.of(raw))}
	first, last := word(raw, c.l.segmap+c.l.low), word(raw, c.l.segmap+c.l.high)
	if h.log2 < 3 || h.log2 > 20 || h.low >= h.high || first >= last || !plausible(h.high) {
		return heap{}, false
	}
	count := min((h.high-h.low)>>h.log2, last-first)
	if count > uint64(most) {
		return heap{}, false
	}
	h.segments, err = c.readBytes(first, int(count))
	return h, err == nil
}

// blobAt returns the blob at an address, if it has an instruction at pc.
func (c *codeCache) blobAt(start, pc uint64) *blob {
	b := c.blobs[start]
	if b != nil && c.now-b.checked >= freshFor && !c.same(b) {
		b = nil
	}
	if b != nil && b.hasNoScopes {
		b = c.again(b)
	}
	if b == nil {
		if b = c.readBlob(start); b == nil {
			return nil
		}
		c.add(b, c.now)
	}
	if pc < b.begin || pc >= b.end {
		return nil
	}
	return b
}

// add keeps a blob that was first met at a time.
func (c *codeCache) add(b *blob, born uint64) {
	b.born, b.read, b.checked = born, c.now, c.now
	c.blobs[b.start] = b
	c.held += b.held
}

// again reads a blob once more, at most once a moment. Its tables may have been read while
// the JVM still filled them.
func (c *codeCache) again(b *blob) *blob {
	if c.now == b.read || c.now-b.born > youngFor {
		return b
	}
	c.drop(b)
	renewed := c.readBlob(b.start)
	if renewed != nil {
		c.add(renewed, b.born)
	}
	return renewed
}

// header reads the fields of a blob. A blob that is no compiled method is shorter, and may
// be the last one of its heap.
func (c *codeCache) header(start uint64) []byte {
	raw, err := c.readBytes(start, int(c.l.sizeNM))
	if err != nil {
		raw, err = c.readBytes(start, int(c.l.sizeBlob))
	}
	if err != nil {
		return nil
	}
	return raw
}

// same reports whether a blob is still the one that was read.
func (c *codeCache) same(b *blob) bool {
	raw := c.header(b.start)
	if raw == nil || word(raw, c.l.name) != b.nameAt || uint64(c.l.size.of(raw)) != b.size {
		c.drop(b)
		return false
	}
	if b.kind == methodBlob || b.kind == nativeBlob {
		if word(raw, c.l.nm.method) != b.method || c.l.nm.compileID.of(raw) != b.compileID {
			c.drop(b)
			return false
		}
	}
	b.checked = c.now
	return true
}

func (c *codeCache) drop(b *blob) {
	delete(c.blobs, b.start)
	c.held -= b.held
}

// readBlob reads what a blob says of itself; nil if it makes no sense.
func (c *codeCache) readBlob(start uint64) *blob {
	raw := c.header(start)
	if raw == nil {
		return nil
	}
	b := &blob{start: start, nameAt: word(raw, c.l.name), size: uint64(c.l.size.of(raw)), held: 512}
	if c.l.code.width != 0 {
		b.begin, b.end = start+uint64(c.l.code.of(raw)), start+uint64(c.l.data.of(raw))
	} else {
		b.begin, b.end = word(raw, c.l.codeBegin), word(raw, c.l.codeEnd)
	}
	if b.begin < start || b.begin >= b.end || b.end-start > b.size {
		return nil
	}
	if words := c.l.frameSize.of(raw); words > 0 && words < maxFrame/8 {
		b.frame = 8 * uint64(words)
	}
	b.complete = uint64(max(c.l.frameComplete.of(raw), 0))
	b.name = c.nameOf(b.nameAt)
	b.kind = kindOf(b.name)
	if b.kind == methodBlob || b.kind == nativeBlob {
		c.readMethod(b, raw)
	}
	return b
}

// kindOf tells blobs by their names, which have stayed the same from JDK 17 to 25.
func kindOf(name string) blobKind {
	switch {
	case name == "native nmethod":
		return nativeBlob
	case strings.HasPrefix(name, "nmethod"):
		return methodBlob
	case name == "Interpreter":
		return interpreterBlob
	case strings.HasPrefix(name, "StubRoutines"), strings.HasPrefix(name, "Stub Generator"):
		return stubBlob
	}
	return otherBlob
}

// nameOf returns the name at an address.
func (c *codeCache) nameOf(addr uint64) string {
	if name, ok := c.names[addr]; ok {
		return name
	}
	raw, err := c.readBytes(addr, maxName)
	if err != nil { // the string may be the last one of its page
		raw, err = c.readBytes(addr, int(min(maxName, 4096-addr%4096)))
	}
	if err != nil {
		return ""
	}
	raw, _, _ = bytes.Cut(raw, []byte{0})
	const most = 1 << 12
	if c.names == nil || len(c.names) >= most {
		c.names = make(map[uint64]string)
	}
	c.names[addr] = string(raw)
	return c.names[addr]
}

// readMethod reads the tables of a compiled method. Where they make no sense, it has none.
func (c *codeCache) readMethod(b *blob, raw []byte) {
	n := &c.l.nm
	b.method, b.compileID = word(raw, n.method), n.compileID.of(raw)
	b.origPC = uint64(max(n.origPC.of(raw), 0))
	switch {
	case n.hasDeoptAddr:
		b.deopt = [2]uint64{word(raw, n.deopt), word(raw, n.deoptMH)}
	case n.hasDeopt:
		b.deopt = [2]uint64{b.start + uint64(n.deoptAt.of(raw)), b.start + uint64(n.deoptMHAt.of(raw))}
	}
	if b.kind == methodBlob {
		c.readTables(b, raw)
	}
}

// part is a table of a compiled method: addresses [from, to).
type part struct{ from, to uint64 }

func (c *codeCache) readTables(b *blob, raw []byte) {
	n := &c.l.nm
	var pcs, scopes, methods part
	if n.isSplit {
		base := word(raw, n.immutable)
		pcs = part{base + uint64(n.pcs.of(raw)), base + uint64(n.scopesAt.of(raw))}
		scopes = part{pcs.to, base + uint64(n.immSize.of(raw))}
		mutable := word(raw, n.mutable)
		methods = part{mutable + (uint64(n.relocation.of(raw))+7)&^7, mutable + uint64(n.mutSize.of(raw))}
	} else {
		pcs = part{b.start + uint64(n.pcs.of(raw)), b.start + uint64(n.deps.of(raw))}
		scopes = part{word(raw, n.scopes), pcs.from}
		methods = part{b.start + uint64(n.metadata.of(raw)), scopes.from}
	}
	descriptors := c.readPart(pcs)
	b.descriptors = c.l.parseDescriptors(descriptors)
	b.scopes, b.methods = c.readPart(scopes), c.readPart(methods)
	b.held += len(b.descriptors)*8 + len(b.scopes) + len(b.methods)
	c.calibrate(b)
}

func (c *codeCache) readPart(p part) []byte {
	if p.to <= p.from || p.to-p.from > maxBlobData {
		return nil
	}
	raw, err := c.readBytes(p.from, int(p.to-p.from))
	if err != nil {
		return nil
	}
	return raw
}

// calibrate finds out how numbers are coded: the outermost scope of a compiled method is
// the method itself. A blob for which neither coding says so has no scopes that can be
// believed.
func (c *codeCache) calibrate(b *blob) {
	for _, coding := range []coding{c.coding, (c.coding + 1) % codings} {
		if c.agrees(b, coding) {
			c.agree[coding]++
			if c.agree[coding] > c.agree[c.coding] {
				c.coding = coding
			}
			b.hasNoScopes = coding != c.coding
			return
		}
	}
	b.hasNoScopes = true
}

// agrees reports whether the outermost scope is the method at some descriptors.
func (c *codeCache) agrees(b *blob, coding coding) bool {
	const enough = 4
	seen := 0
	var list []scope
	for _, d := range b.descriptors {
		if d.scope <= 0 || seen == enough {
			continue
		}
		var ok bool
		list, ok = coding.scopesAt(b.scopes, int(d.scope), list[:0])
		if !ok || !c.work(len(list)) || methodAt(b.methods, list[len(list)-1].method) != b.method {
			return false
		}
		seen++
	}
	return seen > 0
}

// frames appends the calls that an instruction of a compiled method stands for, innermost
// first. A return address has exactly its own scope; the innermost frame's instruction has
// the next one.
func (c *codeCache) frames(b *blob, pc uint64, top bool, dst []Frame) []Frame {
	kind := Compiled
	if b.kind == nativeBlob {
		kind = Native
	}
	whole := Frame{Method: b.method, BCI: NoBCI, PC: pc, Kind: kind}
	d, exact, ok := findDescriptor(b.descriptors, int32(pc-b.begin))
	if !ok || b.hasNoScopes || d.scope <= 0 || !exact && !top {
		return append(dst, whole)
	}
	list, ok := c.coding.scopesAt(b.scopes, int(d.scope), nil)
	if !ok || !c.work(len(list)+1) {
		return append(dst, whole)
	}
	from := len(dst)
	for i, s := range list {
		f := Frame{Method: methodAt(b.methods, s.method), BCI: max(s.bci, NoBCI), PC: pc, Kind: Inlined, Inexact: top && (i == 0 || !exact)}
		if f.Method == 0 {
			return append(dst[:from], whole)
		}
		dst = append(dst, f)
	}
	dst[len(dst)-1].Kind = kind
	return dst
}

// returns reports whether an address is one that a call returns to. The deoptimization
// handlers stand in for the return addresses of frames that are to be deoptimized.
func (c *codeCache) returns(pc uint64) (*blob, bool) {
	b, ok := c.judge(pc)
	if !ok && b != nil && b.checked != c.now && !c.same(b) { // other code has its place now
		return c.judge(pc)
	}
	return b, ok
}

// judge says what returns does, by what is known.
func (c *codeCache) judge(pc uint64) (*blob, bool) {
	if pc == c.callStub && pc != 0 {
		return c.find(pc), true
	}
	b := c.find(pc)
	if b == nil {
		return nil, false
	}
	switch b.kind {
	case interpreterBlob:
		return b, true
	case nativeBlob:
		return b, pc > b.begin
	case methodBlob:
		if pc == b.deopt[0] || pc == b.deopt[1] {
			return b, true
		}
		if b.describes(pc) {
			return b, true
		}
		if b = c.again(b); b == nil || pc < b.begin || pc >= b.end {
			return nil, false
		}
		return b, b.kind == methodBlob && b.describes(pc)
	case stubBlob:
		return b, c.isContinuation(b, pc)
	}
	return b, false
}

// describes reports whether a descriptor has exactly this instruction.
func (b *blob) describes(pc uint64) bool {
	_, exact, ok := findDescriptor(b.descriptors, int32(pc-b.begin))
	return ok && exact
}

// isContinuation reports whether an address of a stub is where a virtual thread's frame
// returns to, if its caller is still in the heap.
func (c *codeCache) isContinuation(b *blob, pc uint64) bool {
	return strings.Contains(strings.ToLower(b.name), "continuation") && pc > b.begin
}
