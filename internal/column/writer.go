package column

import (
	"slices"

	"github.com/ccmapd/ccmapd/ccmap"
)

// writer appends a map.
type writer struct {
	coder
	s       *ccmap.Snapshot
	names   *ccmap.Names
	rank    []uint32 // by id: number in methods plus 1; 0: not used
	methods []ccmap.Method
	records
	hasLines bool // a method of the map has positions that are not lines
}

func newWriter(b []byte, s *ccmap.Snapshot) *writer {
	w := &writer{coder: coder{out: b}, s: s, names: s.Names()}
	w.rank = make([]uint32, w.names.Len())
	w.use()
	return w
}

// common appends what all maps have.
func (w *writer) common() {
	exact, meta := w.s.ActivationsExact(), w.s.Meta()
	w.take(mapMemory)
	w.bool(&exact)
	w.meta(&meta)
	list(&w.coder, &w.methods, w.method)
	w.nodes()
	w.lists()
}

// rest appends what a delta leaves out.
func (w *writer) rest() {
	s := rest{commit: w.s.Meta().Target.Commit}
	if recent, windowed := w.s.Recent(); windowed {
		s.window = w.s.Meta().Window
		s.recent = make([]ccmap.Counters, 0, recent.Len()-1)
		for n := range recent.Nodes() {
			if n.ID != 0 {
				s.recent = append(s.recent, n.Self)
			}
		}
	}
	w.coder.rest(&s, &w.records, len(s.recent))
}

// use finds the methods of the map. Names may have those of other maps.
func (w *writer) use() {
	for n := range w.s.Nodes() {
		w.useOne(n.Method)
	}
	for e := range w.s.PrunedEdges() {
		w.useOne(e.Caller)
		w.useOne(e.Callee)
	}
	for p := range w.s.PrunedMethods() {
		w.useOne(p.Method)
	}
	for _, p := range w.s.Points() {
		w.useOne(p.Method)
		for _, f := range p.Callers {
			w.useOne(f.Method)
		}
		for _, v := range p.Values {
			if p.Kind.HasMethods() {
				w.useOne(ccmap.MethodID(v.Value))
			}
		}
	}
}

func (w *writer) useOne(id ccmap.MethodID) {
	if id == ccmap.NoMethod || w.rank[id] != 0 {
		return
	}
	m := w.names.At(id)
	w.methods = append(w.methods, m)
	w.rank[id] = uint32(len(w.methods))
	w.hasLines = w.hasLines || m.Coordinate != ccmap.CoordinateLine
}

// id codes a method. It leaves the id as it is: snapshots are not written to.
func (w *writer) id(id *ccmap.MethodID) {
	number := uint32(0)
	if *id != ccmap.NoMethod {
		number = w.rank[*id]
	}
	unsigned(&w.coder, &number)
}

func (w *writer) nodes() {
	nodes := make([]node, 0, w.s.Len()-1)
	for n := range w.s.Nodes() {
		if n.ID != 0 {
			nodes = append(nodes, node{uint64(n.ID - n.Parent - 1), n.Offset, n.Method, n.Self})
		}
	}
	w.length(len(nodes))
	w.take(int64(len(nodes)) * nodeMemory)
	w.columns(nodes, w.id)
}

func (w *writer) lists() {
	w.addPositions()
	w.addMappings()
	w.edges = slices.Collect(w.s.PrunedEdges())
	w.pruned = slices.Collect(w.s.PrunedMethods())
	w.points = w.s.Points()
	w.all(&w.coder, w.id)
}

// addPositions adds what the names know of the positions of the map.
func (w *writer) addPositions() {
	for n := range w.s.Nodes() {
		if n.ID != 0 && n.Parent != 0 {
			w.addCall(w.s.Node(n.Parent).Method, n.Offset, n.Method)
		}
	}
	for e := range w.s.PrunedEdges() {
		if e.Caller != ccmap.NoMethod {
			w.addCall(e.Caller, e.Offset, e.Callee)
		}
	}
	for _, p := range w.s.Points() {
		w.addPointLines(&p)
	}
	w.lines, w.inlined = compactRecords(w.lines), compactRecords(w.inlined)
}

