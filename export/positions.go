package export

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/ccmapd/ccmapd/ccmap"
)

// lineDoc is the line of a position that is not a line itself, as XML and JSON hold it.
type lineDoc struct {
	Method int64 // index
	Offset int64 // signed
	Line   int64
}

var lineColumns = newColumns([]column[lineDoc]{
	{name: "method", at: func(d *lineDoc) *int64 { return &d.Method }, absent: noMethod},
	{name: "offset", at: func(d *lineDoc) *int64 { return &d.Offset }, absent: -1},
	{name: "line", at: func(d *lineDoc) *int64 { return &d.Line }},
})

// lines returns the lines of the positions in the document, by method and offset. Names
// may know lines of other maps' positions, or of pruned ones.
func (c *canonical) lines() iter.Seq[*lineDoc] {
	if !slices.ContainsFunc(c.methods, hasLines) {
		return each[lineDoc](nil)
	}
	var lines []lineDoc
	met := make(map[frame]bool)
	for f := range c.positions() {
		if !hasLines(c.methods[f.method]) || met[f] {
			continue
		}
		met[f] = true
		if line := c.line(f); line != 0 {
			lines = append(lines, lineDoc{int64(f.method), int64(int32(f.offset)), int64(line)})
		}
	}
	slices.SortFunc(lines, func(a, b lineDoc) int {
		return cmp.Or(cmp.Compare(a.Method, b.Method), cmp.Compare(uint32(a.Offset), uint32(b.Offset)))
	})
	return each(lines)
}

// hasLines reports whether documents list the lines of the method's positions.
func hasLines(m ccmap.Method) bool { return m.Coordinate != ccmap.CoordinateLine }

// line returns the line of a position, 0 where it is unknown.
func (c *canonical) line(f frame) int32 {
	return c.snapshot.Names().Line(ccmap.Frame{Method: c.ids[f.method], Offset: f.offset})
}

// positions returns the positions of all nodes and points, and of pruned edges; some many
// times.
func (c *canonical) positions() iter.Seq[frame] {
	return func(yield func(frame) bool) {
		for n := range c.childNodes() {
			if n.Offset != ccmap.NoOffset && !yield(frame{int(c.rank[c.snapshot.Node(n.Parent).Method]), n.Offset}) {
				return
			}
		}
		for i := range c.points {
			for f := range pointFrames(&c.points[i]) {
				if !yield(frame{int(f.Method), f.Offset}) {
					return
				}
			}
		}
		if !c.hasEvicted {
			return
		}
		for e := range c.snapshot.PrunedEdges() {
			if e.Caller != ccmap.NoMethod && !yield(frame{int(c.rank[e.Caller]), e.Offset}) {
				return
			}
		}
	}
}

// pointFrames returns the positions that a point names.
func pointFrames(p *ccmap.Point) iter.Seq[ccmap.Frame] {
	return func(yield func(ccmap.Frame) bool) {
		if !yield(ccmap.Frame{Method: p.Method, Offset: p.Offset}) || !yield(ccmap.Frame{Method: p.Method, Offset: p.End}) {
			return
		}
		for _, f := range p.Callers {
			if !yield(f) {
				return
			}
		}
		for _, v := range p.Values {
			if p.Kind == ccmap.PointSwitch && !yield(ccmap.Frame{Method: p.Method, Offset: uint32(v.Value)}) {
				return
			}
		}
	}
}

// addLine adds the next line of a document. No position has two.
func (b *builder) addLine(d *lineDoc) error {
	f, err := b.lineFrame(d)
	if err != nil {
		return fmt.Errorf("line %d: %w", b.lines, err)
	}
	b.lines++
	b.m.Names().SetLine(f, int32(d.Line))
	return b.afford()
}

