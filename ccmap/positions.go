package ccmap

import (
	"cmp"
	"maps"
	"math"
	"strings"
	"sync"
	"sync/atomic"
)

// firsts is a map that keeps the first value of each key, or the least one. Any goroutine may use it.
type firsts[K, V comparable] struct {
	mu  sync.RWMutex
	of  map[K]V
	any atomic.Bool // it has entries
}

func (f *firsts[K, V]) at(key K) (v V) {
	if !f.any.Load() {
		return v
	}
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.of[key]
}

// add adds an entry if its key is new and there are fewer than most, and reports whether
// it did.
func (f *firsts[K, V]) add(key K, v V, most int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, known := f.of[key]; known {
		return false
	}
	return f.set(key, v, most)
}

// addLeast is add, where a lesser value replaces the one of its key.
func (f *firsts[K, V]) addLeast(key K, v V, most int, compare func(a, b V) int) (added bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	old, known := f.of[key]
	if !known {
		return f.set(key, v, most)
	}
	if compare(v, old) < 0 {
		f.of[key] = v
	}
	return false
}

// set adds an entry. The caller holds f.mu.
func (f *firsts[K, V]) set(key K, v V, most int) bool {
	if len(f.of) >= most {
		return false
	}
	if f.of == nil {
		f.of = make(map[K]V)
	}
	f.of[key] = v
	f.any.Store(true)
	return true
}

// all returns a copy: its reader may add to another table, or to this one.
func (f *firsts[K, V]) all() map[K]V {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return maps.Clone(f.of)
}

// SetLine says which line of the method's file a position is on: a line from 1, of
// a method whose coordinate is not lines. The first line of a position is kept. A
// position that can have no line, such as NoOffset, is dropped. Repeating a line
// costs no more than a look-up.
func (n *Names) SetLine(f Frame, line int32) {
	if line <= 0 || f.Offset == NoOffset || int64(f.Method) >= int64(n.Len()) || n.At(f.Method).Coordinate == CoordinateLine {
		return
	}
	if n.lines.at(f) == 0 && n.lines.add(f, line, math.MaxInt) {
		n.bytes.Add(entryBytes[Frame, int32]())
	}
}

// Line returns the line of the method's file that a position is on, 0 where it is
// unknown. A method whose StartLine is unknown begins on line 1.
func (n *Names) Line(f Frame) int32 {
	if f.Offset == NoOffset {
		return 0
	}
	m := n.At(f.Method)
	if m.Coordinate != CoordinateLine {
		return n.lines.at(f)
	}
	line := int64(max(m.StartLine, 1)) + int64(int32(f.Offset))
	if m.File == "" || line < 1 || line > math.MaxInt32 {
		return 0
	}
	return int32(line)
}

// adoptLines adds the lines that another table knows of methods which have an id
// here.
func (n *Names) adoptLines(from *Names, ids methodIDs) {
	for f, line := range from.lines.all() {
		if ids.has(f.Method) {
			n.SetLine(Frame{ids[f.Method], f.Offset}, line)
		}
	}
}

// SetInlined says that the compiler has inlined a call: the caller at the offset of
// the call, and the callee. A call that is inlined in only one copy of the caller
// counts as inlined. Only methods whose coordinate is lines have such calls; others
// are dropped. Repeating a call costs no more than a look-up.
func (n *Names) SetInlined(caller Frame, callee MethodID) {
	if n.hasLines(caller.Method) && n.hasLines(callee) && !n.Inlined(caller, callee) && n.inlined.add(inlinedCall{caller, callee}, true, math.MaxInt) {
		n.bytes.Add(entryBytes[inlinedCall, struct{}]())
	}
}

// Inlined reports whether a source has said that the call was inlined.
func (n *Names) Inlined(caller Frame, callee MethodID) bool {
	return n.inlined.at(inlinedCall{caller, callee})
}

// HasInlined reports whether any source has said that a call was inlined.
func (n *Names) HasInlined() bool { return n.inlined.any.Load() }

// hasLines reports whether the positions of a method are lines.
func (n *Names) hasLines(id MethodID) bool {
	return int64(id) < int64(n.Len()) && n.At(id).Coordinate == CoordinateLine
}

type inlinedCall struct {
	caller Frame
	callee MethodID
}

// adoptInlined adds the inlined calls that another table knows between methods which
// have an id here.
func (n *Names) adoptInlined(from *Names, ids methodIDs) {
	for call := range from.inlined.all() {
		if ids.has(max(call.caller.Method, call.callee)) {
			n.SetInlined(Frame{ids[call.caller.Method], call.caller.Offset}, ids[call.callee])
		}
	}
}

// Mapping says where the code of a module stands: in a file, and in the memory of a
// process. An address a lies a-Start+Offset bytes into the file.
type Mapping struct {
	File         string
	Start, Limit uint64 // addresses: Start is the first, Limit follows the last
	Offset       uint64 // of Start in the file, bytes
}

// Contains reports whether an address belongs to the mapping.
func (m Mapping) Contains(address uint64) bool { return m.Start <= address && address < m.Limit }

// compare orders by file. So a mapping without one is the least.
func (m Mapping) compare(o Mapping) int {
	return cmp.Or(strings.Compare(m.File, o.File), cmp.Compare(m.Start, o.Start), cmp.Compare(m.Limit, o.Limit), cmp.Compare(m.Offset, o.Offset))
}

