package rewrite

import (
	"runtime"

	"github.com/ccmapd/ccmapd/sampler/wasm/internal/format"
)

// A bodyWriter rewrites one function after the other. It copies untouched bytes between
// the places where it inserts or replaces something.
type bodyWriter struct {
	module  *original
	plan    *plan
	layout  *layout
	out     *Module
	options Options

	types  []signature // for Sites
	code   []byte      // contents of the new code section
	buffer []byte      // of the function under work, reused
	spans  []span      // of the function under work: at is an offset in buffer
	d      decoder
	copied int   // offset in the module: code before it is copied
	moved  []int // offsets of locals, not copied yet, that get an index higher by 1

	traits   *traits
	function int // index in the original
	face     face
	params   uint32
	run      run
	tight    tightLoops
	dispatch dispatch
	cover    cover
	points   pointWriter
	number   uint32 // local with the activation's number, if it has one
}

// write appends the rewritten function i, counted among the defined ones.
func (w *bodyWriter) write(i int) *format.Error {
	w.function = w.module.importedFunctions + i
	w.traits = &w.plan.functions[i]
	w.face = w.layout.faces[i]
	w.params = uint32(len(w.module.types[w.module.functionTypes[w.function]].params))
	w.buffer, w.spans = w.buffer[:0], w.spans[:0]
	var l locals
	w.d, l = w.module.body(i)
	w.copied = w.module.bodies[i].start
	w.spans = append(w.spans, span{0, w.relative(w.copied)})
	w.beginLoops()
	w.points.begin()
	w.writeLocals(l)
	w.enter()
	w.run = run{start: w.d.At}
	for w.d.next() {
		if w.options.Exact {
			w.countInstruction()
		}
		w.instruction()
		w.followLoops()
		if w.options.Points {
			w.followPoints()
		}
	}
	if w.d.Err == nil {
		w.flush(w.d.At)
		w.append()
	}
	return w.d.Err
}

// relative turns an offset in the module into an offset in the code section.
func (w *bodyWriter) relative(offset int) uint32 {
	return uint32(offset - w.module.sections[format.SectionCode].start)
}

// append adds the finished function to the code section.
func (w *bodyWriter) append() {
	w.code = appendU32(w.code, uint32(len(w.buffer)))
	base := uint32(len(w.code))
	for _, s := range w.spans {
		w.out.spans = append(w.out.spans, span{base + s.at, s.original})
	}
	w.code = append(w.code, w.buffer...)
	// The next function's size follows.
	w.out.spans = append(w.out.spans, span{uint32(len(w.code)), w.relative(w.d.At) | inserted})
}

// flush copies the original code up to an offset.
func (w *bodyWriter) flush(to int) {
	if to == w.copied {
		return
	}
	w.mark(w.relative(w.copied))
	base := len(w.buffer) - w.copied
	w.buffer = append(w.buffer, w.module.data[w.copied:to]...)
	for _, at := range w.moved {
		w.buffer[base+at]++
	}
	w.moved = w.moved[:0]
	w.copied = to
}

// mark notes the origin of the next byte, if it does not follow from the span before.
func (w *bodyWriter) mark(original uint32) {
	at := uint32(len(w.buffer))
	last := &w.spans[len(w.spans)-1]
	switch {
	case last.original&inserted == 0 && original-last.original == at-last.at:
	case last.at == at:
		last.original = original
	default:
		w.spans = append(w.spans, span{at, original})
	}
}

// insert flushes up to an offset and begins inserted code.
func (w *bodyWriter) insert(at, original int) {
	w.flush(at)
	w.mark(w.relative(original) | inserted)
}

func (w *bodyWriter) writeLocals(l locals) {
	own := w.placeLocals(uint32(l.total))
	if own > 0 {
		w.buffer = appendU32(w.buffer, l.count+1)
		w.mark(w.relative(w.copied) | inserted)
		w.buffer = append(w.buffer, w.module.data[l.groups.start:l.groups.end]...)
		w.buffer = append(w.buffer, own, typeI32)
		w.copied = w.d.At
	}
}