func (b *builder) lineFrame(d *lineDoc) (f ccmap.Frame, err error) {
	if f.Method, err = b.method(d.Method); err != nil {
		return f, err
	}
	if f.Offset, err = offset32(d.Offset); err != nil {
		return f, err
	}
	switch {
	case f.Method == ccmap.NoMethod || f.Offset == ccmap.NoOffset:
		return f, errors.New("it is that of no position")
	case !hasLines(b.m.Names().At(f.Method)):
		return f, fmt.Errorf("positions of method %d are lines", d.Method)
	case d.Line < 1 || d.Line != int64(int32(d.Line)):
		return f, fmt.Errorf("it is %d, want 1 or more", d.Line)
	case b.m.Names().Line(f) != 0:
		return f, errors.New("its position has one")
	case b.lines == b.limits.MaxNodes:
		return f, fmt.Errorf("%w: more than %d", ErrTooLarge, b.limits.MaxNodes)
	}
	return f, nil
}

// inlinedCall is a call that the compiler has put into its caller.
type inlinedCall struct {
	frame      // of the caller
	callee int // index in canonical.methods
}

// inlined returns the inlined calls in the document, by caller, offset and callee. Names
// may know calls of other maps.
func (c *canonical) inlined() iter.Seq[*inlinedDoc] {
	if !c.snapshot.Names().HasInlined() {
		return each[inlinedDoc](nil)
	}
	met := make(map[inlinedCall]bool)
	var docs []inlinedDoc
	for call := range c.calls() {
		if c.isInlined(call.frame, call.callee) && !met[call] {
			docs = append(docs, inlinedDoc{int64(call.method), int64(int32(call.offset)), int64(call.callee)})
			met[call] = true
		}
	}
	slices.SortFunc(docs, func(a, b inlinedDoc) int {
		return cmp.Or(cmp.Compare(a.Caller, b.Caller), cmp.Compare(uint32(a.Offset), uint32(b.Offset)), cmp.Compare(a.Callee, b.Callee))
	})
	return each(docs)
}

// isInlined reports whether a call was inlined.
func (c *canonical) isInlined(caller frame, callee int) bool {
	return c.snapshot.Names().Inlined(ccmap.Frame{Method: c.ids[caller.method], Offset: caller.offset}, c.ids[callee])
}

// calls returns the calls of all nodes, and the pruned edges; some many times.
func (c *canonical) calls() iter.Seq[inlinedCall] {
	return func(yield func(inlinedCall) bool) {
		call := func(caller ccmap.MethodID, offset uint32, callee ccmap.MethodID) bool {
			return caller == ccmap.NoMethod || callee == ccmap.NoMethod ||
				yield(inlinedCall{frame{int(c.rank[caller]), offset}, int(c.rank[callee])})
		}
		for n := range c.childNodes() {
			if n.Parent != root && !call(c.snapshot.Node(n.Parent).Method, n.Offset, n.Method) {
				return
			}
		}
		if !c.hasEvicted {
			return
		}
		for e := range c.snapshot.PrunedEdges() {
			if !call(e.Caller, e.Offset, e.Callee) {
				return
			}
		}
	}
}

// inlinedDoc is an inlined call as XML and JSON hold it.
type inlinedDoc struct {
	Caller int64 // index
	Offset int64 // signed; -1 is ccmap.NoOffset
	Callee int64 // index
}

var inlinedColumns = newColumns([]column[inlinedDoc]{
	{name: "caller", at: func(d *inlinedDoc) *int64 { return &d.Caller }, absent: noMethod},
	{name: "offset", at: func(d *inlinedDoc) *int64 { return &d.Offset }, absent: -1},
	{name: "callee", at: func(d *inlinedDoc) *int64 { return &d.Callee }, absent: noMethod},
})

// addInlined adds the next inlined call of a document. None stands twice.
func (b *builder) addInlined(d *inlinedDoc) error {
	caller, callee, err := b.inlinedCall(d)
	if err != nil {
		return fmt.Errorf("inlined call %d: %w", b.inlined, err)
	}
	b.inlined++
	b.m.Names().SetInlined(caller, callee)
	return b.afford()
}

