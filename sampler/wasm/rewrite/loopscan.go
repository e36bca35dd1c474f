package rewrite

import "slices"

// loopTraits are what the scan of a function's code tells of its loops.
type loopTraits struct {
	loops      bool  // a branch may close a cycle
	tight      []int // offsets in the module of the tight loops
	dispatched bool  // all branches to the dispatch's head are jumps
	heads      []int // targets of those jumps that go back
}

// loopScan finds the loops of one function after the other.
type loopScan struct {
	loopTraits
	kinds    []byte // opcodes of the open blocks; reused
	dispatch dispatch
	jumps    bool // there are branches to the dispatch's head
	odd      bool // one of them is no jump
	inner    innermost
}

func (s *loopScan) begin() {
	s.loopTraits = loopTraits{heads: s.heads[:0]}
	s.kinds = append(s.kinds[:0], opBlock)
	s.dispatch.begin()
	s.jumps, s.odd, s.inner = false, false, innermost{}
}

func (s *loopScan) next(d *decoder) {
	if s.inner.next(d) {
		s.tight = append(s.tight, s.inner.start)
	}
	if d.op > opBrTable {
		return
	}
	s.dispatch.next(d)
	switch d.op {
	case opBlock, opLoop, opIf:
		s.kinds = append(s.kinds[:d.nesting], d.op)
	case opBr, opBrIf, opBrTable:
		s.branch(d)
	}
}

func (s *loopScan) branch(d *decoder) {
	for _, l := range d.labels {
		switch to := d.nesting - int(l); {
		case s.kinds[to] != opLoop:
		case s.dispatch.isLoop(to):
			s.jump(d)
		default:
			s.loops = true
		}
	}
}

// jump notes a branch to the dispatch's head.
func (s *loopScan) jump(d *decoder) {
	s.jumps = true
	target, ok := s.dispatch.jump(d)
	switch {
	case !ok:
		s.odd = true
	case !s.dispatch.isForward(target):
		s.heads = append(s.heads, target)
	}
}

// traits are the finished function's.
func (s *loopScan) traits() loopTraits {
	t := s.loopTraits
	t.dispatched = s.jumps && !s.odd
	if !t.dispatched {
		t.loops, t.heads = t.loops || s.jumps, nil
		return t
	}
	t.heads = slices.Clone(s.heads)
	if t.loops = t.loops || len(s.heads) > 0; !t.loops {
		t.tight = nil // all jumps go forward
	}
	return t
}

// innermost finds the tight loops among the innermost ones.
type innermost struct {
	inside  bool // a loop is open that may be tight
	again   bool // a branch goes to its head
	start   int  // its offset
	nesting int  // blocks open in it, itself included
}

// next is true behind a tight loop.
func (s *innermost) next(d *decoder) bool {
	switch {
	case d.op == opLoop:
		// A loop with parameters would have to hand them through.
		*s = innermost{inside: d.block < 0, start: d.start, nesting: d.nesting}
	case !s.inside:
	case mayTakeLong(d):
		s.inside = false
	case d.op == opBr || d.op == opBrIf || d.op == opBrTable:
		s.again = s.again || slices.Contains(d.labels, uint32(d.nesting-s.nesting))
	case d.op == opEnd && d.nesting < s.nesting:
		s.inside = false
		return s.again && d.at-s.start <= maxTight
	}
	return false
}

// mayTakeLong: the time that an instruction takes has no small bound.
func mayTakeLong(d *decoder) bool {
	switch d.op {
	case opCall, opCallIndirect, opReturnCall, opReturnCallIndirect, opMemoryGrow, opAtomic:
		return true
	}
	return d.op == opMisc && d.sub >= firstBulk
}