// placeLocals gives the number and the added locals their indices, and returns the number
// of added locals.
func (w *bodyWriter) placeLocals(first uint32) (n byte) {
	switch {
	case w.face.registered:
		w.number = w.params
		first++
	case w.face.numbered:
		w.number = first
		n++
	}
	if len(w.traits.tight) > 0 {
		w.tight.counter = first + uint32(n)
		n++
	}
	if w.options.Points && w.traits.picks {
		w.points.local = first + uint32(n)
		n++
	}
	return n
}

// enter writes the code at an activation's beginning.
func (w *bodyWriter) enter() {
	if w.traits.kind != Bare {
		w.insert(w.d.At, w.d.At)
		if w.face.numbered && !w.face.registered {
			w.buffer = w.layout.appendNumber(w.buffer, w.number)
		}
		if w.traits.kind == Polled {
			w.pollEntry()
		}
	}
	if w.options.Points {
		w.reportBlock()
	}
}

// pollEntry polls. If activations are numbered, it lowers Visited below this one's
// number. If the polled function cannot take this function's place, it gets the
// parameters and returns them. So wazevo need not keep them elsewhere meanwhile, which it
// would do even if nothing is called.
func (w *bodyWriter) pollEntry() {
	l := w.layout
	b := rarely(w.buffer, emptyBlockType)
	if w.face.numbered {
		b = append(local(l.get(b, globalLimit), opLocalGet, w.number), opI32GeU)
	} else {
		b = l.get(b, globalMark)
	}
	b = thenRarely(b)
	switch {
	case w.face.stub != 0:
		b = appendParams(b, uint32(len(l.types[w.face.typ].params)))
		b = appendU32(append(b, opReturnCall), w.face.stub)
		w.standIn(w.face.stub, w.d.At)
	case w.face.enter != 0:
		b = w.callEnter(b)
	default:
		b = l.appendEnter(b, w.number)
	}
	w.buffer = append(b, opEnd)
}

// callEnter calls the polling function with the parameters and the number.
func (w *bodyWriter) callEnter(b []byte) []byte {
	b = appendParams(b, w.params)
	if w.face.numbered {
		b = local(b, opLocalGet, w.number)
	}
	b = appendU32(append(b, opCall), w.face.enter)
	if w.face.numbered {
		b = local(b, opLocalSet, w.number)
	}
	for i := range w.params {
		b = local(b, opLocalSet, w.params-1-i)
	}
	return b
}

// standIn notes that an added function polls in place of this one, at an instruction.
func (w *bodyWriter) standIn(index uint32, at int) {
	start := w.module.bodies[w.function-w.module.importedFunctions].start
	w.out.stubs[index] = place{uint32(w.function), uint32(at - start)}
}

// instruction rewrites the decoder's instruction if it must change, and inserts code
// around it.
func (w *bodyWriter) instruction() {
	d := &w.d
	if w.options.Points {
		w.point()
	}
	switch d.op {
	case opLocalGet, opLocalSet, opLocalTee:
		w.local()
	case opLoop:
		w.loop()
		if w.options.Points && !w.isDispatchLoop() {
			w.reportBlock()
		}
	case opBr, opBrIf, opBrTable:
		w.branch()
	case opCall, opReturnCall:
		w.call()
	case opCallIndirect, opReturnCallIndirect:
		w.callIndirect()
	case opRefFunc:
		w.replaceIndex(d.op, w.layout.reference(d.index))
	case opReturn:
		w.pollExit()
	case opEnd:
		w.endLoop()
		if d.nesting < 0 {
			w.pollExit()
		}
	}
}

// pollExit polls before an exit, except before branches to the outermost label.
func (w *bodyWriter) pollExit() {
	d := &w.d
	switch {
	case w.face.exit != 0:
		w.insert(d.start, d.start)
		w.buffer = w.layout.appendExit(w.buffer, w.layout.types[w.face.typ].results, w.face.exit, w.number)
		w.standIn(w.face.exit, d.start)
	case w.traits.tightLeaf():
		w.insert(d.start, d.start)
		w.buffer = w.layout.appendPoll(w.buffer, ReasonLoop, w.number)
	}
}