func (b *builder) inlinedCall(d *inlinedDoc) (caller ccmap.Frame, callee ccmap.MethodID, err error) {
	if caller.Method, err = b.method(d.Caller); err != nil {
		return caller, callee, err
	}
	if caller.Offset, err = offset32(d.Offset); err != nil {
		return caller, callee, err
	}
	if callee, err = b.method(d.Callee); err != nil {
		return caller, callee, err
	}
	names := b.m.Names()
	switch {
	case caller.Method == ccmap.NoMethod || callee == ccmap.NoMethod:
		return caller, callee, errors.New("it lacks its caller or its callee")
	case hasLines(names.At(caller.Method)) || hasLines(names.At(callee)):
		return caller, callee, errors.New("positions of its methods are not lines")
	case names.Inlined(caller, callee):
		return caller, callee, errors.New("it stands twice")
	case b.inlined == b.limits.MaxNodes:
		return caller, callee, fmt.Errorf("%w: more than %d", ErrTooLarge, b.limits.MaxNodes)
	}
	return caller, callee, nil
}

// hex is an address, a place in a file or a hash, as XML and JSON hold it: 0x and its digits.
// Numbers of JSON end at 2⁵³ for many readers.
type hex uint64

func (h hex) MarshalText() ([]byte, error) { return fmt.Appendf(nil, "%#x", uint64(h)), nil }

func (h *hex) UnmarshalText(b []byte) error {
	digits, prefixed := strings.CutPrefix(string(b), "0x")
	n, err := strconv.ParseUint(digits, 16, 64)
	if err != nil || !prefixed {
		return fmt.Errorf("%q is no number, want 0x and up to 16 digits", clip(string(b)))
	}
	*h = hex(n)
	return nil
}

// mappingDoc is a ccmap.Mapping as XML and JSON hold it.
type mappingDoc struct {
	Module     text `json:"module" xml:"module,attr"`
	File       text `json:"file,omitempty" xml:"file,attr,omitempty"`
	Start      hex  `json:"start" xml:"start,attr"`
	Limit      hex  `json:"limit" xml:"limit,attr"`
	FileOffset hex  `json:"file_offset,omitempty" xml:"file_offset,attr,omitempty"`
}

// addressDoc is a ccmap.Address as XML and JSON hold it.
type addressDoc struct {
	callerDoc              // the innermost frame
	Call       bool        `json:"call,omitempty" xml:"call,attr,omitempty"`
	FileOffset hex         `json:"file_offset" xml:"file_offset,attr"`
	Callers    []callerDoc `json:"callers,omitempty" xml:"caller"` // that it was inlined into, outwards
}

// callerDoc is a frameDoc whose fields have tags.
type callerDoc struct {
	Method *int64 `json:"method" xml:"method,attr"`
	Offset *int64 `json:"offset,omitempty" xml:"offset,attr"`
}

func (d *callerDoc) frame() frameDoc {
	return frameDoc{orElse(d.Method, noMethod), orElse(d.Offset, -1)}
}

func orElse(n *int64, otherwise int64) int64 {
	if n == nil {
		return otherwise
	}
	return *n
}

// mappings returns the mappings of the program and of the methods' modules, by module.
// Names may know others, which belong to other maps.
func (c *canonical) mappings() iter.Seq[*mappingDoc] {
	modules := []string{c.snapshot.Meta().Target.BuildID}
	for _, m := range c.methods {
		modules = append(modules, m.Module)
	}
	slices.Sort(modules)
	var docs []mappingDoc
	for _, module := range slices.Compact(modules) {
		if m := c.snapshot.Names().Mapping(module); m != (ccmap.Mapping{}) {
			docs = append(docs, mappingDoc{text(module), text(m.File), hex(m.Start), hex(m.Limit), hex(m.Offset)})
		}
	}
	return each(docs)
}

