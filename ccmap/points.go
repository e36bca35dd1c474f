package ccmap

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"unsafe"
)

// Origin says where the counts of a [Point] come from.
type Origin uint8

const (
	OriginSampled  Origin = iota // CPU samples: Count is samples
	OriginBurst                  // calls that breakpoints caught: Count is calls
	OriginImported               // counters that the program kept itself, such as Go's coverage files
	OriginVM                     // the profile that the program's VM keeps, such as HotSpot's MethodData
	OriginCached                 // the profile of an earlier run: no map holds such points, or they would count now
)

var originNames = [...]string{OriginSampled: "sampled", OriginBurst: "burst", OriginImported: "imported", OriginVM: "vm", OriginCached: "cached"}

// String returns the name of the origin, for example "burst".
func (o Origin) String() string { return nameAt(originNames[:], "origin", uint8(o)) }

// PointKind is the kind of code that a [Point] profiles.
type PointKind uint8

const (
	PointCall   PointKind = iota // a call: the values are the methods it reached
	PointBlock                   // straight code: no values
	PointBranch                  // a condition: the values are BranchTaken and BranchUntaken
	PointSwitch                  // a choice: the values are the offsets of its cases in the method
	PointType                    // a check of a type: the values are the types that it met
	PointThrown                  // code of the method that the VM has thrown away after it compiled it: no values
	PointNumber                  // a variable of the program: the values are its numbers, as int64
)

// The values of a PointBranch.
const (
	BranchUntaken = 0
	BranchTaken   = 1
)

var kindNames = [...]string{PointCall: "call", PointBlock: "block", PointBranch: "branch", PointSwitch: "switch", PointType: "type", PointThrown: "thrown", PointNumber: "number"}

// String returns the name of the kind, for example "call".
func (k PointKind) String() string { return nameAt(kindNames[:], "kind", uint8(k)) }

// HasMethods reports whether the values of such points are MethodIDs: of a PointCall the
// methods that it reached, of a PointType one [Method] for each type, whose Name and
// Receiver both are the type's.
func (k PointKind) HasMethods() bool { return k == PointCall || k == PointType }

// MaxPointCallers is the length of the longest context of a [Point].
const MaxPointCallers = 3

// The values of [Point.Nulls] without a count.
const (
	NullsUnknown = -1 // the source does not see nulls
	NullsSeen    = -2 // the source has seen nulls, and not counted them
)

// Point is a profile point (HotSpot's): the executions and values seen at one position
// of a method, in any context or in one.
type Point struct {
	Origin Origin
	Kind   PointKind
	Frozen bool // the source stopped to count: a VM does so when it has compiled the method
	Method MethodID
	Offset uint32 // position in the method, as in a [Frame]
	End    uint32 // offset of the last line of a block or branch; else Offset
	Phase  uint32 // of the program when it was counted: how often the program had drifted before

	// Callers is the context: the callers at their calls, innermost first, at most
	// MaxPointCallers, fewer where the stack ends; empty, but not nil, where Method
	// is the outermost frame. Nil means any context.
	Callers []Frame

	Count  int64        // executions seen: the sum of all fields below, if anything is known of values
	Values []PointValue // seen values, the most frequent first, then by value
	Other  int64        // executions with values that are not in Values
	Aged   int64        // executions with any value, forgotten by earlier versions that had no room for them
	Nulls  int64        // null receivers or checked nulls, NullsUnknown or NullsSeen
}

// KnowsValues reports whether anything is known of the values of p, so that its
// Count is the sum of Values, Other, Aged and known Nulls.
func (p Point) KnowsValues() bool {
	return len(p.Values) > 0 || p.Other > 0 || p.Aged > 0 || p.Nulls > 0
}

// Compare orders points by their identity: by origin, kind, method, offset, end,
// context and phase. Points for any context come before others. Two points that
// compare equal are the same point; their counts do not matter.
func (p Point) Compare(q Point) int { return p.compare(&q) }

func (p *Point) compare(q *Point) int {
	switch {
	case p.Origin != q.Origin:
		return cmp.Compare(p.Origin, q.Origin)
	case p.Kind != q.Kind:
		return cmp.Compare(p.Kind, q.Kind)
	case p.Method != q.Method:
		return cmp.Compare(p.Method, q.Method)
	case p.Offset != q.Offset:
		return cmp.Compare(p.Offset, q.Offset)
	case p.End != q.End:
		return cmp.Compare(p.End, q.End)
	}
	return cmp.Or(compareContexts(p.Callers, q.Callers), cmp.Compare(p.Phase, q.Phase))
}

