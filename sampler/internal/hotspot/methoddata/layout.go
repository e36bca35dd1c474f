package methoddata

import (
	"errors"
	"fmt"

	"github.com/ccmapd/ccmapd/sampler/internal/hotspot/vmstructs"
)

// The tags of records (DataLayout in oops/methodData.hpp, JDK 17 and 25). The JVM's tables
// have them, and newLayout compares.
const (
	tagBit         = 1  // a flag alone
	tagCounter     = 2  // count
	tagJump        = 3  // taken, displacement
	tagType        = 4  // as tagVirtual, of a check of a type
	tagVirtual     = 5  // count, then rows of a Klass* and its count
	tagReturn      = 6  // of jsr
	tagBranch      = 7  // taken, displacement, untaken
	tagSwitch      = 8  // length, then the default's and each case's count and displacement
	tagCall        = 10 // as tagCounter, then the types of arguments: length, cells
	tagVirtualCall = 11 // as tagVirtual, then the types of arguments
)

var tags = map[string]int64{
	"bit_data": tagBit, "counter_data": tagCounter, "jump_data": tagJump, "receiver_type_data": tagType,
	"virtual_call_data": tagVirtual, "ret_data": tagReturn, "branch_data": tagBranch, "multi_branch_data": tagSwitch,
	"call_type_data": tagCall, "virtual_call_type_data": tagVirtualCall,
}

const (
	cellSize   = 8
	headerSize = 8 // of a record: tag, flags, index of the bytecode, traps
	fullSpeed  = 4 // the level of C2's code, which counts nothing
)

// layout is where the JVM keeps profiles, in bytes from the beginning of a structure.
type layout struct {
	method, size, dataSize, data uint64 // of a MethodData
	invocations, thrown          uint64
	level                        uint64 // of an nmethod

	width, returns int // rows of a record of types, of a jsr
	extra          int // cells between the count and the rows; Calibrate finds it
}

// maxWidth bounds the rows of a record; the JVM accepts 8.
const maxWidth = 64

var errWidth = errors.New("a width of profiles that no JVM has")

func newLayout(vm *vmstructs.VM) (layout, error) {
	q := vm.Query()
	l := layout{
		method: q.Offset("MethodData._method"), size: q.Offset("MethodData._size"),
		dataSize: q.Offset("MethodData._data_size"), data: q.Offset("MethodData._data[0]"),
		level: q.Offset("nmethod._comp_level"), thrown: q.Offset("MethodData._compiler_counters._nof_decompiles"),
	}
	// The invocation counter is not in the tables. It is the first of four numbers before
	// this one, in 17 and in 25.
	l.invocations = q.Offset("MethodData._tenure_traps") - 16
	for name, tag := range tags {
		if got := q.Const("DataLayout::" + name + "_tag"); got != tag && q.Err() == nil {
			return l, fmt.Errorf("records of %s have the tag %d: %w", name, got, vmstructs.ErrUnsupported)
		}
	}
	if err := q.Err(); err != nil {
		return l, err
	}
	width, ok1 := vm.Flag("TypeProfileWidth")
	returns, ok2 := vm.Flag("BciProfileWidth")
	if !ok1 || !ok2 || width > maxWidth || returns > maxWidth || l.data > maxHeader || l.data < headerSize {
		return l, errWidth
	}
	l.width, l.returns = int(width), int(returns)
	return l, nil
}

// maxHeader bounds the part of a MethodData before its records, bytes.
const maxHeader = 4096
