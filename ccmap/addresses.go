package ccmap

import (
	"maps"
	"sync"
)

// Mapping says where the code of a module stands: in a file, and in the memory of a
// process. An address a lies a-Start+Offset bytes into the file.
type Mapping struct {
	File         string
	Start, Limit uint64 // addresses, from the first up to and without the last
	Offset       uint64 // of Start in the file, bytes
}

// Contains reports whether an address belongs to the mapping.
func (m Mapping) Contains(address uint64) bool { return m.Start <= address && address < m.Limit }

// MaxAddresses bounds the frames of all addresses in a table, and its mappings: 20 MB
// each. Of further ones none is kept.
const MaxAddresses = 1 << 18

// addresses are the places in machine code of positions. A position is the frames of
// one instruction, the innermost with those that it was inlined into: one entry for
// each, which leads to the next. Any goroutine may use them.
type addresses struct {
	mu       sync.RWMutex
	ids      map[position]uint32 // index in offsets
	offsets  []uint64            // in the file, bytes; 0: unknown. The first is no position
	frames   int                 // of all addresses
	mappings map[string]Mapping  // by module
}

// position is a frame of an instruction.
type position struct {
	outer uint32 // the frames that it was inlined into; 0: none
	frame Frame
	call  bool // the instruction is a call
}

// SetMapping says where the code of a module stands. The first mapping is kept.
func (n *Names) SetMapping(module string, m Mapping) {
	if module != "" && m.Start < m.Limit && n.addresses.mapping(module) == (Mapping{}) {
		n.addresses.setMapping(module, m)
	}
}

// Mapping returns where the code of a module stands, the zero Mapping where that is
// unknown.
func (n *Names) Mapping(module string) Mapping { return n.addresses.mapping(module) }

// SetAddress says where an instruction lies in its file, in bytes from the beginning of
// the file: one that calls or, if call is false, one that a sample was taken at. The
// frames are the innermost and those that it was inlined into, outwards. A map knows
// positions, not instructions, so of all instructions at a position the first in the
// file is kept. An innermost frame whose offset is unknown has no address.
func (n *Names) SetAddress(frames []Frame, call bool, offset uint64) {
	if len(frames) == 0 || frames[0].Offset == NoOffset || offset == 0 {
		return
	}
	if known, _ := n.Address(frames, call); known == 0 || offset < known {
		n.addresses.set(frames, call, offset)
	}
}

// Address returns what SetAddress said, 0 where it said nothing. It was met if there is
// an address of these frames, or of others that were inlined into them.
func (n *Names) Address(frames []Frame, call bool) (offset uint64, met bool) {
	a := &n.addresses
	a.mu.RLock()
	defer a.mu.RUnlock()
	if id := a.find(frames, call); id != 0 {
		return a.offsets[id], true
	}
	return 0, false
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

func (a *addresses) mapping(module string) Mapping {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return a.mappings[module]
}

func (a *addresses) setMapping(module string, m Mapping) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, known := a.mappings[module]; known || len(a.mappings) == MaxAddresses {
		return
	}
	if a.mappings == nil {
		a.mappings = make(map[string]Mapping)
	}
	a.mappings[module] = m
}

// adoptAddresses adds the addresses and mappings that another table knows, of methods
// which have an id here.
func (n *Names) adoptAddresses(from *Names, ids methodIDs) {
	for module, m := range from.addresses.allMappings() {
		n.SetMapping(module, m)
	}
	for _, a := range from.Addresses() {
		frames := a.Frames
		for i := range frames {
			if int64(frames[i].Method) >= int64(len(ids)) {
				frames = nil
				break
			}
			frames[i].Method = ids[frames[i].Method]
		}
		n.SetAddress(frames, a.Call, a.Offset)
	}
}

// Address says where an instruction lies in its file, see SetAddress.
type Address struct {
	Frames []Frame // the innermost and those that it was inlined into, outwards
	Call   bool
	Offset uint64 // in the file, bytes
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

func (a *addresses) allMappings() map[string]Mapping {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return maps.Clone(a.mappings)
}
