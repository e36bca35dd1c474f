package rewrite

// A bodyWriter rewrites one function after the other. It copies runs of
// untouched bytes between the places where it inserts or replaces something.
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
	copied int // offset in the module up to which the code is copied

	traits   *traits
	function int  // index in the original
	marked   bool // its activations are numbered, or the innermost is
	counted  bool // they are in Depth
	results  []byte
	run      run
	tight    tightLoops
	depth    uint32 // local: depth of this activation
	element  uint32 // local: element of an indirect call
}

// write appends the rewritten function i, counted among the defined ones.
func (w *bodyWriter) write(i int) *RefusedError {
	w.function = w.module.importedFunctions + i
	w.traits = &w.plan.functions[i]
	w.marked = w.options.Marks && w.traits.kind != Bare
	w.counted = w.options.Marks && w.traits.kind == Counted
	w.results = w.module.types[w.module.functionTypes[w.function]].results
	w.buffer, w.spans = w.buffer[:0], w.spans[:0]
	var l locals
	w.d, l = w.module.body(i)
	w.copied = w.module.bodies[i].start
	w.spans = append(w.spans, span{0, w.relative(w.copied)})
	w.tight = tightLoops{left: w.traits.tight}
	w.writeLocals(l)
	w.enter()
	w.run = run{start: w.d.at}
	for w.d.next() {
		if w.options.Exact {
			w.countInstruction()
		}
		w.instruction()
	}
	if w.d.err == nil {
		w.flush(w.d.at)
		w.append()
	}
	return w.d.err
}

// relative turns an offset in the module into one in the code section.
func (w *bodyWriter) relative(offset int) uint32 {
	return uint32(offset - w.module.sections[sectionCode].start)
}

// append adds the finished function to the code section.
func (w *bodyWriter) append() {
	w.code = appendU32(w.code, uint32(len(w.buffer)))
	base := uint32(len(w.code))
	for _, s := range w.spans {
		w.out.spans = append(w.out.spans, span{base + s.at, s.original})
	}
	w.code = append(w.code, w.buffer...)
}

// flush copies the original code up to an offset.
func (w *bodyWriter) flush(to int) {
	if to == w.copied {
		return
	}
	w.mark(w.relative(w.copied))
	w.buffer = append(w.buffer, w.module.data[w.copied:to]...)
	w.copied = to
}

// mark notes where the next byte comes from, if it does not follow from the
// span before.
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

// insert flushes up to an offset and begins code that stands there only in the
// rewritten function.
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
		w.copied = w.d.at
	}
}

// placeLocals gives the added locals their indices, from the first free one on, and
// returns how many there are.
func (w *bodyWriter) placeLocals(first uint32) (n byte) {
	for _, l := range []struct {
		index  *uint32
		needed bool
	}{
		{&w.depth, w.counted},
		{&w.tight.counter, len(w.traits.tight) > 0},
		{&w.element, w.options.Calls && w.traits.indirect},
	} {
		if l.needed {
			*l.index = first + uint32(n)
			n++
		}
	}
	return n
}

// enter writes what an activation begins with.
func (w *bodyWriter) enter() {
	if w.traits.kind == Bare {
		return
	}
	at := w.d.at
	w.insert(at, at)
	if w.counted {
		w.buffer = w.layout.appendEnter(w.buffer, w.depth)
	}
	if !w.traits.headLoop {
		w.buffer = w.layout.appendPoll(w.buffer, ReasonEntry)
	}
	if w.marked {
		w.buffer = append(w.buffer, opBlock)
		w.buffer = w.layout.appendResultType(w.buffer, w.results)
	}
}

// instruction rewrites the decoder's instruction if it must change, and adds
// what must stand around it.
func (w *bodyWriter) instruction() {
	d := &w.d
	switch d.op {
	case opLoop:
		w.loop()
	case opBr, opBrIf, opBrTable:
		w.branch()
	case opCall, opReturnCall:
		w.call()
	case opCallIndirect, opReturnCallIndirect:
		w.callIndirect()
	case opRefFunc:
		w.replaceIndex(d.op, w.layout.function(d.index))
	case opReturn:
		if w.marked {
			w.flush(d.start)
			w.replaced(opBr)
			w.buffer = appendU32(w.buffer, w.tight.label(d.nesting, uint32(d.nesting)))
			w.copied = d.at
		}
	case opEnd:
		w.endLoop()
		if d.nesting < 0 && w.marked {
			w.insert(d.start, d.start)
			w.buffer = append(w.buffer, opEnd)
			w.exit()
		}
	}
}

// replaced begins an instruction that stands for the decoder's.
func (w *bodyWriter) replaced(op byte) {
	w.mark(w.relative(w.d.start))
	w.buffer = append(w.buffer, op)
}

// replaceIndex writes an instruction with another index in place of the decoder's.
func (w *bodyWriter) replaceIndex(op byte, index uint32) {
	w.flush(w.d.start)
	w.replaced(op)
	w.buffer = appendU32(w.buffer, index)
	w.copied = w.d.at
}

func (w *bodyWriter) call() {
	d := &w.d
	imported := int(d.index) < w.module.importedFunctions
	if imported {
		w.announce()
	}
	op := w.tailCall(opCall, w.module.functionTypes[d.index])
	if !imported || op != d.op {
		w.replaceIndex(op, w.layout.function(d.index))
	}
	if imported && op == opCall {
		w.insert(d.at, d.start)
		if w.marked {
			w.buffer = w.layout.appendHeal(w.buffer, w.depth)
		}
		w.buffer = w.layout.appendPoll(w.buffer, AfterImport(d.index))
	}
	if op != d.op {
		w.leave()
	}
}

// announce lets the host see the stack before an import that may call back.
func (w *bodyWriter) announce() {
	mask := w.layout.announce[w.d.index]
	if mask == 0 {
		return
	}
	w.insert(w.d.start, w.d.start)
	w.buffer = w.layout.appendAnnounce(w.buffer, mask, BeforeImport(w.d.index))
}

func (w *bodyWriter) callIndirect() {
	d := &w.d
	w.insert(d.start, d.start)
	if w.options.Calls {
		w.site()
	}
	op := w.tailCall(opCallIndirect, d.index)
	if op != d.op {
		w.flush(d.start)
		w.replaced(op)
		w.copied = d.start + 1
		w.leave()
	}
}

// site reports the decoder's indirect call while calls are wanted.
func (w *bodyWriter) site() {
	d := &w.d
	site := uint32(len(w.out.Sites))
	w.out.Sites = append(w.out.Sites, Site{
		Function: uint32(w.function), Table: d.table,
		Offset: uint32(d.start - w.module.bodies[w.function-w.module.importedFunctions].start),
		Params: w.types[d.index].params, Results: w.types[d.index].results,
	})
	w.buffer = w.layout.appendCallSite(w.buffer, site, w.element)
}

// exit writes what an activation ends with. It leaves the operands below it.
func (w *bodyWriter) exit() {
	switch {
	case !w.marked:
	case w.counted:
		w.buffer = w.layout.appendExit(w.buffer, w.depth)
	default:
		w.buffer = w.layout.appendExitPolled(w.buffer)
	}
}
