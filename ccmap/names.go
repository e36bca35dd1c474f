package ccmap

import (
	"fmt"
	"sync"
	"sync/atomic"
	"unsafe"
)

// MethodID is a dense index into a [Names] table. It has a meaning only together
// with that table.
type MethodID uint32

// NoMethod is no method. In a [Node] it marks a position node: the node holds
// the position of its parent as the innermost frame.
const NoMethod MethodID = 1<<32 - 1

// Method describes a method, function or code region of the target. Two
// methods with the same Name and Signature are the same method, in one map and
// across maps; the other fields only describe it. [Fit] tells methods of an earlier build
// that are not what they were.
type Method struct {
	Name       string     // qualified, for example "net/http.(*conn).serve"; never empty
	Signature  string     // in the runtime's own notation; empty where the runtime has none
	Receiver   string     // receiver type, for example "*net/http.conn"; empty where there is none
	File       string     // source file; empty where unknown
	StartLine  int32      // line of the declaration, from 1; 0 where unknown
	Coordinate Coordinate // unit of the offsets of its frames
	Module     string     // build id of the binary or library, or its path where it has none
	Body       uint64     // hash of its code, the same in each build that has the same code; 0 unknown, or MixedBodies
}

// Coordinate is the unit of the offsets of a method's frames. Offsets count from
// the beginning of the method.
type Coordinate uint8

// The coordinates. For positions in the last two, [Names.Line] returns a line only
// where a source has called [Names.SetLine].
const (
	CoordinateLine     Coordinate = iota // lines: StartLine plus the offset is a line of File
	CoordinateBytecode                   // bytes of a VM's code, as compilers of the language emit it
	CoordinateMachine                    // bytes of machine code, which differ from one compilation to the next
)

var coordinateNames = [...]string{CoordinateLine: "line", CoordinateBytecode: "bytecode", CoordinateMachine: "machine"}

// String returns the coordinate's name in files.
func (c Coordinate) String() string { return nameAt(coordinateNames[:], "coordinate", uint8(c)) }

// nameAt returns a name from the list of a type, or the type and the number.
func nameAt(names []string, of string, i uint8) string {
	if int(i) < len(names) {
		return names[i]
	}
	return fmt.Sprintf("%s %d", of, i)
}

// Format prints an offset for people: "+3" lines, "+0x3c" bytes after the beginning
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

// Names of the pseudo methods. Pseudo methods stand in stacks like any other
// method, so every view and export shows the frames that were lost or cut.
const (
	// TruncatedName is the outermost frame of every stack that was cut. Without it
	// the frame below would look like an entry of the program.
	TruncatedName = "[truncated]"
	// KernelName is the innermost frame of a sample taken in the kernel. Where the source
	// knows the system call, its name is the method's Signature. Where it was asked for the
	// kernel's functions, these are frames of this name, too, below that one.
	KernelName = "[kernel]"
	// UnknownName is a frame whose address belongs to no known symbol.
	UnknownName = "[unknown]"
	// processName begins the outermost frame of the samples of one process, where several have one map.
	processName = "[process "
	// PrunedName is the innermost frame of samples whose deeper frames the map
	// has removed to stay within its bounds ([Map.Prune]). It has no call site,
	// and it calls nothing.
	PrunedName = "[pruned]"
	// ElidedName is a frame within a deep stack, between its innermost and its outermost frames. It stands
	// for all frames between them, so that recursion of any depth is one context. [Meta.Elided] says how
	// many they are.
	ElidedName = "[frames elided]"
)

// Ids of the pseudo methods without a signature: the same in every [Names] table.
const (
	TruncatedID MethodID = iota // [TruncatedName]
	KernelID                    // [KernelName]
	UnknownID                   // [UnknownName]
	PrunedID                    // [PrunedName]
	ElidedID                    // [ElidedName]

	// FirstID is the first id that is not a pseudo method's.
	FirstID
)

// IsUnknown reports whether the method stands for code without symbols. Each file of
// such code is a method of its own, with the file's path as its Signature.
func (m Method) IsUnknown() bool { return m.Name == UnknownName }

// IsKernel reports whether the method stands for time in the kernel: in one system call,
// or in no system call that is known.
func (m Method) IsKernel() bool { return m.Name == KernelName }

// ProcessMethod returns the method that stands for a process, or for all of one name. The name must be
// printable.
func ProcessMethod(name string) Method { return Method{Name: processName + name + "]"} }

// Title returns the name, which a system call follows: "[kernel] read".
func (m Method) Title() string {
	if m.IsKernel() && m.Signature != "" {
		return m.Name + " " + m.Signature
	}
	return m.Name
}