// compareContexts orders contexts caller by caller, the shorter one first.
func compareContexts(a, b []Frame) int {
	switch {
	case a == nil && b == nil:
		return 0
	case a == nil:
		return -1
	case b == nil:
		return 1
	}
	return slices.CompareFunc(a, b, func(x, y Frame) int {
		return cmp.Or(cmp.Compare(x.Method, y.Method), cmp.Compare(x.Offset, y.Offset))
	})
}

// PointValue is one value and how often it was seen. The value of a call is the
// MethodID of the method that it reached, whose Receiver is the receiver's type. For that
// of a type see [PointKind.HasMethods].
type PointValue struct {
	Value uint64
	Count int64
}

// Compare orders values as in a point: the most frequent first.
func (v PointValue) Compare(w PointValue) int {
	return cmp.Or(cmp.Compare(w.Count, v.Count), cmp.Compare(v.Value, w.Value))
}

// points are the profile points of a map. They come by the thousand, and are
// sorted and added up when they are asked for.
type points struct {
	list  []Point // sorted, each once; shared with snapshots, and never written to
	added []Point // later ones, in any order; the writer's alone
	bytes int64   // of both
	due   int64   // bytes; if more, list and added are added up
}

// SetPoints replaces all points of one origin. It ignores Origin in the list, and
// treats each point as [Map.AddPoint] does.
func (m *Map) SetPoints(o Origin, list []Point) {
	if o >= OriginCached {
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

// AddPoint adds the counts of p to the point of the same origin, kind, method, offset, end, context and phase, or
// makes it. Counts that would overflow stay at the largest int64. If only one of the two sources sees null
// receivers, Nulls comes from that source, and a count comes before NullsSeen. The point is frozen if either is.
// If only one knows values, the counts of the other are in Other. The map keeps Callers, which the caller must not
// change any more.
//
// Points that no source makes become the closest that one does. Negative counts are 0,
// values that were never seen are left out, and Count is the sum of the counts by
// value. A method that Names does not hold is [UnknownName], callers beyond
// MaxPointCallers are dropped, and a branch that has another value than 0 is
// taken. Blocks and thrown code have no values. Only calls and type checks have nulls, and only blocks
// and branches an End of their own. A point of an origin or a kind that does not
// exist, or of OriginCached, is dropped.
func (m *Map) AddPoint(p Point) {
	if p.exists() {
		m.points.add(m.normalPoint(p))
	}
}

// hasValues reports whether such points may have values.
func (k PointKind) hasValues() bool { return k != PointBlock && k != PointThrown }

// hasEnd reports whether such points have an End of their own.
func (k PointKind) hasEnd() bool { return k == PointBlock || k == PointBranch }

// normalNulls returns the nulls that such points can have.
func (k PointKind) normalNulls(nulls int64) int64 {
	switch {
	case nulls < NullsSeen, nulls == NullsSeen && !k.HasMethods():
		return NullsUnknown
	case !k.HasMethods():
		return min(nulls, 0)
	}
	return nulls
}

// exists reports whether origin and kind exist.
func (p *Point) exists() bool {
	return p.Origin < OriginCached && int(p.Kind) < len(kindNames)
}

// Points returns the profile points in the order of [Point.Compare], each once.
// The caller must not change them.
func (s *Snapshot) Points() []Point { return s.points }

// SumPoints returns the points of lists, in order and each once: the counts of one
// point are added up as by [Map.AddPoint]. The lists stay as they are; their points
// must come from a map.
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

// translated returns a copy of p with the ids of another table.
func (p Point) translated(methods methodIDs) Point {
	p.Method = methods.of(p.Method)
	p.Callers = slices.Clone(p.Callers)
	for i := range p.Callers {
		p.Callers[i].Method = methods.of(p.Callers[i].Method)
	}
	if p.Kind.HasMethods() {
		p.Values = slices.Clone(p.Values)
		for i := range p.Values {
			p.Values[i].Value = uint64(methods.of(MethodID(p.Values[i].Value)))
		}
	}
	return p
}

// replace replaces the points of one origin, which are neighbours, by the points of a
// list.
func (p *points) replace(o Origin, list []Point) {
	all := p.all()
	first := func(o Origin) int {
		return sort.Search(len(all), func(i int) bool { return all[i].Origin >= o })
	}
	p.set(slices.Concat(all[:first(o)], addedUp(list), all[first(o+1):]))
}

// add adds a point. When the memory has doubled since points were last added up, it
// adds them up again, so that copies of the same point do not pile up.
func (p *points) add(point Point) {
	p.added = append(p.added, point)
	p.bytes += point.bytes()
	if p.bytes > p.due {
		p.all()
	}
}

// all adds up points that are the same, and returns all points in order.
func (p *points) all() []Point {
	if len(p.added) > 0 {
		p.set(addedUp(p.list, p.added))
	}
	return p.list
}

// addedUp returns the points of lists in order, and adds up points that are the same.
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

// inOrder returns the points of lists in order. Points that are the same are neighbours.
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

// set replaces all points by a sorted list.
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

// normalPoint returns p as maps keep points, see [Map.AddPoint]. It does not write to
// the slices of p, which may be shared.
func (m *Map) normalPoint(p Point) Point {
	methods := m.names.Len()
	p.Method = m.known(p.Method, methods)
	p.Callers = m.normalContext(p.Callers, methods)
	if !p.Kind.hasEnd() {
		p.End = p.Offset
	}
	if !p.Kind.hasValues() {
		p.Values, p.Other, p.Aged = nil, 0, 0
	}
	p.Nulls = p.Kind.normalNulls(p.Nulls)
	p.Values = m.normalValues(p.Kind, p.Values, methods)
	p.Count, p.Other, p.Aged = max(p.Count, 0), max(p.Other, 0), max(p.Aged, 0)
	if p.KnowsValues() {
		p.Count = p.sum()
	}
	return p
}

func (m *Map) normalContext(callers []Frame, methods int) []Frame {
	callers = callers[:min(len(callers), MaxPointCallers)]
	for i, f := range callers {
		if id := m.known(f.Method, methods); id != f.Method {
			callers = slices.Clone(callers)
			callers[i].Method = id
		}
	}
	return callers
}

// normalValues returns the values that a point of this kind can have.
func (m *Map) normalValues(k PointKind, values []PointValue, methods int) []PointValue {
	values = slices.Clone(values)
	for i := range values {
		v := &values[i]
		v.Count = max(v.Count, 0)
		switch k {
		case PointCall, PointType:
			v.Value = uint64(m.known(MethodID(min(v.Value, uint64(NoMethod))), methods))
		case PointBranch:
			v.Value = min(v.Value, 1)
		}
	}
	return SumValues(values)
}

// sumValues adds up the counts of each value, in place, and puts the values into
// their order.
func SumValues(values []PointValue) []PointValue {
	slices.SortFunc(values, func(a, b PointValue) int { return cmp.Compare(a.Value, b.Value) })
	sums := values[:0]
	for _, v := range values {
		if last := len(sums) - 1; last >= 0 && sums[last].Value == v.Value {
			sums[last].Count = addSaturated(sums[last].Count, v.Count)
		} else {
			sums = append(sums, v)
		}
	}
	sums = slices.DeleteFunc(sums, func(v PointValue) bool { return v.Count == 0 })
	slices.SortFunc(sums, PointValue.Compare)
	if len(sums) == 0 {
		return nil
	}
	return slices.Clip(sums)
}

// sumPoints adds up at least one copy of the same point. It does not write to the
// slices of the points, which may be shared.
func sumPoints(same []*Point) Point {
	sum := *same[0]
	if len(same) == 1 {
		return sum
	}
	var values []PointValue
	sum.Count, sum.Other, sum.Aged, sum.Nulls, sum.Frozen = 0, 0, 0, NullsUnknown, false
	unvalued := int64(0) // counts without values
	for _, p := range same {
		if !p.KnowsValues() {
			unvalued = addSaturated(unvalued, p.Count)
		}
		values = append(values, p.Values...)
		sum.Count = addSaturated(sum.Count, p.Count)
		sum.Other = addSaturated(sum.Other, p.Other)
		sum.Aged = addSaturated(sum.Aged, p.Aged)
		sum.Nulls = addNulls(sum.Nulls, p.Nulls)
		sum.Frozen = sum.Frozen || p.Frozen
	}
	sum.Values = SumValues(values)
	if sum.KnowsValues() {
		sum.Other = addSaturated(sum.Other, unvalued)
	}
	return sum
}

// addNulls adds up numbers of null receivers, as far as they are known. A count of 0 does
// not hide that another source has seen some.
func addNulls(a, b int64) int64 {
	switch {
	case a == NullsUnknown:
		return b
	case b == NullsUnknown:
		return a
	case a == NullsSeen && b <= 0:
		return NullsSeen
	case b == NullsSeen && a <= 0:
		return NullsSeen
	}
	return addSaturated(max(a, 0), max(b, 0))
}

// sum returns the sum of the counts by value.
func (p *Point) sum() int64 {
	n := addSaturated(addSaturated(p.Other, p.Aged), max(p.Nulls, 0))
	for _, v := range p.Values {
		n = addSaturated(n, v.Count)
	}
	return n
}

// checkPoints checks that points are sorted, and that [Map.AddPoint] could have made
// each of them.
func checkPoints(list []Point, names *Names) error {
	for i := range list {
		if err := list[i].CheckValid(names); err != nil {
			return fmt.Errorf("point %d: %w", i, err)
		}
		if i > 0 && list[i-1].Compare(list[i]) >= 0 {
			return fmt.Errorf("point %d does not come before point %d", i-1, i)
		}
	}
	return nil
}

// CheckValid returns an error that says why p cannot be a point of these names, nil
// if it can. It is for tests, and for points that were decoded.
func (p Point) CheckValid(names *Names) error {
	methods := names.Len()
	switch {
	case !p.exists():
		return fmt.Errorf("it is of %v, %v", p.Origin, p.Kind)
	case int64(p.Method) >= int64(methods):
		return fmt.Errorf("method %d of %d", p.Method, methods)
	case p.End != p.Offset && !p.Kind.hasEnd():
		return fmt.Errorf("a %v from %d ends at %d", p.Kind, p.Offset, p.End)
	case len(p.Callers) > MaxPointCallers:
		return fmt.Errorf("%d callers", len(p.Callers))
	}
	for _, f := range p.Callers {
		if int64(f.Method) >= int64(methods) {
			return fmt.Errorf("caller %d of %d", f.Method, methods)
		}
	}
	if err := p.checkValues(names); err != nil {
		return err
	}
	return p.checkCounts()
}

func (p *Point) checkCounts() error {
	switch {
	case min(p.Count, p.Other, p.Aged) < 0 || p.Nulls < NullsSeen:
		return fmt.Errorf("negative counts: %d, %d other, %d aged, %d nulls", p.Count, p.Other, p.Aged, p.Nulls)
	case p.KnowsValues() && p.Count != p.sum():
		return fmt.Errorf("counts %d, and its values add up to %d", p.Count, p.sum())
	case !p.Kind.hasValues() && p.KnowsValues():
		return fmt.Errorf("a %v with values", p.Kind)
	case !p.Kind.HasMethods() && (p.Nulls > 0 || p.Nulls == NullsSeen):
		return fmt.Errorf("a %v with nulls", p.Kind)
	}
	return nil
}

func (p *Point) checkValues(names *Names) error {
	if !slices.IsSortedFunc(p.Values, PointValue.Compare) {
		return fmt.Errorf("values in no order")
	}
	seen := make(map[uint64]bool, len(p.Values))
	for _, v := range p.Values {
		switch {
		case p.Kind.HasMethods() && v.Value >= uint64(names.Len()):
			return fmt.Errorf("it reaches method %d of %d", v.Value, names.Len())
		case v.Count <= 0:
			return fmt.Errorf("value %s counts %d", p.describe(v, names), v.Count)
		case seen[v.Value]:
			return fmt.Errorf("value %s stands twice", p.describe(v, names))
		case p.Kind == PointBranch && v.Value > 1:
			return fmt.Errorf("a branch to %d", v.Value)
		}
		seen[v.Value] = true
	}
	return nil
}

// describe prints a value for errors: a method by its name, which may be long.
func (p *Point) describe(v PointValue, names *Names) string {
	if p.Kind.HasMethods() {
		return fmt.Sprintf("%.60q", names.At(MethodID(v.Value)).Name)
	}
	return fmt.Sprint(v.Value)
}
