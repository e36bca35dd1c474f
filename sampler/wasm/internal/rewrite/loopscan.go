package rewrite

import (
	"math"
	"slices"

	"github.com/ccmapd/ccmapd/sampler/wasm/internal/format"
)

// loopTraits are the scan's facts on a function's loops.
type loopTraits struct {
	loops      bool  // a branch may close a cycle
	tight      []int // offsets in the module of the tight loops
	dispatched bool  // all branches to the dispatch's head are jumps
	heads      []int // targets of jumps back
}

// loopScan finds the loops of one function after the other.
type loopScan struct {
	loopTraits
	kinds    []byte // opcodes of the open blocks; reused
	dispatch dispatch
	jumps    bool // there are branches to the dispatch's head
	odd      bool // one of them is not a jump
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

// traits returns the traits of the scanned function.
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

// next is true after a tight loop.
func (s *innermost) next(d *decoder) bool {
	switch {
	case d.op == opLoop:
		// A loop with parameters would have to pass them on.
		*s = innermost{inside: d.block < 0, start: d.start, nesting: d.nesting}
	case !s.inside:
	case mayTakeLong(d):
		s.inside = false
	case d.op == opBr || d.op == opBrIf || d.op == opBrTable:
		s.again = s.again || slices.Contains(d.labels, uint32(d.nesting-s.nesting))
	case d.op == opEnd && d.nesting < s.nesting:
		s.inside = false
		return s.again && d.At-s.start <= maxTight
	}
	return false
}

// mayTakeLong: the instruction's time has no small bound.
func mayTakeLong(d *decoder) bool {
	switch d.op {
	case opCall, opCallIndirect, opReturnCall, opReturnCallIndirect, opMemoryGrow, opAtomic:
		return true
	}
	return d.op == opMisc && d.sub >= firstBulk
}

// A dispatch is the loop that Go's compiler makes of a function
// (cmd/internal/obj/wasm/wasmobj.go of Go 1.26): every jump, forward too, goes to its
// head, and from there to a basic block.
//
//	loop $l
//	  block … block                         one around each basic block's entry
//	    local.get pc; br_table …
//	  end
//	  …
//	  i32.const k; local.set pc; br $l      a jump to basic block k
//	  …
//	end
//
// A jump forward looks like a cycle's end, but does not close a cycle. In the rewritten
// code it goes straight to its target. So only jumps back reach the head from inside the
// loop. (With that and all polls, the Go programs of package guests took 1 to 16 % less
// time than the originals. With polls before jumps back, and jumps forward unchanged,
// they took up to 5 % more.)
type dispatch struct {
	nesting int // blocks open in the loop, itself included; 0: no loop yet
	head    int // offset after the loop and the blocks that begin it
	open    int // open blocks: the loop and the blocks in its head
	local   uint32
	length  int64 // instructions in the head
	targets []int // by k, the last for all above: open blocks in the target; reused
}

// begin starts a function.
func (s *dispatch) begin() {
	*s = dispatch{targets: s.targets[:0]}
}

// next follows an instruction. It uses only the function's first loop without parameters:
// a jump straight to a block does not pass parameters.
func (s *dispatch) next(d *decoder) {
	switch d.op {
	case opLoop:
		if s.nesting == 0 && !pollsAtHead(d) {
			s.nesting, s.open, s.head = d.nesting, d.nesting, d.At
		}
	case opBlock:
		if d.start == s.head && d.block == emptyBlockType {
			s.head = d.At
		}
	case opEnd:
		s.open = min(s.open, d.nesting)
	case opBrTable:
		if s.isTable(d) {
			s.readTable(d)
		}
	}
}

// isTable: the instruction is the table in the head.
func (s *dispatch) isTable(d *decoder) bool {
	return s.nesting != 0 && d.before[0] == s.head && d.Data[s.head] == opLocalGet
}

func (s *dispatch) readTable(d *decoder) {
	s.open = d.nesting
	s.length = int64(d.nesting-s.nesting) + 2
	r := format.Reader{Data: d.Data, At: s.head + 1}
	s.local = r.U32()
	for _, l := range d.labels {
		s.targets = append(s.targets, d.nesting-int(l))
	}
}

// isLoop: the block at a depth of nesting, itself included, is the loop.
func (s *dispatch) isLoop(nesting int) bool {
	return nesting == s.nesting && s.open >= s.nesting
}

// jump returns the target of a branch to the loop's head, as the number of blocks open in
// it. It is false if the target is unknown, or not in the loop.
func (s *dispatch) jump(d *decoder) (target int, ok bool) {
	if d.op != opBr || len(s.targets) == 0 {
		return 0, false
	}
	if d.Data[d.before[0]] != opLocalSet || d.Data[d.before[1]] != opI32Const {
		return 0, false
	}
	r := format.Reader{Data: d.Data, At: d.before[1] + 1}
	k := uint32(r.Signed(32))
	r.At++
	if r.U32() != s.local {
		return 0, false
	}
	target = s.targets[min(int64(k), int64(len(s.targets)-1))]
	return target, target > s.nesting
}

// isForward: that block is still open.
func (s *dispatch) isForward(target int) bool { return target <= s.open }

// A cover follows a function's code in order. It knows which of the open loops need no
// poll before a branch back to their heads: those that have passed a safe point on every
// path from there.
//
// Loops are numbered from the outermost. Code after an inner loop's head is also after
// the outer heads, so one number is enough. Where paths meet, the least number counts.
// One pass is enough: a path that comes back to a head has at least the number that it
// had there before.
type cover struct {
	blocks []openBlock // the function itself first; reused
	loops  int         // open
	safe   int         // loops with numbers from here on have no safe point yet; or unreachable
}

// openBlock is a block of a cover.
type openBlock struct {
	loop      int // its number, or noLoop
	end       int // least safe of the branches to its end
	condition int // safe at an if without an else yet
}

const (
	noLoop = -1
	// unreachable code is as safe as possible.
	unreachable = math.MaxInt
)

// begin starts a function.
func (c *cover) begin() {
	c.blocks = append(c.blocks[:0], openBlock{noLoop, unreachable, unreachable})
	c.loops, c.safe = 0, 0
}

// next follows an instruction. Polls and branches call poll, branch and dispatch.
func (c *cover) next(d *decoder) {
	switch d.op {
	case opBlock, opIf, opLoop:
		c.open(d)
	case opElse:
		b := &c.blocks[len(c.blocks)-1]
		b.end = min(b.end, c.safe)
		c.safe, b.condition = b.condition, unreachable
	case opEnd:
		c.close()
	case opUnreachable, opBr, opBrTable, opReturn, opReturnCall, opReturnCallIndirect:
		c.safe = unreachable
	}
}

func (c *cover) open(d *decoder) {
	b := openBlock{noLoop, unreachable, unreachable}
	switch d.op {
	case opIf:
		b.condition = c.safe
	case opLoop:
		if c.safe != unreachable {
			c.safe = min(c.safe, c.loops) // it may be higher, for closed loops
		}
		b.loop = c.loops
		c.loops++
		if pollsAtHead(d) {
			c.poll()
		}
	}
	c.blocks = append(c.blocks, b)
}

// pollsAtHead: a loop with parameters has operands on the stack at a branch back, so it
// polls at its head, always.
func pollsAtHead(d *decoder) bool { return d.block >= 0 }

func (c *cover) close() {
	last := len(c.blocks) - 1
	b := c.blocks[last]
	c.blocks = c.blocks[:last]
	c.safe = min(c.safe, b.end, b.condition)
	if b.loop != noLoop {
		c.loops--
	}
}

// poll: here all open loops pass a safe point.
func (c *cover) poll() {
	if c.safe != unreachable {
		c.safe = c.loops
	}
}

// needsPoll: a branch goes back to a loop's head, perhaps without a safe point.
func (c *cover) needsPoll(label uint32) bool {
	return c.safe <= c.blocks[len(c.blocks)-1-int(label)].loop
}

// branch is a branch out of a block, from here.
func (c *cover) branch(label uint32) {
	b := &c.blocks[len(c.blocks)-1-int(label)]
	b.end = min(b.end, c.safe)
}

// dispatch is the table in a dispatch's head. Among its blocks, only the ends of heads
// are reached in cycles, without a safe point. The others are reached when the loop is
// entered. Loops around it have parameters, and so poll at their heads.
func (c *cover) dispatch(nesting int, heads []int) {
	loop := c.blocks[nesting].loop
	for i := nesting + 1; i < len(c.blocks); i++ {
		c.blocks[i].end = loop + 1
	}
	for _, head := range heads {
		c.blocks[head].end = loop
	}
}
