package rewrite

// A dispatch is the loop that Go's compiler makes of a function
// (cmd/internal/obj/wasm/wasmobj.go of Go 1.26): every jump, forward too, goes to
// its head, and from there to a basic block.
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
// A jump to a block that is still to come looks like a cycle's end, but is none:
// in the rewritten code it goes straight there. (By that, and all polls, the Go
// programs of package guests took 1 to 16 % less time than as they were; with polls
// in front of jumps back alone, and the others as they were, up to 5 % more.) So
// the head is reached from inside the loop only with the k of jumps back.
type dispatch struct {
	nesting int // blocks open in the loop, itself included; 0: no loop yet
	head    int // offset behind the loop and the blocks that begin it
	open    int // blocks open of the loop and those in its head
	local   uint32
	length  int64 // instructions in the head
	targets []int // by k, the last for all above: blocks open in the one to whose end it goes; reused
}

// begin starts a function.
func (s *dispatch) begin() {
	*s = dispatch{targets: s.targets[:0]}
}

// next follows an instruction. Of the function's loops it looks at the first one without
// parameters: a jump straight to a block does not take them there.
func (s *dispatch) next(d *decoder) {
	switch d.op {
	case opLoop:
		if s.nesting == 0 && !pollsAtHead(d) {
			s.nesting, s.open, s.head = d.nesting, d.nesting, d.at
		}
	case opBlock:
		if d.start == s.head && d.block == emptyBlockType {
			s.head = d.at
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
	return s.nesting != 0 && d.before[0] == s.head && d.data[s.head] == opLocalGet
}

func (s *dispatch) readTable(d *decoder) {
	s.open = d.nesting
	s.length = int64(d.nesting-s.nesting) + 2
	r := reader{data: d.data, at: s.head + 1}
	s.local = r.u32()
	for _, l := range d.labels {
		s.targets = append(s.targets, d.nesting-int(l))
	}
}

// isLoop: the block that has so many blocks open in it, itself included, is the loop.
func (s *dispatch) isLoop(nesting int) bool {
	return nesting == s.nesting && s.open >= s.nesting
}

// jump tells where a branch to the loop's head goes from there: to the end of the
// block with so many open. It is false where that is not known, or not in the loop.
func (s *dispatch) jump(d *decoder) (target int, ok bool) {
	if d.op != opBr || len(s.targets) == 0 {
		return 0, false
	}
	if d.data[d.before[0]] != opLocalSet || d.data[d.before[1]] != opI32Const {
		return 0, false
	}
	r := reader{data: d.data, at: d.before[1] + 1}
	k := uint32(r.signed(32))
	r.at++
	if r.u32() != s.local {
		return 0, false
	}
	target = s.targets[min(int64(k), int64(len(s.targets)-1))]
	return target, target > s.nesting
}

// isForward: that block is still open.
func (s *dispatch) isForward(target int) bool { return target <= s.open }
