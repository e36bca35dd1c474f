package export

import (
	"bufio"
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
	stack     []frame       // of the last sample, which shares most with the next, outermost first
	path      []*codeSpot   // of its frames
	scratch   []ccmap.Frame // of address
	locations []uint64      // ids of the sample's
	values    []int64       // of the sample
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

// addMappings adds that of the program first: pprof takes the first for the main
// binary.
func (p *pprofBuilder) addMappings(target ccmap.Target) {
	p.addMapping(target.BuildID, firstNonEmpty(target.Executable, target.BuildID))
	for _, m := range p.c.methods {
		p.addMapping(m.Module, m.Module)
	}
}

// addMapping adds a mapping if the module is new. All have a file, since pprof
// merges neighbours that it cannot tell apart by it. A mapping claims to be symbolized, so
// that nobody looks for the binary to do it again.
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

// newFunction puts the signature behind the system name, which pprof keeps
// apart and does not show.
func newFunction(id uint64, m ccmap.Method) *profile.Function {
	return &profile.Function{
		ID:         id,
		Name:       m.Name,
		SystemName: m.Name + m.Signature,
		Filename:   m.File,
		StartLine:  int64(m.StartLine),
	}
}

func (p *pprofBuilder) putSample(stack []frame, e entry) {
	clear(p.values)
	p.putCounters(&e)
	p.follow(stack)
	p.locations = p.appendLocations(p.locations[:0])
	slices.Reverse(p.locations)
	p.encoder.putSample(p.locations, p.values, receiverLabels(nil, p.c.methods[stack[len(stack)-1].method]))
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
