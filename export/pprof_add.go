package export

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"unsafe"

	"github.com/ccmapd/ccmapd/ccmap"
)

// pprofAdder adds the samples of a file to a map. Locations, and methods that
// the map does not have yet, are looked up when the first sample needs them.
type pprofAdder struct {
	*pprofFile
	b      *builder
	scaler *counterScaler
	spots  []spot        // by location
	told   []instruction // by location: whose address the names know
	frames []ccmap.Frame // of the spots
	above  step          // where the stack of the last sample begins
	path   []step        // by location of that sample, outermost first
	walked int           // so many of them have their node
	links  []stackLink   // by location; none if stacks are not remembered
}

// spot is where the frames of a location are, outermost first; of none before
// it was looked up.
type spot struct{ lo, hi uint32 }

// step is where a stack has got to: a node, the position in its method, and the location
// that has both. The node is found only where the stack is not known.
type step struct {
	node     ccmap.NodeID
	at       uint32
	location uint32
	id       stackID // of the stack so far; unset if stacks are not remembered
}

// instruction says whether an instruction was sampled, called, or both.
type instruction uint8

const (
	sampledThere instruction = 1 << iota
	calledThere
)

// newAdder returns one that adds to the builder's map, times a weight.
func (p *pprofFile) newAdder(b *builder, w Weight) (*pprofAdder, error) {
	p.bind(b.m.Names())
	locations := len(p.locations.entries)
	if err := b.memory.reserve(int64(locations) * int64(unsafe.Sizeof(spot{})+unsafe.Sizeof(sampledThere))); err != nil {
		return nil, err
	}
	a := &pprofAdder{
		pprofFile: p, b: b, scaler: newCounterScaler(w),
		spots: make([]spot, locations), told: make([]instruction, locations),
	}
	if b.known != nil {
		a.links = make([]stackLink, locations)
	}
	return a, nil
}

// addTo adds the contexts that are listed, times a weight, to the builder's map. A
// weight is for files whose contexts are all listed.
func (p *pprofFile) addTo(b *builder, w Weight) (err error) {
	a := p.adder
	if a == nil {
		if a, err = p.newAdder(b, w); err != nil {
			return err
		}
	}
	added := p.stacks.added.locations
	for i := range p.stacks.samples {
		s := &p.stacks.samples[i]
		if err := a.addSample(s, added[:s.added]); err != nil {
			return fmt.Errorf("sample %d: %w", p.stacks.unloaded+i, err)
		}
		added = added[s.added:]
	}
	p.tellBodies(b.m.Names())
	return nil
}

// tellBodies tells names the bodies of those methods that they have.
func (p *pprofFile) tellBodies(names *ccmap.Names) {
	for _, d := range p.bodies {
		if id, known := names.Lookup(string(d.Name), string(d.Signature)); known {
			names.SetBody(id, uint64(d.Body))
		}
	}
}

// unload adds the contexts that are listed to the builder's map, and empties the list.
// Those that follow begin with the last stack of these.
func (p *pprofFile) unload(b *builder) (err error) {
	if p.adder == nil {
		if err := p.stacks.nameReceivers(); err != nil {
			return err
		}
		if p.adder, err = p.newAdder(b, once); err != nil {
			return err
		}
	}
	if err := p.addTo(b, once); err != nil {
		return err
	}
	p.stacks.unloaded += len(p.stacks.samples)
	b.told.done(int64(p.stacks.unloaded), int64(p.records[sampleField].count))
	p.stacks.samples, p.stacks.added.locations, p.stacks.added.frames = p.stacks.samples[:0], p.stacks.added.locations[:0], 0
	return nil
}

// bind forgets the methods that were found, unless they are of the same table.
func (p *pprofFile) bind(names *ccmap.Names) {
	if p.names == names {
		return
	}
	p.names, p.methods = names, p.methods[:0]
	for range p.functions.entries {
		p.methods = append(p.methods, ccmap.NoMethod)
	}
}

// lookUpMethods finds the methods that a table has already. It may be done while
// another goroutine adds to the table.
func (p *pprofFile) lookUpMethods(names *ccmap.Names) {
	p.bind(names)
	for i := range p.functions.entries {
		f := &p.functions.entries[i]
		if id, known := names.Lookup(p.identity(f)); known {
			p.methods[i] = id
		}
	}
}