// Names is a table of methods, of the lines and addresses of positions in them, and
// of the calls between them that were inlined. Entries are only ever added. Ids are
// dense from 0 and never change; the first are the pseudo methods'.
//
// Any goroutine may call any of its methods. At, Len and Bytes wait for no other
// goroutine; the others wait at most until one entry is added.
type Names struct {
	mu   sync.RWMutex
	ids  map[nameKey]MethodID
	list atomic.Pointer[[]Method] // append-only: a published prefix never changes

	bodies   bodies
	bytes    atomic.Int64 // held, about
	labelled atomic.Bool  // a method stands for labels

	lines     firsts[Frame, int32] // of positions whose offset is not a line: 12 bytes each, and up to twice that
	inlined   firsts[inlinedCall, bool]
	mappings  firsts[string, Mapping] // by module
	addresses addresses
}

type nameKey struct{ name, signature string }

// NewNames returns a table of the pseudo methods.
func NewNames() *Names {
	n := &Names{ids: make(map[nameKey]MethodID)}
	n.list.Store(new([]Method))
	for _, name := range [FirstID]string{TruncatedName, KernelName, UnknownName, PrunedName, ElidedName} {
		n.Intern(Method{Name: name})
	}
	return n
}

// Intern returns the id of the method, adding it if its Name and Signature are
// new. The first description of a method is kept; its Body is as [Names.SetBody] leaves it.
func (n *Names) Intern(m Method) MethodID {
	body := m.Body
	m.Body = 0 // which is in bodies
	id := n.intern(m)
	n.SetBody(id, body)
	return id
}

func (n *Names) intern(m Method) MethodID {
	key := nameKey{m.Name, m.Signature}
	n.mu.RLock()
	id, ok := n.ids[key]
	n.mu.RUnlock()
	if ok {
		return id
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if id, ok := n.ids[key]; ok {
		return id
	}
	old := *n.list.Load()
	id = MethodID(len(old))
	grown := append(old, m)
	n.list.Store(&grown)
	n.ids[key] = id
	n.bytes.Add(m.bytes())
	if m.IsLabels() {
		n.labelled.Store(true)
	}
	return id
}

// Lookup returns the id of the method with this name and signature.
func (n *Names) Lookup(name, signature string) (MethodID, bool) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	id, ok := n.ids[nameKey{name, signature}]
	return id, ok
}

// At returns the method with the given id, which must belong to this table.
func (n *Names) At(id MethodID) Method {
	m := (*n.list.Load())[id]
	m.Body = n.bodies.at(id)
	return m
}

// Len returns the number of methods.
func (n *Names) Len() int { return len(*n.list.Load()) }

// methodIDs maps the ids of another table to the ids of this one.
type methodIDs []MethodID

// of returns the id here; NoMethod stays NoMethod.
func (ids methodIDs) of(id MethodID) MethodID {
	if id == NoMethod {
		return NoMethod
	}
	return ids[id]
}

// has reports whether the method has an id here.
func (ids methodIDs) has(id MethodID) bool { return int64(id) < int64(len(ids)) }

// adopt interns the methods of another table, with the lines and addresses of their
// positions and the calls that were inlined, and returns their ids here.
func (n *Names) adopt(from *Names) methodIDs {
	ids := make(methodIDs, from.Len())
	for id := range ids {
		ids[id] = MethodID(id)
		if from != n {
			ids[id] = n.Intern(from.At(MethodID(id)))
		}
	}
	if from != n {
		n.adoptLines(from, ids)
		n.adoptInlined(from, ids)
		n.adoptAddresses(from, ids)
	}
	return ids
}

// Labelled reports whether any method of the table stands for labels.
func (n *Names) Labelled() bool { return n.labelled.Load() }

// Bytes returns about how much memory the table holds. The texts of a method count for
// each method, though several may share them.
func (n *Names) Bytes() int64 { return n.bytes.Load() }

// bytes returns about how much memory a method takes: its texts, its place in the list, which has
// room for more, and its entry in the index.
func (m *Method) bytes() int64 {
	const place = int64(unsafe.Sizeof(Method{}) * 3 / 2)
	return int64(len(m.Name)+len(m.Signature)+len(m.Receiver)+len(m.File)+len(m.Module)) +
		place + entryBytes[nameKey, MethodID]()
}

// entryBytes returns about how much memory an entry of a map takes, with the room that the map has
// for more.
func entryBytes[K comparable, V any]() int64 {
	return 2 * int64(unsafe.Sizeof(*new(K))+unsafe.Sizeof(*new(V)))
}
