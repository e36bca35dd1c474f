package export

import (
	"bufio"
	"cmp"
	"fmt"
	"strings"
	"time"

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
	if comments, err = appendBodies(comments, c.methods); err != nil {
		return err
	}
	if err := checkWritten(c); err != nil {
		return err
	}
	p := newPprofBuilder(w, c)
	for _, t := range p.types {
		p.encoder.putType(sampleTypeField, t)
	}
	for e := range c.entries() {
		p.enter(e)
		if !e.Self.IsZero() {
			p.putSample(e)
		}
	}
	p.putHits()
	p.putTables()
	p.putDescription(comments)
	return nil
}

// checkWritten returns an error if the profile would be too large.
func checkWritten(c *canonical) error {
	const elsewhere = "XML and JSON have room for them"
	if c.frames > maxWrittenFrames {
		return fmt.Errorf("%w: its stacks have %d frames together, more than %d; %s", ErrTooLarge, c.frames, maxWrittenFrames, elsewhere)
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

// pprofBuilder writes samples as they come, and numbers locations and mappings in the order
// of the canonical form. Functions are its methods.
type pprofBuilder struct {
	pprofStack
	encoder *pprofEncoder
	c       *canonical
	types   []valueType
	values  []int64         // of the sample
	labels  map[int][]label // by method that stands for them
	hit     []uint64        // locations of a caught call, innermost first
	sites   frontList       // the same without the first

	inlined   bool // the names know inlined calls
	mappings  []pprofMapping
	codes     []ccmap.Mapping // by number of the mapping
	modules   []uint32        // by method: number of its mapping, from 1; 0: none
	locations []byte          // their records
	located   uint32          // so many
	lines     []pprofLine     // of the last location
	near      nearLocations
	spots     spotTable
	scratch   []ccmap.Frame // of address
}

func newPprofBuilder(w *bufio.Writer, c *canonical) *pprofBuilder {
	p := &pprofBuilder{
		encoder: newPprofEncoder(w),
		c:       c,
		types:   typesOf(c.snapshot.Meta().Unit, c.recent != nil),
		labels:  make(map[int][]label),
		inlined: c.snapshot.Names().HasInlined(),
		codes:   make([]ccmap.Mapping, 1),
		near:    newNearLocations(len(c.methods), c.snapshot.Len()),
		spots:   newSpotTable(),
	}
	if len(c.points) > 0 {
		p.types = append(p.types, hitsType, siteHitsType)
	}
	p.values = make([]int64, len(p.types))
	p.addMappings(c.snapshot.Meta().Target)
	return p
}

// addMappings adds the mapping of the program first: pprof takes the first for the main
// binary.
func (p *pprofBuilder) addMappings(target ccmap.Target) {
	numbers := map[string]uint32{"": 0}
	p.addMapping(numbers, target.BuildID, cmp.Or(target.Executable, target.BuildID))
	for i := range p.c.methods {
		module := p.c.methods[i].Module
		p.addMapping(numbers, module, module)
		p.modules = append(p.modules, numbers[module])
	}
}

// addMapping adds a mapping if the module is new. All have a file, since pprof
// merges neighbours that it cannot tell apart by it.
func (p *pprofBuilder) addMapping(numbers map[string]uint32, module, file string) {
	if _, known := numbers[module]; known {
		return
	}
	m, code := pprofMapping{file: file}, p.code(module)
	if !isPath(module) {
		m.buildID = module
	}
	if code.File != "" {
		m.file, m.start, m.limit, m.offset = code.File, code.Start, code.Limit, code.Offset
	}
	p.mappings, p.codes = append(p.mappings, m), append(p.codes, code)
	numbers[module] = uint32(len(p.mappings))
}

// isPath reports whether a module is named by its path, for example "/lib/x.so"
// or "[vdso]". No build id begins like this.
func isPath(module string) bool {
	return strings.HasPrefix(module, "/") || strings.HasPrefix(module, "[")
}

// putSample writes the counters of the node that was entered last.
func (p *pprofBuilder) putSample(e *entry) {
	clear(p.values)
	p.putCounters(e)
	top, callers := p.locateStack()
	p.encoder.putSample(top, callers, p.values, withReceiver(p.stackLabels(), &p.c.methods[p.top().method]))
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

// putTables writes all that samples refer to.
func (p *pprofBuilder) putTables() {
	for i := range p.mappings {
		p.encoder.putMapping(uint64(i+1), &p.mappings[i])
	}
	p.encoder.w.Write(p.locations)
	brief := isForPGO(p.c.snapshot.Meta())
	for i := range p.c.methods {
		f := newFunction(&p.c.methods[i])
		if brief && f.systemName == f.name { // it says nothing, and is a twelfth of the file
			f.systemName = ""
		}
		p.encoder.putFunction(uint64(i+1), f)
	}
}

// newFunction appends the signature to the system name, which pprof keeps apart and does
// not show. It shows a system call.
func newFunction(m *ccmap.Method) pprofFunction {
	return pprofFunction{name: m.Title(), systemName: m.Name + m.Signature, filename: m.File, startLine: int64(m.StartLine)}
}

// putDescription writes the fields that are there once, and the strings.
func (p *pprofBuilder) putDescription(comments []string) {
	meta := p.c.snapshot.Meta()
	d := pprofDescription{
		start:       unixNanos(meta.Start),
		duration:    int64(meta.Duration),
		periodType:  typeOf(ccmap.CounterTime, ccmap.CPUTime),
		comments:    comments,
		defaultType: columnOf(meta.Unit.Kind()),
	}
	if changes := meta.Interval; len(changes) > 0 {
		d.period = int64(changes[len(changes)-1].Interval)
	}
	p.encoder.putDescription(&d)
}

// unixNanos is 0, which is unknown, for times that it cannot hold.
func unixNanos(t time.Time) int64 {
	if y := t.Year(); y < 1678 || y > 2261 {
		return 0
	}
	return t.UnixNano()
}
