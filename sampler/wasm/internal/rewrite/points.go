package rewrite

// A Point is a place of the original whose executions are reported to PointFunction, with
// Options.Points.
type Point struct {
	Kind     PointKind
	Function uint32
	Offset   uint32 // of the instruction, as Original gives it; of a block its first one

	// Targets are the offsets of the code that a switch goes to, by the value reported; a
	// greater value goes to the last one. A return goes to the function's end.
	Targets []uint32
}

// PointKind is the kind of a Point, and the meaning of the value that is reported.
type PointKind uint8

const (
	PointBlock  PointKind = iota // the beginning of a function or of a loop's body; the value is 0
	PointBranch                  // br_if or if: the condition, which is false if it is 0
	PointSwitch                  // br_table: its operand, unsigned
)

// pointWriter adds the reports of one function after the other.
//
// The table by which Go's compiler jumps inside a function (see dispatch) is no choice of
// the program, and its loop no loop: they have no points.
type pointWriter struct {
	local uint32 // holds the value that is reported
	open  []target
}

// target is an open block, as a target of branches.
type target struct {
	isLoop  bool
	offset  uint32    // of a loop's body
	waiting []*uint32 // set to the offset after the block
}

// begin starts a function, which is a block, too.
func (p *pointWriter) begin() { p.open = append(p.open[:0], target{}) }

// point reports the decoder's instruction if it is a choice. It runs before the instruction
// is written.
func (w *bodyWriter) point() {
	switch w.d.op {
	case opIf, opBrIf:
		w.reportValue(w.newPoint(PointBranch, w.d.start))
	case opBrTable:
		if w.traits.dispatched && w.dispatch.isTable(&w.d) {
			return
		}
		site := w.newPoint(PointSwitch, w.d.start)
		w.pointTargets(&w.out.Points[site])
		w.reportValue(site)
	}
}

// newPoint returns the number of a new point at an offset in the module.
func (w *bodyWriter) newPoint(k PointKind, at int) (site uint32) {
	start := w.module.bodies[w.function-w.module.importedFunctions].start
	w.out.Points = append(w.out.Points, Point{Kind: k, Function: uint32(w.function), Offset: uint32(at - start)})
	return uint32(len(w.out.Points) - 1)
}

// reportValue reports the value on the stack, which stays there.
func (w *bodyWriter) reportValue(site uint32) {
	w.insert(w.d.start, w.d.start)
	b := local(w.buffer, opLocalTee, w.points.local)
	w.buffer = w.layout.appendPoint(b, site, func(b []byte) []byte { return local(b, opLocalGet, w.points.local) })
}

// reportBlock reports the code that begins after the decoder's instruction.
func (w *bodyWriter) reportBlock() {
	w.insert(w.d.At, w.d.At)
	site := w.newPoint(PointBlock, w.d.At)
	w.buffer = w.layout.appendPoint(w.buffer, site, func(b []byte) []byte { return constant(b, 0) })
}

// isDispatchLoop: the decoder's loop is a dispatch's.
func (w *bodyWriter) isDispatchLoop() bool {
	return w.traits.dispatched && w.dispatch.nesting == 0 && !pollsAtHead(&w.d)
}

// pointTargets finds where the decoder's br_table goes, or leaves it to the ends of blocks.
func (w *bodyWriter) pointTargets(p *Point) {
	p.Targets = make([]uint32, len(w.d.labels))
	for i, l := range w.d.labels {
		t := &w.points.open[len(w.points.open)-1-int(l)]
		if p.Targets[i] = t.offset; !t.isLoop {
			t.waiting = append(t.waiting, &p.Targets[i])
		}
	}
}

// followPoints follows the decoder's instruction, after it is written.
func (w *bodyWriter) followPoints() {
	p, d := &w.points, &w.d
	start := w.module.bodies[w.function-w.module.importedFunctions].start
	switch d.op {
	case opBlock, opIf:
		p.open = append(p.open, target{})
	case opLoop:
		p.open = append(p.open, target{isLoop: true, offset: uint32(d.At - start)})
	case opEnd:
		last := len(p.open) - 1
		after := uint32(d.At - start)
		if last == 0 {
			after = uint32(d.start - start) // the function's end
		}
		for _, t := range p.open[last].waiting {
			*t = after
		}
		p.open = p.open[:last]
	}
}

// appendPoint: if Points == 0 {} else { point(site, value) }
//
// For the order of the branches see appendPoll.
func (l *layout) appendPoint(b []byte, site uint32, value func([]byte) []byte) []byte {
	b = append(l.get(b, globalPoints), opI32Eqz, opIf, emptyBlock, opElse)
	b = appendU32(append(value(constant(b, site)), opCall), uint32(l.imported)+2)
	return append(b, opEnd)
}
