package ccmap

import (
	"slices"
	"sort"
	"unsafe"
)

// points are the profile points of a map. They come by the thousand, and are
// sorted and added up when somebody asks for them.
type points struct {
	list  []Point // sorted, each once; shared with snapshots, and never written to
	added []Point // since, in any order; the writer's alone
	bytes int64   // of both
	due   int64   // bytes at which the two are added up
}

// SetPoints replaces all points of one origin. Origin in the list is not looked at;
// what [Map.AddPoint] says of points holds for each.
func (m *Map) SetPoints(o Origin, list []Point) {
	if o >= origins {
		return
	}
	points := make([]Point, 0, len(list))
	for _, p := range list {
		if p.Origin = o; p.exists() {
			points = append(points, m.normalPoint(p))
		}
	}
	before := m.points.bytes
	m.points.replace(o, points)
	m.giveBack(before - m.points.bytes)
}

// AddPoint adds the counts of p to the point of the same origin, kind, method, offset,
// end, context and phase, or makes it. Counts that would overflow stay at the
// largest. If only one of the two sources sees null receivers, Nulls are that
// one's; if only one knows of values, what the other counts is in Other. The map
// keeps Callers, which the caller must not change any more.
//
// What no source makes becomes what comes closest. Negative counts are 0, values
// that were never seen are left out, and Count is the sum of what is known of
// values. A method that Names does not hold is [UnknownName], callers beyond
// MaxPointCallers are dropped, and a branch that has another value than 0 is
// taken. Blocks have no values. Only calls have null receivers, and only blocks
// and branches an End of their own. A point of an origin or a kind that does not
// exist is dropped.
func (m *Map) AddPoint(p Point) {
	if p.exists() {
		m.points.add(m.normalPoint(p))
	}
}

// exists reports whether there are such points.
func (p *Point) exists() bool { return p.Origin < origins && p.Kind < pointKinds }

// Points returns the profile points in the order of [Point.Compare], each once.
// The caller must not change them.
func (s *Snapshot) Points() []Point { return s.points }

// SumPoints returns the points of lists, in order and each once: the counts of one
// point are added up, as [Map.AddPoint] has it. The lists stay as they are; their
// points must be as a map has them.
func SumPoints(lists ...[]Point) []Point { return addedUp(lists...) }

// SumPhases returns points, in order, that count for all phases together.
func SumPhases(points []Point) []Point {
	if !slices.ContainsFunc(points, func(p Point) bool { return p.Phase > 0 }) {
		return points
	}
	all := slices.Clone(points)
	for i := range all {
		all[i].Phase = 0
	}
	return addedUp(all)
}

// addPoints adds the points of another map.
func (m *Map) addPoints(from *Snapshot, methods methodIDs) {
	for _, p := range from.points {
		if from.names != m.names {
			p = p.translated(methods)
		}
		m.points.add(m.normalPoint(p))
	}
}

// translated returns a copy of p with other ids of methods.
func (p Point) translated(methods methodIDs) Point {
	p.Method = methods.of(p.Method)
	p.Callers = slices.Clone(p.Callers)
	for i := range p.Callers {
		p.Callers[i].Method = methods.of(p.Callers[i].Method)
	}
	if p.Kind == PointCall {
		p.Values = slices.Clone(p.Values)
		for i := range p.Values {
			p.Values[i].Value = uint64(methods.of(MethodID(p.Values[i].Value)))
		}
	}
	return p
}

// replace replaces the points of one origin, which stand together, by those of a
// list.
func (p *points) replace(o Origin, list []Point) {
	all := p.settle()
	first := func(o Origin) int {
		return sort.Search(len(all), func(i int) bool { return all[i].Origin >= o })
	}
	p.set(slices.Concat(all[:first(o)], addedUp(list), all[first(o+1):]))
}

// add adds a point. Now and then it adds up what there is, so that many that are
// the same do not pile up: when that takes twice what it last did.
func (p *points) add(point Point) {
	p.added = append(p.added, point)
	p.bytes += point.bytes()
	if p.bytes > p.due {
		p.settle()
	}
}

// settle adds up what is the same, and returns all points in order.
func (p *points) settle() []Point {
	if len(p.added) > 0 {
		p.set(addedUp(p.list, p.added))
	}
	return p.list
}

// addedUp returns the points of lists in order, those that are the same as one.
func addedUp(lists ...[]Point) []Point {
	all := inOrder(lists)
	sums := make([]Point, 0, len(all))
	for len(all) > 0 {
		same := 1
		for same < len(all) && all[same].compare(all[0]) == 0 {
			same++
		}
		sums = append(sums, sumPoints(all[:same]))
		all = all[same:]
	}
	if len(sums) < cap(sums) {
		sums = slices.Clone(sums)
	}
	return sums
}

// inOrder returns the points of lists, those that are the same behind each other.
func inOrder(lists [][]Point) []*Point {
	var all []*Point
	for _, list := range lists {
		all = slices.Grow(all, len(list))
		for i := range list {
			all = append(all, &list[i])
		}
	}
	slices.SortFunc(all, (*Point).compare)
	return all
}

// set makes a sorted list all that there is.
func (p *points) set(list []Point) {
	const least = 256 << 10
	*p = points{list: list}
	for i := range list {
		p.bytes += list[i].bytes()
	}
	p.due = 2*p.bytes + least
}

// bytes returns the memory held.
func (p *Point) bytes() int64 {
	return int64(unsafe.Sizeof(*p)) +
		int64(cap(p.Callers))*int64(unsafe.Sizeof(Frame{})) +
		int64(cap(p.Values))*int64(unsafe.Sizeof(PointValue{}))
}
