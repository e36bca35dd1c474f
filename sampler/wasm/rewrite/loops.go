package rewrite

// A tight loop is an innermost one that is short and calls nothing. A poll in it
// is dear: the call that it may make has wazevo (v1.12.0) keep in memory, in the
// loop itself, what else were in registers. So tight loops poll every chunk
// iterations, outside:
//
//	block $exit                      in place of   loop $l
//	  loop $outer                                    BODY
//	    poll; left = chunk                         end
//	    loop $inner
//	      block $again
//	        block BODY end           br $l becomes br $again
//	        br $exit
//	      end
//	      left = left - 1
//	      br_if $inner (left != 0)
//	      br $outer
//	    end
//	  end
//	end
//
// On a matrix multiplication whose innermost loop became 13 % slower by a poll in
// it, this is 12.8 % faster than no poll at all, as wazevo then moves less between
// registers and memory; chunks of 64 were as good, and a copy of the body more
// gains another 6 %. In loops that call, it gains nothing: a Go program that
// looks for positions of queens is 7 % slower with the poll at their heads, and
// 12 % with it outside.
const (
	chunk    = 256
	maxTight = 1024 // bytes: a chunk is well within any interval, the shortest too

	// tightLabels are the labels that stand for one.
	tightLabels = 5
)

// loopScan finds the tight loops of a function. They cannot be nested.
type loopScan struct {
	tight []int // offsets

	inside  bool // a loop is open that may be tight
	start   int  // its offset
	nesting int  // blocks open in it, itself included
}

func (s *loopScan) next(d *decoder) {
	switch {
	case d.op == opLoop:
		// A loop with parameters would have to hand them through.
		s.inside, s.start, s.nesting = d.block < 0, d.start, d.nesting
	case !s.inside:
	case mayTakeLong(d):
		s.inside = false
	case d.op == opEnd && d.nesting < s.nesting:
		if d.at-s.start <= maxTight {
			s.tight = append(s.tight, s.start)
		}
		s.inside = false
	}
}

// mayTakeLong: the time that an instruction takes has no small bound.
func mayTakeLong(d *decoder) bool {
	switch d.op {
	case opCall, opCallIndirect, opReturnCall, opReturnCallIndirect, opMemoryGrow, opAtomic:
		return true
	}
	return d.op == opMisc && d.sub >= firstBulk
}

// tightLoops are those of the function under work.
type tightLoops struct {
	left    []int  // offsets of those that are to come
	nesting int    // blocks open in the one that is open, itself included; 0: none is
	counter uint32 // local: iterations left
}

// label gives a branch's label its new number, where so many blocks are open.
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

// loop begins a loop.
func (w *bodyWriter) loop() {
	d := &w.d
	if len(w.tight.left) == 0 || w.tight.left[0] != d.start {
		w.insert(d.at, d.at)
		w.buffer = w.layout.appendPoll(w.buffer, ReasonLoop)
		return
	}
	w.tight.left = w.tight.left[1:]
	w.tight.nesting = d.nesting
	w.insert(d.start, d.at)
	w.copied = d.at
	b := appendSigned(append(w.buffer, opBlock), d.block)
	b = appendSigned(append(b, opLoop), d.block)
	b = w.layout.appendPoll(b, ReasonLoop)
	b = local(constant(b, chunk), opLocalSet, w.tight.counter)
	b = appendSigned(append(b, opLoop), d.block)
	b = append(b, opBlock, emptyBlock)
	w.buffer = appendSigned(append(b, opBlock), d.block)
}

// endLoop closes the blocks in a tight loop, if the decoder's end is a tight loop's.
// The end itself closes $exit.
func (w *bodyWriter) endLoop() {
	if w.tight.nesting == 0 || w.d.nesting >= w.tight.nesting {
		return
	}
	w.tight.nesting = 0
	w.insert(w.d.start, w.d.start)
	b := append(w.buffer, opEnd, opBr, 3, opEnd) // to $exit
	b = constant(local(b, opLocalGet, w.tight.counter), 1)
	b = local(append(b, opI32Sub), opLocalTee, w.tight.counter)
	w.buffer = append(b, opBrIf, 0, opBr, 1, opEnd, opEnd) // to $inner, to $outer
}

// branch copies a branch, with new labels inside a tight loop.
func (w *bodyWriter) branch() {
	d := &w.d
	if w.tight.nesting == 0 {
		return
	}
	w.flush(d.start)
	w.replaced(d.op)
	if d.op == opBrTable {
		w.buffer = appendU32(w.buffer, uint32(len(d.labels)-1))
	}
	for _, l := range d.labels {
		w.buffer = appendU32(w.buffer, w.tight.label(d.nesting, l))
	}
	w.copied = d.at
}
