package rewrite

import "github.com/ccmapd/ccmapd/sampler/wasm/internal/format"

// spaces are the sizes of a module's index spaces that rewriting enlarges. An index
// beyond them is invalid in the original, and would become valid.
type spaces struct {
	types, functions, globals, elements int
}

// A decoder reads an expression instruction by instruction, up to the end that closes it.
// It does not check types: wazero does. It checks every index whose meaning the rewriting
// changes.
type decoder struct {
	format.Reader
	spaces *spaces
	locals uint64 // parameters included

	// The last read instruction.
	op     byte
	start  int    // offset of its opcode
	before [2]int // offsets of the opcodes before it, the last first
	index  uint32 // local, function, or type of an indirect call
	table  uint32 // of an indirect call
	sub    uint32 // opcode after a prefix
	block  int64  // type of a block: an index, or negative

	labels []uint32 // of a branch; reused

	nesting int // blocks open after it
}

// maxNesting bounds the open blocks: wazero's own stacks grow with them.
const maxNesting = 1 << 20

// next reads an instruction. It is false after the end that closes the expression, and
// after an error.
func (d *decoder) next() bool {
	if d.nesting < 0 || d.Err != nil {
		return false
	}
	d.before[1], d.before[0], d.start = d.before[0], d.start, d.At
	d.labels = d.labels[:0]
	d.op = d.Byte()
	if imm := singleOpcodes[d.op]; imm != immNone {
		d.read(imm)
	} else if d.op == opEnd {
		d.nesting--
	}
	return d.Err == nil
}

func (d *decoder) read(imm immediates) {
	switch imm {
	case immNone:
	case immLocal:
		if d.index = d.U32(); uint64(d.index) >= d.locals {
			d.Fail(d.start, "local beyond the function's %d", d.locals)
		}
	case immI32:
		d.Signed(32)
	case immI64:
		d.Signed(64)
	case immMemory:
		d.readMemory()
	case immBlock:
		d.readBlock()
	case immLabel:
		d.label()
	case immLabels:
		for n := d.Count(1); n > 0 && d.Err == nil; n-- {
			d.label()
		}
		d.label()
	case immFunction:
		d.index = d.Reader.Index(d.spaces.functions, "function")
	case immIndirect:
		d.index = d.Reader.Index(d.spaces.types, "type")
		d.table = d.U32()
	case immGlobal:
		d.Reader.Index(d.spaces.globals, "global")
	case immPrefix:
		d.readPrefixed()
	default:
		d.readRare(imm)
	}
}

func (d *decoder) readRare(imm immediates) {
	switch imm {
	case immIndex:
		d.U32()
	case immIndex2:
		d.U32()
		d.U32()
	case immElem, immTableInit:
		d.Reader.Index(d.spaces.elements, "element segment")
		if imm == immTableInit {
			d.U32()
		}
	case immMemoryLane:
		d.readMemory()
		d.Skip(1)
	case imm1:
		d.Skip(1)
	case imm4:
		d.Skip(4)
	case imm8:
		d.Skip(8)
	case imm16:
		d.Skip(16)
	case immTypes:
		for n := d.Count(1); n > 0; n-- {
			d.ValueType()
		}
	case immHeapType:
		d.HeapType()
	case immExceptions:
		d.Fail(d.start, "exception handling (opcode %#02x)", d.op)
	case immTypedRefs:
		d.Fail(d.start, "typed function references (opcode %#02x)", d.op)
	default:
		d.Fail(d.start, "unknown opcode %#02x", d.op)
	}
}

// lenU32 is the number of bytes that appendU32 appends.
func lenU32(v uint32) int {
	n := 1
	for ; v >= 0x80; v >>= 7 {
		n++
	}
	return n
}

// readPrefixed reads an opcode after a prefix. wazero v1.12.0 takes the byte after 0xfd
// and 0xfe for the opcode, and the second byte of a longer opcode for a nop, so only the
// shortest encoding is unambiguous.
func (d *decoder) readPrefixed() {
	at := d.At
	d.sub = d.U32()
	if d.Err == nil && (d.sub > 0xff || d.op != opMisc && d.At-at != lenU32(d.sub)) {
		d.Fail(d.start, "unknown opcode %#02x %d", d.op, d.sub)
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
		d.Fail(d.start, "unknown opcode %#02x %#02x", d.op, d.sub)
		return
	}
	d.read(imm)
}

