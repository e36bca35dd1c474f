package export

import (
	"math/bits"
	"math/rand/v2"

	"github.com/ccmapd/ccmapd/ccmap"
)

// spotKey is a position in machine code: a frame, and those that it was inlined into.
type spotKey struct {
	outer  spotID // the caller that the frame was inlined into; 0: not inlined
	method uint32 // index in canonical.methods
	offset uint32
}

// spotID numbers spots from 1.
type spotID uint32

func (k spotKey) at() frame { return frame{int(k.method), k.offset} }

// spotTable finds spots by their keys. It is open addressing with linear probing, by a seeded hash,
// and at most two thirds full.
type spotTable struct {
	keys            []spotKey // by id less 1
	sampled, called []uint32  // the same: ids of the location; 0 until a stack ends there, or calls
	slots           []spotSlot
	used            int
	seed            uint64
}

// spotSlot is an entry. Several keys may have one spot.
type spotSlot struct {
	key spotKey
	id  spotID // 0: the slot is empty
}

func newSpotTable() spotTable {
	const least = 1 << 10 // a power of two, as all sizes
	return spotTable{slots: make([]spotSlot, least), seed: rand.Uint64()}
}

func (t *spotTable) key(id spotID) spotKey { return t.keys[id-1] }

// slot returns the slot of a key, or the empty one for it.
func (t *spotTable) slot(key spotKey) *spotSlot {
	const odd = 0x9e3779b97f4a7c15 // 2⁶⁴ over the golden ratio
	hi, lo := bits.Mul64((uint64(key.method)<<32|uint64(key.offset))^t.seed, (uint64(key.outer)+1)*odd^bits.ReverseBytes64(t.seed))
	mask := uint64(len(t.slots) - 1)
	for i := (hi ^ lo) * odd >> 32; ; i++ {
		if s := &t.slots[i&mask]; s.id == 0 || s.key == key {
			return s
		}
	}
}

// add adds a spot, and returns its id.
func (t *spotTable) add(key spotKey) spotID {
	t.keys, t.sampled, t.called = append(t.keys, key), append(t.sampled, 0), append(t.called, 0)
	return spotID(len(t.keys))
}

// set says which spot a new key has.
func (t *spotTable) set(key spotKey, id spotID) {
	if t.used++; 3*t.used > 2*len(t.slots) {
		old := t.slots
		t.slots = make([]spotSlot, 2*len(old))
		for _, s := range old {
			if s.id != 0 {
				*t.slot(s.key) = s
			}
		}
	}
	*t.slot(key) = spotSlot{key, id}
}

// findSpot finds or makes the spot of a key. An inlined frame that is known at an address of
// its own, and not at one in that caller, is a spot of its own: another copy of the
// caller has it inlined.
func (p *pprofBuilder) findSpot(key spotKey) spotID {
	if s := p.spots.slot(key); s.id != 0 {
		return s.id
	}
	var id spotID
	if alone := (spotKey{method: key.method, offset: key.offset}); key.outer != 0 && p.met(alone) && !p.met(key) {
		id = p.findSpot(alone)
	} else {
		id = p.spots.add(key)
	}
	p.spots.set(key, id)
	return id
}

// met reports whether an address of a spot is known.
func (p *pprofBuilder) met(key spotKey) bool {
	names, frames := p.c.snapshot.Names(), p.frames(key)
	_, called := names.Address(frames, true)
	_, sampled := names.Address(frames, false)
	return called || sampled
}

// address returns the address of a spot, 0 where it is unknown.
func (p *pprofBuilder) address(key spotKey, call bool) uint64 {
	if m := &p.c.methods[key.method]; m.Coordinate != ccmap.CoordinateLine {
		return addressOf(m.Coordinate, key.offset)
	}
	code := &p.codes[p.modules[key.method]]
	if code.Limit == 0 {
		return 0
	}
	offset, _ := p.c.snapshot.Names().Address(p.frames(key), call)
	if address := code.Start + offset - code.Offset; offset != 0 && code.Contains(address) {
		return address
	}
	return 0
}

// frames returns the frames of a spot, innermost first.
func (p *pprofBuilder) frames(key spotKey) []ccmap.Frame {
	frames := append(p.scratch[:0], p.frame(key))
	for at := key.outer; at != 0; at = p.spots.key(at).outer {
		frames = append(frames, p.frame(p.spots.key(at)))
	}
	p.scratch = frames
	return frames
}

func (p *pprofBuilder) frame(k spotKey) ccmap.Frame {
	return ccmap.Frame{Method: p.c.ids[k.method], Offset: k.offset}
}

// code returns where the code of a module stands; the zero Mapping where that is unknown,
// or where addresses there would be taken for positions that are not lines.
func (p *pprofBuilder) code(module string) ccmap.Mapping {
	m := p.c.snapshot.Names().Mapping(module)
	if m.Start < addressOf(ccmap.CoordinateMachine+1, 0) && m.Limit > addressOf(ccmap.CoordinateBytecode, 0) {
		return ccmap.Mapping{}
	}
	return m
}

