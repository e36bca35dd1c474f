package ccmap

import "fmt"

// MethodID is a dense index into a [Names] table. It means something only
// beside the table that gave it.
type MethodID uint32

// NoMethod is no method. In a [Node] it marks a position node: the node holds
// the position of its parent as the innermost frame.
const NoMethod MethodID = 1<<32 - 1

// NoOffset is an unknown position in a method, and the call site of an
// outermost frame, which nobody called.
const NoOffset uint32 = 1<<32 - 1

// Method describes a method, function or code region of the target. Two
// methods with the same Name and Signature are the same method, in one map and
// across maps; the other fields only describe it.
type Method struct {
	Name       string     // qualified, for example "net/http.(*conn).serve"; never empty
	Signature  string     // in the runtime's own notation; empty where it has none
	Receiver   string     // receiver type, for example "*net/http.conn"; empty where there is none
	File       string     // source file; empty where unknown
	StartLine  int32      // line of the declaration, from 1; 0 where unknown
	Coordinate Coordinate // what the offsets of its frames count
	Module     string     // build id of the binary or library, or its path where it has none
}

// Coordinate is what the offsets of a method's frames count, from the beginning
// of the method.
type Coordinate uint8

// The coordinates. Of a position in one of the last two, [Names.SetLine] says the
// line if anybody knows it.
const (
	CoordinateLine     Coordinate = iota // lines: StartLine and the offset are a line of File
	CoordinateBytecode                   // bytes of a VM's code, as compilers of the language emit it
	CoordinateMachine                    // bytes of machine code, which differ from one compilation to the next
)

// String returns the coordinate's name in files.
func (c Coordinate) String() string {
	switch c {
	case CoordinateLine:
		return "line"
	case CoordinateBytecode:
		return "bytecode"
	case CoordinateMachine:
		return "machine"
	}
	return fmt.Sprintf("Coordinate(%d)", uint8(c))
}

// Format prints an offset for people: "+3" lines, "+0x3c" bytes behind the beginning
// of the method, "" where it is unknown.
func (c Coordinate) Format(offset uint32) string {
	switch {
	case offset == NoOffset:
		return ""
	case c == CoordinateLine:
		return fmt.Sprintf("%+d", int32(offset))
	}
	return fmt.Sprintf("+%#x", offset)
}

// Names of the pseudo methods. They stand in stacks like any other method, so
// that what was lost or cut is visible in every view and export.
const (
	// TruncatedName is the outermost frame of every stack that was cut, so that
	// nobody takes the frame below it for an entry of the program.
	TruncatedName = "[truncated]"
	// KernelName is the innermost frame of a sample taken in the kernel.
	KernelName = "[kernel]"
	// UnknownName is a frame whose address belongs to no known symbol.
	UnknownName = "[unknown]"
	// PrunedName is the innermost frame of samples whose deeper frames the map
	// has removed to stay within its bounds ([Map.Prune]). Nothing calls it, and
	// it calls nothing.
	PrunedName = "[pruned]"
)

// IsUnknown reports whether the method stands for code without symbols. Each file of
// such code is a method of its own, with the file's path as its Signature.
func (m Method) IsUnknown() bool { return m.Name == UnknownName }

// Frame is one activation record of a stack: a method, and how far it had got.
type Frame struct {
	Method MethodID
	// Offset is the position in the method, in the method's Coordinate: lines as
	// two's complement (Go's //line directive can make them negative), bytes
	// unsigned. NoOffset where it is unknown. In a frame that is not innermost
	// it is the position of the call. [Names.Line] returns its line.
	Offset uint32
}
