package rewrite

import "math"

// A cover follows a function's code in its order and knows which of the open loops
// need no poll where a branch goes back to their heads: those that have passed a
// safe point on every path from there.
//
// Loops are numbered from the outermost. What is behind an inner loop's head is
// also behind the outer ones', so one number tells it all. Where paths meet, the
// least counts. One pass is enough: a path that comes back to a head has passed
// there with at least the number that it had before.
type cover struct {
	blocks []openBlock // the function itself first; reused
	loops  int         // open
	safe   int         // loops with lower numbers have passed a safe point; or unreachable
}

// openBlock is a block of a cover.
type openBlock struct {
	loop      int // its number, or noLoop
	end       int // least safe of the branches to its end
	condition int // of an if that has no else yet: safe there
}

const (
	noLoop = -1
	// unreachable code is as safe as can be.
	unreachable = math.MaxInt
)

// begin starts a function.
func (c *cover) begin() {
	c.blocks = append(c.blocks[:0], openBlock{noLoop, unreachable, unreachable})
	c.loops, c.safe = 0, 0
}

// next follows an instruction. What polls and branches is told by poll, branch and dispatch.
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
			c.safe = min(c.safe, c.loops) // it may say more, of loops that are closed
		}
		b.loop = c.loops
		c.loops++
		if pollsAtHead(d) {
			c.poll()
		}
	}
	c.blocks = append(c.blocks, b)
}

// pollsAtHead: a loop with parameters has operands on the stack where a branch goes
// back, so it polls at its head, always.
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

// branch is one out of a block, from here.
func (c *cover) branch(label uint32) {
	b := &c.blocks[len(c.blocks)-1-int(label)]
	b.end = min(b.end, c.safe)
}

// dispatch is the table in a dispatch's head. Of the blocks there, only the ends of
// heads are reached in cycles, and those without a safe point; the others when the loop
// is entered. Loops around it have parameters, and so poll at their heads.
func (c *cover) dispatch(nesting int, heads []int) {
	loop := c.blocks[nesting].loop
	for i := nesting + 1; i < len(c.blocks); i++ {
		c.blocks[i].end = loop + 1
	}
	for _, head := range heads {
		c.blocks[head].end = loop
	}
}