func (d *decoder) readMemory() {
	if align := d.U32(); align >= 64 {
		d.Fail(d.start, "several memories")
	}
	d.U32()
}

func (d *decoder) readBlock() {
	at := d.At
	d.block = d.Signed(33)
	switch t := d.block; {
	case t >= 0:
		if t >= int64(d.spaces.types) {
			d.Fail(at, "type %d of %d", t, d.spaces.types)
		}
	case t != emptyBlockType && !format.IsValueType(byte(t)&0x7f):
		d.Fail(at, "block type %d", t)
	}
	if d.nesting++; d.nesting > maxNesting {
		d.Fail(at, "more than %d blocks nested", maxNesting)
	}
}

func (d *decoder) label() {
	at := d.At
	l := d.U32()
	if int64(l) > int64(d.nesting) {
		d.Fail(at, "branch to label %d of %d", l, d.nesting+1)
	}
	d.labels = append(d.labels, l)
}

// Opcodes that the rewriter uses.
const (
	opUnreachable        = 0x00
	opBlock              = 0x02
	opLoop               = 0x03
	opIf                 = 0x04
	opElse               = 0x05
	opEnd                = 0x0b
	opBr                 = 0x0c
	opBrIf               = 0x0d
	opBrTable            = 0x0e
	opReturn             = 0x0f
	opCall               = 0x10
	opCallIndirect       = 0x11
	opReturnCall         = 0x12
	opReturnCallIndirect = 0x13
	opLocalGet           = 0x20
	opLocalSet           = 0x21
	opLocalTee           = 0x22
	opGlobalGet          = 0x23
	opGlobalSet          = 0x24
	opTableGet           = 0x25
	opMemoryGrow         = 0x40
	opI32Const           = 0x41
	opI64Const           = 0x42
	opI32Eqz             = 0x45
	opI32GeU             = 0x4f
	opI64Eqz             = 0x50
	opI32Add             = 0x6a
	opI32Sub             = 0x6b
	opI32And             = 0x71
	opI32Or              = 0x72
	opI64Add             = 0x7c
	opI64And             = 0x83
	opRefFunc            = 0xd2
	opMisc               = 0xfc
	opVector             = 0xfd
	opAtomic             = 0xfe

	// After opMisc: from here on, memory and tables.
	firstBulk = 0x08

	emptyBlock     = 0x40
	emptyBlockType = emptyBlock - 0x80 // as a number
	typeI32        = 0x7f
	typeI64        = 0x7e
	typeF32        = 0x7d
	typeF64        = 0x7c
	typeV128       = 0x7b
)

// immediates is the kind of bytes that follow an opcode.
type immediates uint8

const (
	immUnknown    immediates = iota // an opcode of no known proposal
	immExceptions                   // an opcode of the exception handling proposals
	immTypedRefs                    // an opcode of typed function references or GC
	immNone
	immBlock    // block type
	immLabel    // label
	immLabels   // vector of labels, label
	immFunction // function
	immIndirect // type, table
	immTypes    // vector of value types
	immLocal
	immGlobal
	immIndex  // an index of a space that rewriting does not change
	immIndex2 // two of them
	immElem   // element segment
	immTableInit
	immMemory // alignment, offset
	immMemoryLane
	immI32
	immI64
	imm1 // fixed numbers of bytes
	imm4
	imm8
	imm16
	immHeapType
	immPrefix // the opcode proper, as LEB128
)

// opcodeRange gives the opcodes first to last their immediates.
type opcodeRange struct {
	first, last byte
	immediates  immediates
}