// MaxAddresses bounds the frames of all addresses in a table, and its mappings: 20 MB
// each. A table drops further ones.
const MaxAddresses = 1 << 18

// SetMapping says where the code of a module stands. Several processes may have it at several places: the mapping of
// the least file is kept, of these the one of the least address. So a sum does not depend on the order of its parts.
// Repeating a mapping costs no more than a look-up.
func (n *Names) SetMapping(module string, m Mapping) {
	if module == "" || m.Start >= m.Limit || n.mappings.at(module) == m {
		return
	}
	if n.mappings.addLeast(module, m, MaxAddresses, Mapping.compare) {
		n.bytes.Add(entryBytes[string, Mapping]() + int64(len(module)+len(m.File)))
	}
}

// Mapping returns where the code of a module stands, the zero Mapping where that is
// unknown.
func (n *Names) Mapping(module string) Mapping { return n.mappings.at(module) }

// Address says where an instruction lies in its file, see SetAddress.
type Address struct {
	Frames []Frame // the innermost frame and the frames that it was inlined into, outwards
	Call   bool
	Offset uint64 // in the file, bytes
}

// SetAddress says where an instruction lies in its file, in bytes from the beginning of
// the file. The instruction is a call or, if call is false, one that a sample was taken
// at. The frames are the innermost frame and the frames that it was inlined into,
// outwards. A map knows positions, not instructions. If several instructions are at one
// position, the first in the file is kept. An innermost frame whose offset is unknown
// has no address.
func (n *Names) SetAddress(frames []Frame, call bool, offset uint64) {
	if len(frames) == 0 || frames[0].Offset == NoOffset || offset == 0 {
		return
	}
	if known, _ := n.Address(frames, call); known == 0 || offset < known {
		n.addresses.set(frames, call, offset)
		n.bytes.Add(int64(len(frames)) * entryBytes[position, uint64]())
	}
}

// Address returns the offset given to SetAddress, 0 where there is none. Met reports
// whether these frames have an address, or others that were inlined into them.
func (n *Names) Address(frames []Frame, call bool) (offset uint64, met bool) {
	a := &n.addresses
	a.mu.RLock()
	defer a.mu.RUnlock()
	if id := a.find(frames, call); id != 0 {
		return a.offsets[id], true
	}
	return 0, false
}

// Addresses returns copies of all known addresses: a caller may add to another table
// while it reads them, or to this one.
func (n *Names) Addresses() []Address {
	a := &n.addresses
	a.mu.RLock()
	defer a.mu.RUnlock()
	positions := make([]position, len(a.offsets))
	for p, id := range a.ids {
		positions[id] = p
	}
	var known []Address
	for id, offset := range a.offsets {
		if offset == 0 {
			continue
		}
		k := Address{Call: positions[id].call, Offset: offset}
		for at := uint32(id); at != 0; at = positions[at].outer {
			k.Frames = append(k.Frames, positions[at].frame)
		}
		known = append(known, k)
	}
	return known
}

// addresses are the file offsets of positions in machine code. An instruction has one
// position for its innermost frame and for each frame that it was inlined into; each
// position refers to the next one outwards. Any goroutine may use them.
type addresses struct {
	mu      sync.RWMutex
	ids     map[position]uint32 // index in offsets
	offsets []uint64            // in the file, bytes; 0: unknown. Index 0 is no position
	frames  int                 // of all addresses
}

// position is a frame of an instruction.
type position struct {
	outer uint32 // index of the frame that it was inlined into; 0: none
	frame Frame
	call  bool // the instruction is a call
}

// find returns the position of frames, 0 where it is unknown.
func (a *addresses) find(frames []Frame, call bool) uint32 {
	id := uint32(0)
	for i := len(frames) - 1; i >= 0; i-- {
		var known bool
		if id, known = a.ids[position{id, frames[i], call || i > 0}]; !known {
			return 0
		}
	}
	return id
}

func (a *addresses) set(frames []Frame, call bool, offset uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if id := a.find(frames, call); id != 0 && a.offsets[id] != 0 {
		a.offsets[id] = min(a.offsets[id], offset)
		return
	}
	if a.frames+len(frames) > MaxAddresses {
		return
	}
	a.frames += len(frames)
	id := uint32(0)
	for i := len(frames) - 1; i >= 0; i-- {
		id = a.id(position{id, frames[i], call || i > 0})
	}
	a.offsets[id] = offset
}

// id finds or adds a position.
func (a *addresses) id(p position) uint32 {
	if id, known := a.ids[p]; known {
		return id
	}
	if a.ids == nil {
		a.ids, a.offsets = make(map[position]uint32), make([]uint64, 1)
	}
	id := uint32(len(a.offsets))
	a.ids[p], a.offsets = id, append(a.offsets, 0)
	return id
}

// adoptAddresses adds the addresses and mappings that another table knows, of methods
// which have an id here.
func (n *Names) adoptAddresses(from *Names, ids methodIDs) {
	for module, m := range from.mappings.all() {
		n.SetMapping(module, m)
	}
	for _, a := range from.Addresses() {
		frames := a.Frames
		for i := range frames {
			if !ids.has(frames[i].Method) {
				frames = nil
				break
			}
			frames[i].Method = ids[frames[i].Method]
		}
		n.SetAddress(frames, a.Call, a.Offset)
	}
}