// addresses returns the addresses in the methods, by their frames, samples before calls.
// Names may know others, which belong to other maps.
func (c *canonical) addresses() iter.Seq[*addressDoc] {
	known := slices.DeleteFunc(c.snapshot.Names().Addresses(), func(a ccmap.Address) bool { return !c.rankFrames(a.Frames) })
	slices.SortFunc(known, compareAddresses)
	docs := make([]addressDoc, len(known))
	for i, a := range known {
		docs[i] = addressDoc{callerDoc: newCallerDoc(a.Frames[0]), Call: a.Call, FileOffset: hex(a.Offset)}
		for _, f := range a.Frames[1:] {
			docs[i].Callers = append(docs[i].Callers, newCallerDoc(f))
		}
	}
	return each(docs)
}

func compareAddresses(a, b ccmap.Address) int {
	order := slices.CompareFunc(a.Frames, b.Frames, func(f, g ccmap.Frame) int {
		return cmp.Or(cmp.Compare(f.Method, g.Method), cmp.Compare(f.Offset, g.Offset))
	})
	switch {
	case order != 0 || a.Call == b.Call:
		return order
	case a.Call:
		return 1
	}
	return -1
}

// rankFrames gives frames indices of methods for their ids, and reports whether all
// methods have one.
func (c *canonical) rankFrames(frames []ccmap.Frame) bool {
	for i := range frames {
		id := frames[i].Method
		if int64(id) >= int64(len(c.rank)) || c.rank[id] == unused {
			return false
		}
		frames[i].Method = c.rankOf(id)
	}
	return true
}

func newCallerDoc(f ccmap.Frame) callerDoc {
	method, offset := int64(f.Method), int64(int32(f.Offset))
	if f.Offset == ccmap.NoOffset {
		return callerDoc{Method: &method}
	}
	return callerDoc{&method, &offset}
}

// addMapping adds the next mapping of a document. No module has two.
func (b *builder) addMapping(d *mappingDoc) error {
	names, module := b.m.Names(), string(d.Module)
	var err error
	switch {
	case module == "":
		err = errors.New("it is that of no module")
	case d.Limit <= d.Start:
		err = fmt.Errorf("it ends at %#x, and begins at %#x", uint64(d.Limit), uint64(d.Start))
	case names.Mapping(module) != (ccmap.Mapping{}):
		err = errors.New("its module has one")
	case b.mappings == ccmap.MaxAddresses:
		err = fmt.Errorf("%w: more than %d", ErrTooMany, ccmap.MaxAddresses)
	}
	if err != nil {
		return fmt.Errorf("mapping %d: %w", b.mappings, err)
	}
	b.mappings++
	names.SetMapping(module, ccmap.Mapping{File: string(d.File), Start: uint64(d.Start), Limit: uint64(d.Limit), Offset: uint64(d.FileOffset)})
	return b.afford()
}

// addAddress adds the next address of a document. No instruction has two.
func (b *builder) addAddress(d *addressDoc) error {
	frames, err := b.addressFrames(d)
	if err != nil {
		return fmt.Errorf("address %d: %w", b.addresses, err)
	}
	b.addresses++
	b.located += len(frames)
	b.m.Names().SetAddress(frames, d.Call, uint64(d.FileOffset))
	return b.afford()
}

// addressFrames returns the frames of an address, the innermost first.
func (b *builder) addressFrames(d *addressDoc) ([]ccmap.Frame, error) {
	if b.located+1+len(d.Callers) > ccmap.MaxAddresses {
		return nil, fmt.Errorf("%w: more than %d frames of addresses", ErrTooMany, ccmap.MaxAddresses)
	}
	at, err := b.frame(d.frame())
	if err != nil {
		return nil, err
	}
	callers := make([]frameDoc, len(d.Callers))
	for i, c := range d.Callers {
		callers[i] = c.frame()
	}
	context, err := b.context(callers)
	if err != nil {
		return nil, err
	}
	frames := append([]ccmap.Frame{at}, context...)
	known, _ := b.m.Names().Address(frames, d.Call)
	switch {
	case at.Offset == ccmap.NoOffset:
		return nil, errors.New("its position is unknown")
	case d.FileOffset == 0:
		return nil, errors.New("it has no place in its file")
	case known != 0:
		return nil, errors.New("it stands twice")
	}
	return frames, nil
}