// The opcodes of one byte: core 2.0 and tail calls.
var singleOpcodes = opcodeTable(
	opcodeRange{0x00, 0x01, immNone}, // unreachable, nop
	opcodeRange{0x02, 0x04, immBlock},
	opcodeRange{0x05, 0x05, immNone}, // else
	opcodeRange{0x06, 0x0a, immExceptions},
	opcodeRange{0x0b, 0x0b, immNone}, // end
	opcodeRange{0x0c, 0x0d, immLabel},
	opcodeRange{0x0e, 0x0e, immLabels},
	opcodeRange{0x0f, 0x0f, immNone}, // return
	opcodeRange{0x10, 0x10, immFunction},
	opcodeRange{0x11, 0x11, immIndirect},
	opcodeRange{0x12, 0x12, immFunction},
	opcodeRange{0x13, 0x13, immIndirect},
	opcodeRange{0x14, 0x17, immTypedRefs},
	opcodeRange{0x18, 0x19, immExceptions},
	opcodeRange{0x1a, 0x1b, immNone}, // drop, select
	opcodeRange{0x1c, 0x1c, immTypes},
	opcodeRange{0x1f, 0x1f, immExceptions},
	opcodeRange{0x20, 0x22, immLocal},
	opcodeRange{0x23, 0x24, immGlobal},
	opcodeRange{0x25, 0x26, immIndex}, // table.get, table.set
	opcodeRange{0x28, 0x3e, immMemory},
	opcodeRange{0x3f, 0x40, immIndex}, // memory.size, memory.grow
	opcodeRange{0x41, 0x41, immI32},
	opcodeRange{0x42, 0x42, immI64},
	opcodeRange{0x43, 0x43, imm4},
	opcodeRange{0x44, 0x44, imm8},
	opcodeRange{0x45, 0xc4, immNone}, // comparisons, arithmetic, conversions
	opcodeRange{0xd0, 0xd0, immHeapType},
	opcodeRange{0xd1, 0xd1, immNone}, // ref.is_null
	opcodeRange{0xd2, 0xd2, immFunction},
	opcodeRange{0xd3, 0xd6, immTypedRefs},
	opcodeRange{0xfb, 0xfb, immTypedRefs},
	opcodeRange{0xfc, 0xfe, immPrefix},
)

// After 0xfc: saturating truncation, bulk memory, tables.
var miscOpcodes = opcodeTable(
	opcodeRange{0x00, 0x07, immNone},
	opcodeRange{0x08, 0x08, immIndex2},    // memory.init
	opcodeRange{0x09, 0x09, immIndex},     // data.drop
	opcodeRange{0x0a, 0x0a, immIndex2},    // memory.copy
	opcodeRange{0x0b, 0x0b, immIndex},     // memory.fill
	opcodeRange{0x0c, 0x0c, immTableInit}, // element segment, table
	opcodeRange{0x0d, 0x0d, immElem},      // elem.drop
	opcodeRange{0x0e, 0x0e, immIndex2},    // table.copy
	opcodeRange{0x0f, 0x11, immIndex},     // table.grow, table.size, table.fill
)

// After 0xfd: fixed-width SIMD, without the relaxed instructions.
var vectorOpcodes = opcodeTable(
	opcodeRange{0x00, 0x0b, immMemory},
	opcodeRange{0x0c, 0x0d, imm16}, // v128.const, i8x16.shuffle
	opcodeRange{0x0e, 0x14, immNone},
	opcodeRange{0x15, 0x22, imm1}, // lanes
	opcodeRange{0x23, 0x53, immNone},
	opcodeRange{0x54, 0x5b, immMemoryLane},
	opcodeRange{0x5c, 0x5d, immMemory},
	opcodeRange{0x5e, 0xff, immNone},
)

// After 0xfe: threads.
var atomicOpcodes = opcodeTable(
	opcodeRange{0x00, 0x02, immMemory}, // notify, wait
	opcodeRange{0x03, 0x03, imm1},      // fence
	opcodeRange{0x10, 0x4e, immMemory},
)

func opcodeTable(ranges ...opcodeRange) (table [256]immediates) {
	for _, r := range ranges {
		for op := int(r.first); op <= int(r.last); op++ {
			table[op] = r.immediates
		}
	}
	return table
}
