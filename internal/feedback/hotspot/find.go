package hotspot

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/valueprof/pollution"
)

// FindOptions say which hints are worth to be given.
type FindOptions struct {
	Least float64 // of the profile's weight that a hint can save, percent
	Depth int     // callers of a context, up to this many
}

// DefaultFind returns the options where nobody has others.
func DefaultFind() FindOptions { return FindOptions{Least: 0.5, Depth: pollution.MostCallers} }

// largestCode is how many bytes of bytecode a callee may have that is to be inlined: what C2
// itself takes for small enough where a call is hot (-XX:FreqInlineSize).
const largestCode = 325

// Find returns hints out of a profile of a JVM, those first that can save most: where a call has receivers of
// several types, and from one caller only one, the calls down to it are to be inlined into the caller, and the
// methods of other types kept out of it. And where a call has receivers of many types, the method that makes it is
// kept out of hot methods in which it is cold. leftOut says where hints were due, and why there are none.
func Find(s *ccmap.Snapshot, o FindOptions) (hints []Hint, leftOut []string) {
	f := finder{s: s, names: s.Names(), least: o.Least, total: weight(s.Total()), sizes: sizes(s.Points()), thrown: Thrown(s)}
	sites := pollution.New(s, pollution.Options{Weight: weight}).Polluted(f.isBytecode, o.Depth)
	for _, c := range f.candidates(sites) {
		if f.isWorth(c.saves) && len(f.hints) < mostHints {
			f.add(c)
		}
	}
	f.addCold(sites)
	return f.hints, append(f.leftOut, f.small()...)
}

func weight(c ccmap.Counters) int64 { return cmp.Or(c.Time, c.Samples) }

// finder collects hints.
type finder struct {
	s       *ccmap.Snapshot
	names   *ccmap.Names
	least   float64 // percent that a hint can save
	total   int64
	sizes   map[ccmap.MethodID]uint32
	thrown  map[string]int64                  // see Thrown
	nodes   map[ccmap.MethodID][]ccmap.NodeID // by method; nil until somebody asks
	selves  map[ccmap.NodeID]int64            // weights of nodes alone; nil until somebody asks
	hints   []Hint
	leftOut []string
	few     int     // contexts without a hint, as each can save little,
	saves   float64 // and what these can save together, percent
}

// isWorth reports whether a hint can save enough. It counts those that cannot.
func (f *finder) isWorth(saves float64) bool {
	if saves >= f.least {
		return true
	}
	f.few++
	f.saves += saves
	return false
}

// small says what was left out because it can save little.
func (f *finder) small() []string {
	if f.few == 0 {
		return nil
	}
	return []string{fmt.Sprintf("%d more contexts can save less than %.3g %% each, and %.2g %% together at most", f.few, f.least, f.saves)}
}

// sizes returns a lower bound of the bytes of bytecode of methods: the last position that a
// VM has counted at.
func sizes(points []ccmap.Point) map[ccmap.MethodID]uint32 {
	sizes := make(map[ccmap.MethodID]uint32)
	for _, p := range points {
		if p.Origin == ccmap.OriginVM && p.Offset != ccmap.NoOffset {
			sizes[p.Method] = max(sizes[p.Method], p.Offset+1)
		}
	}
	return sizes
}

func (f *finder) isBytecode(m ccmap.MethodID) bool {
	return f.names.At(m).Coordinate == ccmap.CoordinateBytecode
}

// part returns a percentage.
func part(of, whole int64) float64 {
	if whole == 0 {
		return 0
	}
	return 100 * float64(of) / float64(whole)
}

var errRecursive = errors.New("the calls are recursive, and a hint would hold for each")

// add adds the hints of a context, all of them or none.
func (f *finder) add(of candidate) {
	site, c := of.site, of.Clean
	reason := f.reason(site, c)
	hints, err := f.inline(site, c)
	if err == nil {
		err = f.mayHave(hints[0].Root)
	}
	if err == nil {
		var others []Hint
		if others, err = f.keepOut(site, c); err == nil {
			hints = append(hints, others...)
		}
	}
	if err != nil {
		f.leftOut = append(f.leftOut, fmt.Sprintf("%s: %s", reason, err))
		return
	}
	for _, h := range hints {
		h.Share, h.Saves = part(c.Samples.Weight, f.total), of.saves
		h.Reason, h.ThrownBefore = reason, f.thrown[h.Root.String()]
		f.put(h)
	}
}

// put adds a hint, unless its root has one for the callee: the first of two that contradict each other
// has more weight.
func (f *finder) put(h Hint) {
	same := func(o Hint) bool { return o.Root == h.Root && o.Callee == h.Callee }
	if !slices.ContainsFunc(f.hints, same) {
		f.hints = append(f.hints, h)
	}
}

// mayHave returns an error that says why a root has no hints.
func (f *finder) mayHave(root Method) error {
	if n := f.thrown[root.String()]; n >= MostDecompiles {
		return fmt.Errorf("the JVM has thrown away its code %d times", n)
	}
	return nil
}

// Compiled returns the methods whose code C2 had made when a profile was taken, as far as the JVM's counts tell.
func Compiled(s *ccmap.Snapshot, of []Method) (compiled []Method) {
	frozen := make(map[string]bool)
	for _, p := range s.Points() {
		if p.Origin == ccmap.OriginVM && p.Kind == ccmap.PointBlock && p.Offset == 0 && p.Frozen {
			m := s.Names().At(p.Method)
			frozen[m.Name+m.Signature] = true
		}
	}
	for _, m := range of {
		if frozen[m.String()] {
			compiled = append(compiled, m)
		}
	}
	return compiled
}

