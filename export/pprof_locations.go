package export

import (
	"github.com/google/pprof/profile"

	"github.com/ccmapd/ccmapd/ccmap"
)

// codeSpot is a position in machine code: a frame, and those that it was inlined into.
type codeSpot struct {
	spotKey
	address  uint64            // 0: unknown
	location *profile.Location // nil until a stack ends there, or calls
}

type spotKey struct {
	outer *codeSpot // the caller that the frame was inlined into; nil: none
	frame frame
	call  bool // the instruction is a call
}

// follow finds the spots of a stack. The last stack's innermost is found again: there it
// was no call.
func (p *pprofBuilder) follow(stack []frame) {
	kept, most := 0, min(len(stack), len(p.stack))-1
	for kept < most && stack[kept] == p.stack[kept] {
		kept++
	}
	p.stack, p.path = append(p.stack[:kept], stack[kept:]...), p.path[:kept]
	for i := kept; i < len(stack); i++ {
		key := spotKey{nil, stack[i], i+1 < len(stack)}
		if i > 0 && p.c.isInlined(stack[i-1], stack[i].method) {
			key = p.inlined(key, p.path[i-1])
		}
		p.path = append(p.path, p.spot(key))
	}
}

// inlined puts a frame into its caller, unless it is known at an address of its own and
// not at one in that caller: then another copy of the caller has it inlined.
func (p *pprofBuilder) inlined(key spotKey, outer *codeSpot) spotKey {
	within := key
	within.outer = outer
	if p.met(key) && !p.met(within) {
		return key
	}
	return within
}

// met reports whether an address of a spot is known.
func (p *pprofBuilder) met(key spotKey) bool {
	_, met := p.c.snapshot.Names().Address(p.frames(key), key.call)
	return met
}

// appendLocations appends those of the stack that was followed, outermost first.
func (p *pprofBuilder) appendLocations(to []*profile.Location) []*profile.Location {
	for i, spot := range p.path {
		if i+1 == len(p.path) || p.path[i+1].outer == nil {
			to = append(to, p.location(spot))
		}
	}
	return to
}

// spot finds or makes the spot of a key. A call and an instruction that was sampled are
// the same spot unless both have an address of their own.
func (p *pprofBuilder) spot(key spotKey) *codeSpot {
	spot := p.spots[key]
	if spot != nil {
		return spot
	}
	other := key
	other.call = !key.call
	address, others := p.address(key), p.address(other)
	if address == 0 && others != 0 || address == others && key.call {
		spot = p.spot(other)
	} else {
		spot = &codeSpot{spotKey: key, address: address}
	}
	p.spots[key] = spot
	return spot
}

// address returns the address of a spot, 0 where it is unknown.
func (p *pprofBuilder) address(key spotKey) uint64 {
	m := p.c.methods[key.frame.method]
	if !hasLines(m) {
		code := p.code(m.Module)
		if offset, _ := p.c.snapshot.Names().Address(p.frames(key), key.call); offset != 0 && code.Contains(code.Start+offset-code.Offset) {
			return code.Start + offset - code.Offset
		}
		return 0
	}
	return addressOf(m.Coordinate, key.frame.offset)
}

// frames returns the frames of a spot, innermost first.
func (p *pprofBuilder) frames(key spotKey) []ccmap.Frame {
	frame := func(f frame) ccmap.Frame { return ccmap.Frame{Method: p.c.ids[f.method], Offset: f.offset} }
	frames := append(p.scratch[:0], frame(key.frame))
	for at := key.outer; at != nil; at = at.outer {
		frames = append(frames, frame(at.frame))
	}
	p.scratch = frames
	return frames
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

// frameLocation returns the location of a frame that was not inlined.
func (p *pprofBuilder) frameLocation(f frame, call bool) *profile.Location {
	return p.location(p.spot(spotKey{nil, f, call}))
}

// location returns the location of a spot, with a line for each of its frames, the
// innermost first.
func (p *pprofBuilder) location(s *codeSpot) *profile.Location {
	if s.location != nil {
		return s.location
	}
	l := &profile.Location{
		ID:      uint64(len(p.Location) + 1),
		Mapping: p.mappings[p.c.methods[s.frame.method].Module],
		Address: s.address,
	}
	for at := s; at != nil; at = at.outer {
		l.Line = append(l.Line, profile.Line{Function: p.Function[at.frame.method], Line: p.lineOf(at.frame)})
	}
	s.location = l
	p.Location = append(p.Location, l)
	return l
}

// lineOf returns the line of a position, unknownLine where it is not known.
func (p *pprofBuilder) lineOf(f frame) int64 {
	if m := p.c.methods[f.method]; !hasLines(m) {
		return lineOf(f.offset, int64(m.StartLine))
	}
	return int64(p.c.line(f))
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

// positionOf undoes addressOf. An address that it does not make is that of a line.
func positionOf(address uint64) (c ccmap.Coordinate, offset uint32) {
	if c := address >> coordinateShift; c <= uint64(ccmap.CoordinateMachine) {
		return ccmap.Coordinate(c), uint32(address)
	}
	return ccmap.CoordinateLine, 0
}
