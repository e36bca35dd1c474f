package export

import (
	"github.com/google/pprof/profile"

	"github.com/ccmapd/ccmapd/ccmap"
)

// codeSpot is a position in machine code: a frame, and those that it was inlined into.
type codeSpot struct {
	spotKey
	sampled, called *profile.Location // nil until a stack ends there, or calls
}

type spotKey struct {
	outer *codeSpot // the caller that the frame was inlined into; nil: none
	frame frame
}

// follow finds the spots of a stack.
func (p *pprofBuilder) follow(stack []frame) {
	kept := 0
	for kept < min(len(stack), len(p.stack)) && stack[kept] == p.stack[kept] {
		kept++
	}
	p.stack, p.path = append(p.stack[:kept], stack[kept:]...), p.path[:kept]
	for i := kept; i < len(stack); i++ {
		key := spotKey{frame: stack[i]}
		if i > 0 && p.c.isInlined(stack[i-1], stack[i].method) {
			key.outer = p.path[i-1]
		}
		p.path = append(p.path, p.spot(key))
	}
}

// appendLocations appends the ids of the locations of the stack that was followed,
// outermost first.
func (p *pprofBuilder) appendLocations(to []uint64) []uint64 {
	for i, spot := range p.path {
		if top := i+1 == len(p.path); top || p.path[i+1].outer == nil {
			to = append(to, p.location(spot, !top).ID)
		}
	}
	return to
}

// spot finds or makes the spot of a key. An inlined frame that is known at an address of
// its own, and not at one in that caller, is a spot of its own: another copy of the
// caller has it inlined.
func (p *pprofBuilder) spot(key spotKey) *codeSpot {
	spot := p.spots[key]
	if spot != nil {
		return spot
	}
	if alone := (spotKey{frame: key.frame}); key.outer != nil && p.met(alone) && !p.met(key) {
		spot = p.spot(alone)
	} else {
		spot = &codeSpot{spotKey: key}
	}
	p.spots[key] = spot
	return spot
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
	m := p.c.methods[key.frame.method]
	if hasLines(m) {
		return addressOf(m.Coordinate, key.frame.offset)
	}
	code := p.code(m.Module)
	offset, _ := p.c.snapshot.Names().Address(p.frames(key), call)
	if address := code.Start + offset - code.Offset; offset != 0 && code.Contains(address) {
		return address
	}
	return 0
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

// frameLocation returns the id of the location of a frame that was not inlined.
func (p *pprofBuilder) frameLocation(f frame, call bool) uint64 {
	return p.location(p.spot(spotKey{frame: f}), call).ID
}

// location returns the location of a spot. A call and an instruction that was sampled have
// the same one unless both have an address of their own.
func (p *pprofBuilder) location(s *codeSpot, call bool) *profile.Location {
	switch {
	case call && s.called != nil:
		return s.called
	case !call && s.sampled != nil:
		return s.sampled
	}
	called, sampled := p.address(s.spotKey, true), p.address(s.spotKey, false)
	switch {
	case called == 0 || sampled == 0 || called == sampled:
		s.called = p.addLocation(s, max(called, sampled))
		s.sampled = s.called
	case call:
		s.called = p.addLocation(s, called)
	default:
		s.sampled = p.addLocation(s, sampled)
	}
	return p.location(s, call)
}

// addLocation adds one with a line for each frame of a spot, the innermost first.
func (p *pprofBuilder) addLocation(s *codeSpot, address uint64) *profile.Location {
	l := &profile.Location{
		ID:      uint64(len(p.Location) + 1),
		Mapping: p.mappings[p.c.methods[s.frame.method].Module],
		Address: address,
	}
	for at := s; at != nil; at = at.outer {
		l.Line = append(l.Line, profile.Line{Function: p.Function[at.frame.method], Line: p.lineOf(at.frame)})
	}
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