// Thrown returns how often the JVM of a profile has thrown away code of methods that C2 had made, by
// the texts of the methods.
func Thrown(s *ccmap.Snapshot) map[string]int64 {
	thrown := make(map[string]int64)
	for _, p := range s.Points() {
		if p.Origin == ccmap.OriginVM && p.Kind == ccmap.PointThrown {
			m := s.Names().At(p.Method)
			thrown[m.Name+m.Signature] = p.Count
		}
	}
	return thrown
}

// reason says in figures why a context gets hints.
func (f *finder) reason(site pollution.Polluted, c pollution.Clean) string {
	root := c.Callers[len(c.Callers)-1]
	text := fmt.Sprintf("%s:%d has %s, from %s:%d only %s comes (%s, %.1f %%",
		f.names.At(site.Caller).Name, site.Offset, countReceivers(site.Site),
		f.names.At(root.Method).Name, root.Offset, f.names.At(c.Target).Name, c.Basis, 100*c.Share)
	if c.Calls >= 0 {
		text += fmt.Sprintf(" of %d calls", c.Calls)
	}
	return text + ")"
}

// countReceivers says how many receivers a site has. The VM counts those that it has no room for together.
func countReceivers(s pollution.Site) string {
	n := len(s.Receivers())
	if s.Calls.Unnamed > 0 {
		return fmt.Sprintf("%d receivers or more", n)
	}
	return fmt.Sprintf("%d receivers", n)
}

// isRecursive reports whether a method is twice in a context. A hint for a method's compilations holds for
// all its calls, and so it cannot tell these apart.
func isRecursive(site pollution.Polluted, c pollution.Clean) bool {
	methods := []ccmap.MethodID{site.Caller}
	for _, at := range c.Callers {
		if slices.Contains(methods, at.Method) {
			return true
		}
		methods = append(methods, at.Method)
	}
	return false
}

// inline returns the hints to inline what is between the root and the site.
func (f *finder) inline(site pollution.Polluted, c pollution.Clean) (hints []Hint, err error) {
	if isRecursive(site, c) {
		return nil, errRecursive
	}
	root, err := f.method(c.Callers[len(c.Callers)-1].Method)
	if err != nil {
		return nil, err
	}
	callee := site.Caller
	for _, at := range c.Callers { // innermost first
		if size := f.sizes[callee]; size > largestCode {
			return nil, fmt.Errorf("%s is large: %d bytes or more", f.names.At(callee).Name, size)
		}
		h := Hint{Action: Inline, Root: root, Bytecode: int32(at.Offset)}
		if h.Callee, err = f.method(callee); err != nil {
			return nil, err
		}
		if h.Caller, err = f.method(at.Method); err != nil {
			return nil, err
		}
		if at.Offset == ccmap.NoOffset {
			return nil, fmt.Errorf("where %s calls is not known", h.Caller.Short())
		}
		hints = append(hints, h)
		callee = at.Method
	}
	slices.Reverse(hints)
	return hints, nil
}

// keepOut returns the hints to keep out the methods of types that do not come. The profile
// must have no call of them elsewhere below the root, which a hint would keep out, too.
func (f *finder) keepOut(site pollution.Polluted, c pollution.Clean) (hints []Hint, err error) {
	root := c.Callers[len(c.Callers)-1].Method
	for _, other := range f.targets(site) {
		if other == c.Target || f.isBelow(other, root, site.Site) || f.isCleanIn(other, root, site) {
			continue
		}
		h := Hint{Action: KeepOut, Bytecode: int32(site.Offset)}
		if h.Root, err = f.method(root); err != nil {
			return nil, err
		}
		if h.Caller, err = f.method(site.Caller); err != nil {
			return nil, err
		}
		if h.Callee, err = f.method(other); err != nil {
			return nil, err
		}
		hints = append(hints, h)
	}
	return hints, nil
}

// targets returns the methods that a site has reached, by all evidence.
func (f *finder) targets(site pollution.Polluted) (targets []ccmap.MethodID) {
	for _, e := range []pollution.Evidence{site.Calls, site.Samples} {
		for _, t := range e.Targets {
			if !slices.Contains(targets, t.Method) {
				targets = append(targets, t.Method)
			}
		}
	}
	return targets
}

// isCleanIn reports whether another context of the root has the target as its one receiver.
func (f *finder) isCleanIn(target, root ccmap.MethodID, site pollution.Polluted) bool {
	return slices.ContainsFunc(site.Clean, func(c pollution.Clean) bool {
		return c.Target == target && c.Callers[len(c.Callers)-1].Method == root
	})
}

// isBelow reports whether a method was sampled below a root, called at another site.
func (f *finder) isBelow(method, root ccmap.MethodID, site pollution.Site) bool {
	for _, id := range f.nodesOf(method) {
		n := f.s.Node(id)
		parent := f.s.Node(n.Parent)
		if parent.Method == site.Caller && n.Offset == site.Offset {
			continue
		}
		if f.hasAbove(n, root) {
			return true
		}
	}
	return false
}

// nodesOf returns the nodes of a method. There may be millions of all methods, so they are gone through
// once.
func (f *finder) nodesOf(method ccmap.MethodID) []ccmap.NodeID {
	if f.nodes == nil {
		f.nodes = make(map[ccmap.MethodID][]ccmap.NodeID)
		for n := range f.s.Nodes() {
			if n.Parent != n.ID {
				f.nodes[n.Method] = append(f.nodes[n.Method], n.ID)
			}
		}
	}
	return f.nodes[method]
}

// method returns a method of the profile as the compiler names it.
func (f *finder) method(id ccmap.MethodID) (Method, error) {
	m := f.names.At(id)
	method, err := MethodOf(m)
	if err != nil {
		return method, fmt.Errorf("%s: %w", m.Name, err)
	}
	return method, nil
}