// nearLocations has the ids of locations of frames that were not inlined, by method and by the
// first offsets in it; 0: not there yet. Nearly every node needs one.
type nearLocations struct{ sampled, called []uint32 }

// nearOffsets is how many lines most methods have at most.
const nearOffsets = 64

// newNearLocations returns none, unless these would take at most 32 bytes a node.
func newNearLocations(methods, nodes int) (n nearLocations) {
	if methods <= nodes/16 {
		n.sampled, n.called = make([]uint32, methods*nearOffsets), make([]uint32, methods*nearOffsets)
	}
	return n
}

// place returns where the ids of a frame are, if they are here.
func (n *nearLocations) place(f frame) (i int, ok bool) {
	return f.method*nearOffsets + int(f.offset), f.offset < nearOffsets && n.called != nil
}

// frameLocation returns the id of the location of a frame that was not inlined.
func (p *pprofBuilder) frameLocation(f frame, call bool) uint64 {
	i, near := p.near.place(f)
	if !near {
		return p.location(p.frameSpot(f), call)
	}
	if call && p.near.called[i] != 0 {
		return uint64(p.near.called[i])
	}
	return p.locate(spotKey{method: uint32(f.method), offset: f.offset}, call, &p.near.sampled[i], &p.near.called[i])
}

func (p *pprofBuilder) frameSpot(f frame) spotID {
	return p.findSpot(spotKey{method: uint32(f.method), offset: f.offset})
}

// location returns the id of the location of a spot. A call and an instruction that was
// sampled have the same one unless both have an address of their own.
func (p *pprofBuilder) location(spot spotID, call bool) uint64 {
	key := p.spots.key(spot)
	if _, near := p.near.place(key.at()); near && key.outer == 0 {
		return p.frameLocation(key.at(), call)
	}
	return p.locate(key, call, &p.spots.sampled[spot-1], &p.spots.called[spot-1])
}

// locate returns one of two ids of the locations of a spot, and makes it if it is 0.
func (p *pprofBuilder) locate(key spotKey, call bool, sampled, called *uint32) uint64 {
	id := sampled
	if call {
		id = called
	}
	if *id != 0 {
		return uint64(*id)
	}
	switch ofSample, ofCall := p.address(key, false), p.address(key, true); {
	case ofCall == 0 || ofSample == 0 || ofCall == ofSample:
		*called = p.addLocation(key, max(ofCall, ofSample))
		*sampled = *called
	case call:
		*called = p.addLocation(key, ofCall)
	default:
		*sampled = p.addLocation(key, ofSample)
	}
	return uint64(*id)
}

// addLocation adds one with a line for each frame of a spot, the innermost first.
func (p *pprofBuilder) addLocation(key spotKey, address uint64) (id uint32) {
	mapping := uint64(p.modules[key.method])
	p.lines = p.lines[:0]
	for {
		p.lines = append(p.lines, pprofLine{key.method, p.lineOf(key.at())})
		if key.outer == 0 {
			break
		}
		key = p.spots.key(key.outer)
	}
	p.located++
	p.locations = p.encoder.appendLocation(p.locations, uint64(p.located), mapping, address, p.lines)
	return p.located
}

// lineOf returns the line of a position, unknownLine where it is not known.
func (p *pprofBuilder) lineOf(f frame) int64 {
	if m := &p.c.methods[f.method]; m.Coordinate == ccmap.CoordinateLine {
		return lineOf(f.offset, int64(m.StartLine))
	}
	return int64(p.c.line(f))
}

// unknownLine is the line of an unknown position.
const unknownLine = 0

// lineOf returns the line of a position. Where the start line is unknown (0) the
// method begins at line 1, so that only the unknown position has line 0.
func lineOf(offset uint32, startLine int64) int64 {
	if offset == ccmap.NoOffset {
		return unknownLine
	}
	return max(startLine, 1) + int64(int32(offset))
}

// offsetOf undoes lineOf.
func offsetOf(line, startLine int64) uint32 {
	offset := line - max(startLine, 1)
	if line == unknownLine || int64(int32(offset)) != offset {
		return ccmap.NoOffset
	}
	return uint32(offset)
}

// coordinateShift is where in an address the coordinate stands, above the offset.
const coordinateShift = 32

// addressOf returns the address of a position: 0 if it is a line, else one that tells
// it from other positions on its line, and is the same in every profile, so that pprof
// merges it with itself.
func addressOf(c ccmap.Coordinate, offset uint32) uint64 {
	if c == ccmap.CoordinateLine {
		return 0
	}
	return uint64(c)<<coordinateShift | uint64(offset)
}

// positionOf undoes addressOf. Any other address stands for a line.
func positionOf(address uint64) (c ccmap.Coordinate, offset uint32) {
	if c := address >> coordinateShift; c <= uint64(ccmap.CoordinateMachine) {
		return ccmap.Coordinate(c), uint32(address)
	}
	return ccmap.CoordinateLine, 0
}