// addSample adds a sample that has locations of its own.
func (a *pprofAdder) addSample(s *pprofSample, locations []uint32) error {
	a.path = a.path[:s.kept]
	a.walked = min(a.walked, len(a.path))
	if err := a.extend(s, locations); err != nil {
		return err
	}
	if len(a.path) == 0 {
		id, err := a.b.intern(ccmap.Method{Name: ccmap.UnknownName})
		if err != nil {
			return err
		}
		return a.count(s, a.b.m.Child(a.above.node, a.above.at, id))
	}
	top := &a.path[len(a.path)-1]
	a.tellAddress(top.location, sampledThere)
	if a.links == nil {
		return a.count(s, a.walk())
	}
	n := a.b.known.find(top.id)
	if n == root {
		n = a.walk()
		a.b.known.remember(top.id, n, a.b.m)
	}
	return a.count(s, n)
}

// extend appends locations to the path.
func (a *pprofAdder) extend(s *pprofSample, locations []uint32) (err error) {
	if s.kept == 0 {
		if a.above, err = a.enter(s.labels); err != nil {
			return err
		}
	}
	last := &a.above
	for _, l := range locations {
		if n := len(a.path); n > 0 {
			last = &a.path[n-1]
			a.tellAddress(last.location, calledThere)
		}
		if a.spots[l].hi == 0 {
			if err := a.lookUp(l); err != nil {
				return err
			}
		}
		next := step{location: l}
		if a.links != nil {
			next.id = last.id.then(&a.links[l])
		}
		a.path = append(a.path, next)
	}
	return nil
}

// walk finds the nodes of the path, and returns the node where its stack ends.
func (a *pprofAdder) walk() ccmap.NodeID {
	m, last := a.b.m, &a.above
	if a.walked > 0 {
		last = &a.path[a.walked-1]
	}
	for ; a.walked < len(a.path); a.walked++ {
		next := &a.path[a.walked]
		next.node, next.at = last.node, last.at
		for _, f := range a.framesAt(next.location) {
			next.node, next.at = m.Child(next.node, next.at, f.Method), f.Offset
		}
		last = next
	}
	if last.at == ccmap.NoOffset {
		return last.node
	}
	return m.Child(last.node, last.at, ccmap.NoMethod)
}

// framesAt returns the frames of a location that was looked up, outermost first.
func (a *pprofAdder) framesAt(location uint32) []ccmap.Frame {
	return a.frames[a.spots[location].lo:a.spots[location].hi]
}

// tellAddress tells the names the address of a location, once for a call and once for an
// instruction that was sampled.
func (a *pprofAdder) tellAddress(location uint32, what instruction) {
	if a.told[location]&what != 0 {
		return
	}
	a.told[location] |= what
	l := &a.locations.entries[location]
	m := a.mappingOf(l)
	if m == nil || !m.contains(l.address) {
		return
	}
	frames := slices.Clone(a.framesAt(location))
	slices.Reverse(frames)
	names := a.b.m.Names()
	if module := moduleOf(m); names.Mapping(module) == (ccmap.Mapping{}) {
		names.SetMapping(strings.Clone(module), ccmap.Mapping{File: strings.Clone(m.file), Start: m.start, Limit: m.limit, Offset: m.offset})
	}
	names.SetAddress(frames, what == calledThere, l.address-m.start+m.offset)
}

// count counts a sample at the node where its stack ends.
func (a *pprofAdder) count(s *pprofSample, leaf ccmap.NodeID) error {
	if err := a.b.boundNodes(); err != nil {
		return err
	}
	a.b.m.Add(leaf, a.scaler.scale(s.self))
	if !s.recent.IsZero() {
		a.b.m.AddRecent(leaf, s.recent) // dropped where the comment is missing that there is a window
	}
	return nil
}

// lookUp finds the frames of a location, outermost first: more than one where
// calls were inlined, which the map's names learn.
func (a *pprofAdder) lookUp(location uint32) error {
	l := &a.locations.entries[location]
	lo := len(a.frames)
	if l.lo == l.hi {
		id, err := a.b.intern(ccmap.Method{Name: a.addressName(l)})
		if err != nil {
			return err
		}
		if err := a.keepFrame(ccmap.Frame{Method: id, Offset: ccmap.NoOffset}); err != nil {
			return err
		}
	}
	for i := l.hi; i > l.lo; i-- {
		line := &a.lines[i-1]
		f, err := a.frame(line, l)
		if err != nil {
			return err
		}
		if caller := a.frames[lo:]; len(caller) > 0 {
			a.b.m.Names().SetInlined(caller[len(caller)-1], f.Method)
		}
		if err := a.keepFrame(f); err != nil {
			return err
		}
	}
	a.spots[location] = spot{uint32(lo), uint32(len(a.frames))}
	if a.links != nil {
		a.links[location] = a.b.known.keys.link(a.frames[lo:])
	}
	return nil
}

