package export

import (
	"bufio"
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/pprof/profile"

	"github.com/ccmapd/ccmapd/ccmap"
)

// maxWrittenFrames bounds the frames of all stacks together, which readers hold in
// memory. Only thousands of stacks of a deep recursion have as many.
const maxWrittenFrames = 1 << 26

// maxWrittenHits bounds the samples of points.
const maxWrittenHits = 1 << 21

// writePprof writes a profile.proto, uncompressed: a sample for each node that
// counts something and for each target of a burst point, a location for each
// method and position in it with the callers that it was inlined into, a mapping
// for each module. An activation is counted
// where it happened, so interior nodes become samples with no time.
func writePprof(w *bufio.Writer, c *canonical) error {
	comments, err := pprofComments(c.snapshot)
	if err != nil {
		return err
	}
	if err := checkWritten(c); err != nil {
		return err
	}
	p := newPprofBuilder(w, c, comments)
	for _, t := range p.SampleType {
		p.encoder.putType(sampleTypeField, t)
	}
	for stack, e := range c.stacks() {
		p.putSample(stack, e)
	}
	p.putHits()
	p.encoder.putTables(p.Profile)
	return nil
}

// checkWritten returns an error if the profile would be too large.
func checkWritten(c *canonical) error {
	const elsewhere = "XML and JSON have room for them"
	if n := c.stackFrames(); n > maxWrittenFrames {
		return fmt.Errorf("%w: its stacks have %d frames together, more than %d; %s", ErrTooLarge, n, maxWrittenFrames, elsewhere)
	}
	n := 0
	for range c.hits() {
		n++
	}
	if n > maxWrittenHits {
		return fmt.Errorf("%w: its points have %d counts together, more than %d; %s", ErrTooLarge, n, maxWrittenHits, elsewhere)
	}
	return nil
}

// pprofBuilder numbers functions, locations and mappings in the order of the
// canonical form. Samples are written as they come.
type pprofBuilder struct {
	*profile.Profile
	encoder   *pprofEncoder
	c         *canonical
	mappings  map[string]*profile.Mapping // by module
	spots     map[spotKey]*codeSpot
	stack     []frame         // of the last sample, which shares most with the next, outermost first
	path      []*codeSpot     // of its frames
	scratch   []ccmap.Frame   // of address
	labels    map[int][]label // by method that stands for them
	locations []uint64        // ids of the sample's
	values    []int64         // of the sample
}

func newPprofBuilder(w *bufio.Writer, c *canonical, comments []string) *pprofBuilder {
	meta := c.snapshot.Meta()
	p := &pprofBuilder{
		Profile: &profile.Profile{
			DefaultSampleType: columnOf(meta.Unit.Kind()),
			PeriodType:        typeOf(ccmap.CounterTime, ccmap.CPUTime).proto(),
			TimeNanos:         unixNanos(meta.Start),
			DurationNanos:     int64(meta.Duration),
			Comments:          comments,
		},
		encoder:  newPprofEncoder(w),
		c:        c,
		mappings: make(map[string]*profile.Mapping),
		spots:    make(map[spotKey]*codeSpot),
		labels:   make(map[int][]label),
	}
	types := typesOf(meta.Unit, c.recent != nil)
	if len(c.points) > 0 {
		types = append(types, hitsType, siteHitsType)
	}
	for _, t := range types {
		p.SampleType = append(p.SampleType, t.proto())
	}
	p.values = make([]int64, len(p.SampleType))
	if changes := meta.Interval; len(changes) > 0 {
		p.Period = int64(changes[len(changes)-1].Interval)
	}
	p.addMappings(meta.Target)
	for i, m := range c.methods {
		p.Function = append(p.Function, newFunction(uint64(i+1), m))
	}
	return p
}

// unixNanos is 0, which is unknown, for times that it cannot hold.
func unixNanos(t time.Time) int64 {
	if y := t.Year(); y < 1678 || y > 2261 {
		return 0
	}
	return t.UnixNano()
}

// addMappings adds the mapping of the program first: pprof takes the first for the main
// binary.
func (p *pprofBuilder) addMappings(target ccmap.Target) {
	p.addMapping(target.BuildID, cmp.Or(target.Executable, target.BuildID))
	for _, m := range p.c.methods {
		p.addMapping(m.Module, m.Module)
	}
}

// addMapping adds a mapping if the module is new. All have a file, since pprof
// merges neighbours that it cannot tell apart by it. A mapping claims to be symbolized, so
// that no tool looks for the binary to do it again.
func (p *pprofBuilder) addMapping(module, file string) {
	if module == "" || p.mappings[module] != nil {
		return
	}
	m := &profile.Mapping{
		ID:              uint64(len(p.Mapping) + 1),
		File:            file,
		HasFunctions:    true,
		HasFilenames:    true,
		HasLineNumbers:  true,
		HasInlineFrames: true,
	}
	if !isPath(module) {
		m.BuildID = module
	}
	if code := p.code(module); code.File != "" {
		m.File, m.Start, m.Limit, m.Offset = code.File, code.Start, code.Limit, code.Offset
	}
	p.mappings[module] = m
	p.Mapping = append(p.Mapping, m)
}

// isPath reports whether a module is named by its path, for example "/lib/x.so"
// or "[vdso]". No build id begins like this.
func isPath(module string) bool {
	return strings.HasPrefix(module, "/") || strings.HasPrefix(module, "[")
}

// newFunction appends the signature to the system name, which pprof keeps apart and does
// not show. It shows a system call.
func newFunction(id uint64, m ccmap.Method) *profile.Function {
	return &profile.Function{
		ID:         id,
		Name:       m.Title(),
		SystemName: m.Name + m.Signature,
		Filename:   m.File,
		StartLine:  int64(m.StartLine),
	}
}

func (p *pprofBuilder) putSample(stack []frame, e entry) {
	clear(p.values)
	p.putCounters(&e)
	stack, labels := p.cutLabels(stack)
	p.follow(stack)
	p.locations = p.appendLocations(p.locations[:0])
	slices.Reverse(p.locations)
	p.encoder.putSample(p.locations, p.values, withReceiver(labels, p.c.methods[stack[len(stack)-1].method]))
}

// putCounters sets the values in the order of typesOf.
func (p *pprofBuilder) putCounters(e *entry) {
	at := 0
	for k := range ccmap.NumCounters {
		p.values[at] = *k.Of(&e.Self)
		at++
	}
	for k := range ccmap.NumCounters {
		if p.c.recent != nil && k.Sampled() {
			p.values[at] = *k.Of(&e.recent)
			at++
		}
	}
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

// positionOf undoes addressOf. Any other address stands for a line.
func positionOf(address uint64) (c ccmap.Coordinate, offset uint32) {
	if c := address >> coordinateShift; c <= uint64(ccmap.CoordinateMachine) {
		return ccmap.Coordinate(c), uint32(address)
	}
	return ccmap.CoordinateLine, 0
}