// addCall adds the line of a call, or of a position where there is no callee, and whether the call was inlined.
func (w *writer) addCall(caller ccmap.MethodID, offset uint32, callee ccmap.MethodID) {
	at := ccmap.Frame{Method: caller, Offset: offset}
	w.addLine(at)
	if callee != ccmap.NoMethod && w.names.Inlined(at, callee) {
		w.inlined = append(w.inlined, callRecord{at, callee})
	}
}

func (w *writer) addLine(f ccmap.Frame) {
	if !w.hasLines || w.names.At(f.Method).Coordinate == ccmap.CoordinateLine {
		return
	}
	if line := w.names.Line(f); line != 0 {
		w.lines = append(w.lines, lineRecord{f, line})
	}
}

func (w *writer) addPointLines(p *ccmap.Point) {
	if !w.hasLines {
		return
	}
	w.addLine(ccmap.Frame{Method: p.Method, Offset: p.Offset})
	w.addLine(ccmap.Frame{Method: p.Method, Offset: p.End})
	for _, f := range p.Callers {
		w.addLine(f)
	}
	for _, v := range p.Values {
		if p.Kind == ccmap.PointSwitch {
			w.addLine(ccmap.Frame{Method: p.Method, Offset: uint32(v.Value)})
		}
	}
}

// addAddresses adds the addresses in the methods of the map, wherever they are.
func (w *writer) addAddresses() {
	for _, a := range w.names.Addresses() {
		if !slices.ContainsFunc(a.Frames, w.isForeign) {
			w.addresses = append(w.addresses, a)
		}
	}
}

// isForeign reports whether the map does not have the method of a frame. Names may have got methods since.
func (w *writer) isForeign(f ccmap.Frame) bool {
	return int64(f.Method) >= int64(len(w.rank)) || w.rank[f.Method] == 0
}

// addOwnAddresses adds the addresses of the positions of the map. A name table that a session has filled has many more.
func (w *writer) addOwnAddresses() {
	for n := range w.s.Nodes() {
		if n.ID != 0 && n.Parent != 0 {
			w.addAddress(n)
		}
	}
}

// mostInlined bounds the frames of an instruction that are looked at.
const mostInlined = 64

// addAddress adds the addresses of the instruction of a node: a call, or where samples were taken. Its innermost frame
// is the parent's; the frames above may have it inlined.
func (w *writer) addAddress(n ccmap.Node) {
	isCall, offset := !n.IsPosition(), n.Offset
	if offset == ccmap.NoOffset {
		return
	}
	var frames []ccmap.Frame
	for at := n.Parent; at != 0 && len(frames) < mostInlined; {
		holder := w.s.Node(at)
		frames = append(frames, ccmap.Frame{Method: holder.Method, Offset: offset})
		if known, _ := w.names.Address(frames, isCall); known != 0 {
			w.addresses = append(w.addresses, ccmap.Address{Frames: slices.Clone(frames), Call: isCall, Offset: known})
		}
		at, offset = holder.Parent, holder.Offset
		if at == 0 || !w.names.Inlined(ccmap.Frame{Method: w.s.Node(at).Method, Offset: offset}, holder.Method) {
			return
		}
	}
}

// addMappings adds the mappings of the program and of the methods' modules.
func (w *writer) addMappings() {
	modules := []string{w.s.Meta().Target.BuildID}
	for i := range w.methods {
		modules = append(modules, w.methods[i].Module)
	}
	slices.Sort(modules)
	for _, module := range slices.Compact(modules) {
		if m := w.names.Mapping(module); m != (ccmap.Mapping{}) {
			w.mappings = append(w.mappings, mappingRecord{module, m})
		}
	}
}
