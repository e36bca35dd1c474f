package rewrite

// spaces are the sizes of a module's index spaces that rewriting enlarges: what
// lies beyond them is invalid in the original, and would not be any more.
type spaces struct {
	types, functions, globals, elements int
}

// A decoder reads an expression instruction by instruction, up to the end that
// closes it. It checks no types: wazero does. It checks every index that names
// another thing after the rewriting.
type decoder struct {
	reader
	spaces *spaces
	locals uint64 // parameters included

	// The instruction read last.
	op     byte
	start  int    // offset of its opcode
	before [2]int // of those of the instructions read before it, the last first
	index  uint32 // local, function, or type of an indirect call
	table  uint32 // of an indirect call
	sub    uint32 // opcode behind a prefix
	block  int64  // type of a block: an index, or negative

	labels []uint32 // of a branch; reused

	nesting int // blocks open after it
}

// maxNesting bounds the blocks open at a time; wazero's own stacks grow with it.
const maxNesting = 1 << 20

// next reads an instruction. It is false behind the end that closes the
// expression, and after an error.
func (d *decoder) next() bool {
	if d.nesting < 0 || d.err != nil {
		return false
	}
	d.before[1], d.before[0], d.start = d.before[0], d.start, d.at
	d.labels = d.labels[:0]
	d.op = d.u8()
	if imm := singleOpcodes[d.op]; imm != immNone {
		d.read(imm)
	} else if d.op == opEnd {
		d.nesting--
	}
	return d.err == nil
}

func (d *decoder) read(imm immediates) {
	switch imm {
	case immNone:
	case immLocal:
		if d.index = d.u32(); uint64(d.index) >= d.locals {
			d.fail(d.start, "local beyond the function's %d", d.locals)
		}
	case immI32:
		d.signed(32)
	case immI64:
		d.signed(64)
	case immMemory:
		d.readMemory()
	case immBlock:
		d.readBlock()
	case immLabel:
		d.label()
	case immLabels:
		for n := d.count(1); n > 0 && d.err == nil; n-- {
			d.label()
		}
		d.label()
	case immFunction:
		d.index = d.reader.index(d.spaces.functions, "function")
	case immIndirect:
		d.index = d.reader.index(d.spaces.types, "type")
		d.table = d.u32()
	case immGlobal:
		d.reader.index(d.spaces.globals, "global")
	case immPrefix:
		d.readPrefixed()
	default:
		d.readRare(imm)
	}
}

func (d *decoder) readRare(imm immediates) {
	switch imm {
	case immIndex:
		d.u32()
	case immIndex2:
		d.u32()
		d.u32()
	case immElem, immTableInit:
		d.reader.index(d.spaces.elements, "element segment")
		if imm == immTableInit {
			d.u32()
		}
	case immMemoryLane:
		d.readMemory()
		d.skip(1)
	case imm1:
		d.skip(1)
	case imm4:
		d.skip(4)
	case imm8:
		d.skip(8)
	case imm16:
		d.skip(16)
	case immTypes:
		for n := d.count(1); n > 0; n-- {
			d.valueType()
		}
	case immHeapType:
		d.heapType()
	case immExceptions:
		d.fail(d.start, "exception handling (opcode %#02x)", d.op)
	case immTypedRefs:
		d.fail(d.start, "typed function references (opcode %#02x)", d.op)
	default:
		d.fail(d.start, "unknown opcode %#02x", d.op)
	}
}

// readPrefixed reads an opcode behind a prefix. wazero v1.12.0 takes the byte
// behind 0xfd and 0xfe for the opcode, and the second byte of a longer one for
// a nop, so only the shortest encoding means the same to everybody.
func (d *decoder) readPrefixed() {
	at := d.at
	d.sub = d.u32()
	if d.err == nil && (d.sub > 0xff || d.op != opMisc && d.at-at != lenU32(d.sub)) {
		d.fail(d.start, "unknown opcode %#02x %d", d.op, d.sub)
		return
	}
	table := &miscOpcodes
	switch d.op {
	case opVector:
		table = &vectorOpcodes
	case opAtomic:
		table = &atomicOpcodes
	}
	imm := table[byte(d.sub)]
	if imm == immUnknown {
		d.fail(d.start, "unknown opcode %#02x %#02x", d.op, d.sub)
		return
	}
	d.read(imm)
}

func (d *decoder) readMemory() {
	if align := d.u32(); align >= 64 {
		d.fail(d.start, "several memories")
	}
	d.u32()
}

func (d *decoder) readBlock() {
	at := d.at
	d.block = d.signed(33)
	switch t := d.block; {
	case t >= 0:
		if t >= int64(d.spaces.types) {
			d.fail(at, "type %d of %d", t, d.spaces.types)
		}
	case t != emptyBlockType && !isValueType(byte(t)&0x7f):
		d.fail(at, "block type %d", t)
	}
	if d.nesting++; d.nesting > maxNesting {
		d.fail(at, "more than %d blocks nested", maxNesting)
	}
}

func (d *decoder) label() {
	at := d.at
	l := d.u32()
	if int64(l) > int64(d.nesting) {
		d.fail(at, "branch to label %d of %d", l, d.nesting+1)
	}
	d.labels = append(d.labels, l)
}

func (r *reader) heapType() {
	at := r.at
	if b := r.u8(); b != 0x70 && b != 0x6f {
		r.fail(at, "heap type %#02x", b)
	}
}

func (r *reader) valueType() {
	at := r.at
	if b := r.u8(); !isValueType(b) {
		r.fail(at, "value type %#02x", b)
	}
}

// isValueType: i32, i64, f32, f64, v128, funcref, externref.
func isValueType(b byte) bool {
	return b >= 0x7b && b <= 0x7f || b == 0x70 || b == 0x6f
}