func (a *pprofAdder) keepFrame(f ccmap.Frame) (err error) {
	a.frames, err = keep(a.b.memory, a.frames, f)
	return err
}

// frame returns the frame of a line of a location. If the position of the frame is not a
// line, the names learn its line.
func (a *pprofAdder) frame(line *pprofLine, l *pprofLocation) (f ccmap.Frame, err error) {
	if f.Method, err = a.method(line.function, l); err != nil {
		return f, err
	}
	coordinate, offset := a.position(l)
	if coordinate == ccmap.CoordinateLine {
		f.Offset = offsetOf(line.line, a.functions.entries[line.function].startLine)
		return f, nil
	}
	f.Offset = offset
	if known := int32(line.line); int64(known) == line.line {
		a.b.m.Names().SetLine(f, known)
	}
	return f, nil
}

// position returns the position that one of our addresses stands for. Addresses of
// other tools are machine code, and have their lines beside them.
func (a *pprofAdder) position(l *pprofLocation) (ccmap.Coordinate, uint32) {
	if m := a.mappingOf(l); a.ours == nil || m != nil && m.contains(l.address) {
		return ccmap.CoordinateLine, 0
	}
	return positionOf(l.address)
}

// addressName names a location without symbols by where it is in its file, for
// example "libc.so.6+0x2a3b4", or not at all where the file is not known.
func (a *pprofAdder) addressName(l *pprofLocation) string {
	m := a.mappingOf(l)
	if m == nil || m.file == "" || l.address == 0 {
		return ccmap.UnknownName
	}
	return fmt.Sprintf("%s+%#x", filepath.Base(m.file), l.address-m.start+m.offset)
}

// method returns the method of a function. Its module is the module of
// the first location. The map gets copies of strings, lest all strings of the file stay.
func (a *pprofAdder) method(function uint32, l *pprofLocation) (ccmap.MethodID, error) {
	if id := a.methods[function]; id != ccmap.NoMethod {
		return id, nil
	}
	f := &a.functions.entries[function]
	name, signature := a.identity(f)
	id, known := a.b.m.Names().Lookup(name, signature)
	if !known {
		var err error
		coordinate, _ := a.position(l)
		id, err = a.b.intern(ccmap.Method{
			Name:       strings.Clone(name),
			Signature:  strings.Clone(signature),
			Receiver:   strings.Clone(f.receiver),
			File:       strings.Clone(f.filename),
			StartLine:  startLine(f.startLine),
			Module:     strings.Clone(moduleOf(a.mappingOf(l))),
			Coordinate: coordinate,
		})
		if err != nil {
			return id, err
		}
	}
	a.methods[function] = id
	return id, nil
}

func (f *pprofFunction) methodName() string {
	return cmp.Or(f.name, f.systemName, ccmap.UnknownName)
}

// identity returns the name and the signature of a function's method. In our files the
// signature is the rest of the system name after the name. System names of other tools,
// for example a mangled C++ name, have none.
func (p *pprofFile) identity(f *pprofFunction) (name, signature string) {
	name = f.methodName()
	if p.ours == nil {
		return name, ""
	}
	if call, found := strings.CutPrefix(f.systemName, ccmap.KernelName); found {
		if m := (ccmap.Method{Name: ccmap.KernelName, Signature: call}); m.Title() == f.name {
			return m.Name, m.Signature
		}
	}
	signature, _ = strings.CutPrefix(f.systemName, f.name)
	return name, signature
}

// startLine is 0, unknown, where it is absurd.
func startLine(line int64) int32 {
	if int64(int32(line)) != line {
		return 0
	}
	return int32(line)
}

// texts returns how many bytes the texts of all methods can take, at most.
func (p *pprofFile) texts() int64 {
	longest := 0
	for i := range p.mappings.entries {
		m := &p.mappings.entries[i]
		longest = max(longest, len(m.file)+len(m.buildID))
	}
	all := int64(longest) * int64(len(p.functions.entries)+len(p.locations.entries))
	for i := range p.functions.entries {
		f := &p.functions.entries[i]
		all += int64(len(f.name) + len(f.systemName) + len(f.filename) + len(f.receiver))
	}
	for i := range p.stacks.program.sets {
		all += int64(len(p.stacks.program.sets[i].Signature))
	}
	return all
}

func moduleOf(m *pprofMapping) string {
	if m == nil {
		return ""
	}
	return cmp.Or(m.buildID, m.file)
}