// replaced begins a replacement of the decoder's instruction.
func (w *bodyWriter) replaced(op byte) {
	w.mark(w.relative(w.d.start))
	w.buffer = append(w.buffer, op)
}

// replaceIndex replaces the decoder's instruction by one with another index.
func (w *bodyWriter) replaceIndex(op byte, index uint32) {
	w.flush(w.d.start)
	w.replaced(op)
	w.buffer = appendU32(w.buffer, index)
	w.copied = w.d.At
}

// local gives a local its new index, if the function has one more parameter. If the index
// keeps its length of one byte, flush changes it.
func (w *bodyWriter) local() {
	d := &w.d
	switch {
	case !w.face.registered || d.index < w.params:
	case d.At-d.start == 2 && d.index < 0x7f:
		w.moved = append(w.moved, d.start+1)
	default:
		w.replaceIndex(d.op, d.index+1)
	}
}

func (w *bodyWriter) call() {
	d := &w.d
	imported := int(d.index) < w.module.importedFunctions
	callee := w.layout.face(d.index)
	typ := w.module.functionTypes[d.index]
	if callee.registered {
		typ = callee.typ
	}
	if imported || w.plan.functions[int(d.index)-w.module.importedFunctions].kind == Polled {
		w.cover.poll()
	}
	op := w.callOp(opCall, typ)
	if w.face.numbered {
		w.tell(callee, op != opCall)
	}
	if imported {
		w.announce()
	}
	if !imported || op != d.op {
		w.replaceIndex(op, w.layout.function(d.index))
	}
	if imported && op == opCall {
		w.insert(d.At, d.start)
		w.buffer = w.layout.appendPoll(w.buffer, AfterImport(d.index), w.number)
	}
	if op != d.op {
		w.leave()
	}
}

// tell gives a callee its number, as a parameter or by Depth. It announces an import that
// may call back.
func (w *bodyWriter) tell(callee face, tail bool) {
	d := &w.d
	switch {
	case callee.registered:
		w.insert(d.start, d.start)
		w.pushNumber(tail)
	case callee.numbered, w.options.Exact, int(d.index) < w.module.importedFunctions:
		w.insert(d.start, d.start)
		w.setDepth(tail)
	}
}

// pushNumber pushes the number of a callee: the caller's own number in a tail call, else
// the next number.
func (w *bodyWriter) pushNumber(tail bool) {
	b := local(w.buffer, opLocalGet, w.number)
	if !tail {
		b = append(constant(b, 1), opI32Add)
	}
	w.buffer = w.unpolled(b)
}

// setDepth sets Depth to 1 less than the number of a callee.
func (w *bodyWriter) setDepth(tail bool) {
	b := local(w.buffer, opLocalGet, w.number)
	if tail {
		b = append(constant(b, 1), opI32Sub)
	}
	w.buffer = w.layout.set(w.unpolled(b), globalDepth)
}

// unpolled clears the bit polled of the pushed number, if the bit may be set.
func (w *bodyWriter) unpolled(b []byte) []byte {
	if w.face.stub == 0 {
		return b
	}
	return append(constant(b, AllNumbers), opI32And)
}

// announce lets the host see the stack before an import that may call back.
func (w *bodyWriter) announce() {
	mask := w.layout.announce[w.d.index]
	if mask == 0 {
		return
	}
	w.insert(w.d.start, w.d.start)
	w.buffer = w.layout.appendAnnounce(w.buffer, mask, BeforeImport(w.d.index), w.number)
}

func (w *bodyWriter) callIndirect() {
	d := &w.d
	op := w.callOp(opCallIndirect, d.index)
	if w.layout.catches[d.index].function != 0 && !w.isKnown() {
		w.site()
	}
	if w.face.numbered {
		w.insert(d.start, d.start)
		w.setDepth(op != opCallIndirect)
	}
	if op != d.op {
		w.flush(d.start)
		w.replaced(op)
		w.copied = d.start + 1
		w.leave()
	}
}

