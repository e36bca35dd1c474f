package rewrite

// Opcodes that the rewriter looks at or emits.
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

	// Behind opMisc: from here on, memory and tables.
	firstBulk = 0x08

	emptyBlock     = 0x40
	emptyBlockType = emptyBlock - 0x80 // as a number
	typeI32        = 0x7f
	typeI64        = 0x7e
	typeF32        = 0x7d
	typeF64        = 0x7c
	typeV128       = 0x7b
)

// immediates is what follows an opcode.
type immediates uint8

const (
	immUnknown    immediates = iota // an opcode of no proposal that is known
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
	immIndex  // an index of a space that rewriting leaves as it is
	immIndex2 // two of them
	immElem   // element segment
	immTableInit
	immMemory // alignment, offset
	immMemoryLane
	immI32
	immI64
	imm1 // so many bytes
	imm4
	imm8
	imm16
	immHeapType
	immPrefix // the opcode proper, as LEB128
)

// opcodeRange says what follows the opcodes first to last.
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

// Behind 0xfc: saturating truncation, bulk memory, tables.
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

// Behind 0xfd: fixed-width SIMD, without the relaxed instructions.
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

// Behind 0xfe: threads.
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
