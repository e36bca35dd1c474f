package rewrite

// A tight loop is an innermost loop that is short and calls nothing. A poll in it is
// expensive: for the call that the poll may make, wazevo (v1.12.0) keeps values of the
// loop in memory instead of registers. So tight loops poll every chunk iterations,
// outside:
//
//	block $exit                      in place of   loop $l
//	  loop $outer                                    BODY
//	    left = chunk                               end
//	    loop $inner
//	      block $again
//	        block BODY end           br $l becomes br $again
//	        br $exit
//	      end
//	      left = left - 1
//	      br_if $inner (left != 0)
//	      poll
//	      br $outer
//	    end
//	  end
//	end
//
// A loop with fewer iterations costs only the counting. A poll in the innermost loop of a
// matrix multiplication made it 13 % slower. This form is 12 % faster than no poll at
// all, because wazevo then moves less between registers and memory. Chunks of 64 and 1024
// are no better, nor is a poll in loops of less than 25 bytes. In loops that call, it
// gains nothing: a Go program that looked for positions of queens was 7 % slower with the
// poll at their heads, and 12 % with it outside.
//
// The other loops poll before the branches back, if their cover says that a poll is
// needed.
const (
	chunk    = 256
	maxTight = 1024 // bytes: a chunk is well within any interval, even the shortest

	// tightLabels is the number of labels that replace a loop's label.
	tightLabels = 5
)

// tightLoops are the tight loops of the current function.
type tightLoops struct {
	left    []int  // offsets of later ones
	nesting int    // blocks open in the open one, itself included; 0: none open
	counter uint32 // local: iterations left
}

// label gives a branch's label its new number, with nesting open blocks.
func (t *tightLoops) label(nesting int, label uint32) uint32 {
	own := uint32(nesting - t.nesting) // the open loop's label
	switch {
	case t.nesting == 0 || label < own:
		return label
	case label == own:
		return label + 1 // $again
	}
	return label + tightLabels - 1
}

// isOwn: the label is the open loop's.
func (t *tightLoops) isOwn(nesting int, label uint32) bool {
	return t.nesting != 0 && nesting-int(label) == t.nesting
}

// beginLoops prepares for the loops of a function.
func (w *bodyWriter) beginLoops() {
	w.tight = tightLoops{left: w.traits.tight}
	w.cover.begin()
	w.dispatch.begin()
}

// followLoops follows the decoder's instruction, after it is written.
func (w *bodyWriter) followLoops() {
	if w.d.op > opReturnCallIndirect {
		return
	}
	if w.traits.loops {
		w.cover.next(&w.d)
	}
	if w.traits.dispatched {
		w.dispatch.next(&w.d)
	}
}

// loop begins a loop.
func (w *bodyWriter) loop() {
	d := &w.d
	if len(w.tight.left) == 0 || w.tight.left[0] != d.start {
		if w.traits.loops && pollsAtHead(d) {
			w.insert(d.At, d.At)
			w.buffer = w.layout.appendPoll(w.buffer, ReasonLoop, w.number)
		}
		return
	}
	w.tight.left = w.tight.left[1:]
	w.tight.nesting = d.nesting
	w.insert(d.start, d.At)
	w.copied = d.At
	b := appendSigned(append(w.buffer, opBlock), d.block)
	b = appendSigned(append(b, opLoop), d.block)
	b = local(constant(b, chunk), opLocalSet, w.tight.counter)
	b = appendSigned(append(b, opLoop), d.block)
	b = append(b, opBlock, emptyBlock)
	w.buffer = appendSigned(append(b, opBlock), d.block)
}

// endLoop closes the blocks in a tight loop, if the decoder's end is a tight loop's. The
// end itself closes $exit.
func (w *bodyWriter) endLoop() {
	if w.tight.nesting == 0 || w.d.nesting >= w.tight.nesting {
		return
	}
	w.tight.nesting = 0
	w.insert(w.d.start, w.d.start)
	b := append(w.buffer, opEnd, opBr, 3, opEnd) // to $exit
	b = constant(local(b, opLocalGet, w.tight.counter), 1)
	b = local(append(b, opI32Sub), opLocalTee, w.tight.counter)
	b = w.layout.appendPoll(append(b, opBrIf, 0), ReasonLoop, w.number)
	w.buffer = append(b, opBr, 1, opEnd, opEnd) // to $outer
}

// branch copies a branch. It polls before branches that close cycles without a safe
// point, and gives branches new labels inside a tight loop.
func (w *bodyWriter) branch() {
	d := &w.d
	switch {
	case w.traits.dispatched && w.dispatch.isTable(d):
		w.relabel()
		w.coverDispatch()
	case w.traits.dispatched && w.jump():
	case !w.traits.loops:
	case !w.needsPoll():
		w.coverBranch()
		w.relabel()
	case d.op == opBrIf:
		w.coverBranch()
		w.pollIf()
	default:
		w.insert(d.start, d.start)
		w.buffer = w.layout.appendPoll(w.buffer, ReasonLoop, w.number)
		w.cover.poll()
		w.coverBranch()
		w.relabel()
	}
}

// needsPoll: the decoder's branch may close a cycle without a safe point.
func (w *bodyWriter) needsPoll() bool {
	for _, l := range w.d.labels {
		if w.cover.needsPoll(l) && !w.tight.isOwn(w.d.nesting, l) {
			return true
		}
	}
	return false
}

func (w *bodyWriter) coverBranch() {
	if !w.traits.loops {
		return
	}
	for _, l := range w.d.labels {
		w.cover.branch(l)
	}
}

func (w *bodyWriter) coverDispatch() {
	if w.traits.loops {
		w.coverBranch() // perhaps out of the loop
		w.cover.dispatch(w.dispatch.nesting, w.traits.heads)
	}
}

// relabel gives the decoder's branch new labels, if it is in a tight loop.
func (w *bodyWriter) relabel() {
	if w.tight.nesting != 0 {
		w.writeBranch(w.d.op, 0)
	}
}

// writeBranch writes the decoder's branch, with another opcode and inside blocks more
// blocks.
func (w *bodyWriter) writeBranch(op byte, blocks uint32) {
	d := &w.d
	w.flush(d.start)
	w.replaced(op)
	if op == opBrTable {
		w.buffer = appendU32(w.buffer, uint32(len(d.labels)-1))
	}
	for _, l := range d.labels {
		w.buffer = appendU32(w.buffer, w.tight.label(d.nesting, l)+blocks)
	}
	w.copied = d.At
}

// pollIf polls where a br_if branches, and only there: if { poll; br }
func (w *bodyWriter) pollIf() {
	d := &w.d
	w.insert(d.start, d.start)
	w.buffer = w.layout.appendPoll(append(w.buffer, opIf, emptyBlock), ReasonLoop, w.number)
	w.writeBranch(opBr, 1)
	w.insert(d.At, d.At)
	w.buffer = append(w.buffer, opEnd)
}

// jump rewrites the decoder's branch if it is a dispatch's jump forward: it goes straight
// to the target.
func (w *bodyWriter) jump() bool {
	d := &w.d
	target, ok := w.dispatch.jump(d)
	if !ok || !w.dispatch.isForward(target) || !w.dispatch.isLoop(d.nesting-int(d.labels[0])) {
		return false
	}
	if w.options.Exact {
		w.insert(d.start, d.start)
		w.buffer = w.layout.appendExecuted(w.buffer, w.dispatch.length)
	}
	d.labels[0] = uint32(d.nesting - target)
	w.coverBranch()
	w.writeBranch(opBr, 0)
	return true
}