// offset returns the offset of the decoder's instruction in the function.
func (w *bodyWriter) offset() uint32 {
	return uint32(w.d.start - w.module.bodies[w.function-w.module.importedFunctions].start)
}

// isKnown: the targets of the decoder's indirect call are known.
func (w *bodyWriter) isKnown() bool {
	return w.options.Known != nil && w.options.Known(uint32(w.function), w.offset())
}

// site reports the decoder's indirect call while calls are wanted.
func (w *bodyWriter) site() {
	d := &w.d
	site := uint32(len(w.out.Sites))
	w.out.Sites = append(w.out.Sites, Site{
		Function: uint32(w.function), Table: d.table,
		Offset: w.offset(),
		Params: w.types[d.index].params, Results: w.types[d.index].results,
	})
	w.insert(d.start, d.start)
	w.buffer = w.layout.appendCatch(w.buffer, w.layout.catches[d.index], site, w.number)
}

// run is a sequence of instructions that execute all, or up to one that traps.
type run struct {
	start  int // offset in the module
	length int64
}

// countInstruction takes the decoder's instruction into the run. If it ends the run, or
// if code is inserted before it, the length of the run is added to ExecutedGlobal where
// the run begins.
func (w *bodyWriter) countInstruction() {
	op := w.d.op
	if op != opEnd && op != opElse {
		w.run.length++
	}
	if op != opRefFunc && isStraight(op) {
		return
	}
	if w.run.length > 0 {
		w.insert(w.run.start, w.run.start)
		w.buffer = w.layout.appendExecuted(w.buffer, w.run.length)
	}
	w.run = run{start: w.d.At}
}

// appendExecuted: Executed += n
func (l *layout) appendExecuted(b []byte, n int64) []byte {
	b = appendSigned(append(l.get(b, globalExecuted), opI64Const), n)
	return l.set(append(b, opI64Add), globalExecuted)
}

// isStraight: execution goes on with the next instruction, inside the function.
func isStraight(op byte) bool {
	return op == opBlock || op > opReturnCallIndirect
}

// In a tail call the callee's frame replaces the caller's, so the callee gets the
// caller's number. But wazevo (v1.12.0, backend/isa/amd64/machine.go and arm64/abi.go,
// lowerTailCall) makes a plain call if the stack must pass parameters or results. Then
// the caller's frame stays, and keeps its number. If there are numbers, such a tail call
// is therefore written as a call and a return.

// The registers that pass parameters and results (abi.go there). The first two parameters
// are wazevo's own.
const (
	intRegistersAMD64 = 9
	intRegistersARM64 = 8
	floatRegisters    = 8
	ownParameters     = 2
)

// fitsRegisters: parameters and results are all passed in registers.
func (s signature) fitsRegisters() bool {
	registers := intRegistersAMD64
	if runtime.GOARCH == "arm64" {
		registers = intRegistersARM64
	}
	return fit(s.params, registers-ownParameters) && fit(s.results, registers)
}

func fit(types []byte, registers int) bool {
	ints, floats := 0, 0
	for _, t := range types {
		if t == typeF32 || t == typeF64 || t == typeV128 {
			floats++
		} else {
			ints++
		}
	}
	return ints <= registers && floats <= floatRegisters
}

// callOp returns the opcode for the decoder's call of a function of a type. It is plain
// for a tail call that must be written as a call.
func (w *bodyWriter) callOp(plain byte, typ uint32) byte {
	if w.d.op != plain && w.face.numbered && !w.layout.fits[typ] {
		return plain
	}
	return w.d.op
}

// leave returns from the function after a call that was a tail call.
func (w *bodyWriter) leave() {
	w.insert(w.d.At, w.d.start)
	w.buffer = append(w.buffer, opReturn)
}
