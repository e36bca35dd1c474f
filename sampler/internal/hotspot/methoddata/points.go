package methoddata

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/sampler/internal/hotspot/classes"
)

// Points returns the profiles as points, with names interned in names, and the lines of
// their positions. It reads nothing of the JVM. Points without any count are left out. Profiles that have not changed
// have the points of the last call, so the names must be the same for all calls.
func (r *Reader) Points(names *ccmap.Names) []ccmap.Point {
	profiles := make([]*profile, 0, len(r.profiles))
	for _, p := range r.profiles {
		profiles = append(profiles, p)
	}
	slices.SortFunc(profiles, func(a, b *profile) int {
		return cmp.Or(cmp.Compare(a.method.Class.Address, b.method.Class.Address), cmp.Compare(a.method.Address, b.method.Address))
	})
	c := converter{Reader: r, names: names}
	n := 0
	for _, p := range profiles {
		if p.points == nil {
			c.points = nil
			c.convert(p)
			p.points = c.points
		}
		n += len(p.points)
	}
	all := make([]ccmap.Point, 0, n)
	for _, p := range profiles {
		all = append(all, p.points...)
	}
	r.changed = false
	return all
}

// converter makes points of profiles.
type converter struct {
	*Reader
	names  *ccmap.Names
	points []ccmap.Point // of the present profile
}

// convert adds the points of a method.
func (c *converter) convert(p *profile) {
	method := c.method(p.method)
	entry := ccmap.Point{Kind: ccmap.PointBlock, Count: p.invocations, Nulls: ccmap.NullsUnknown}
	c.add(p, method, 0, entry)
	c.add(p, method, 0, ccmap.Point{Kind: ccmap.PointThrown, Count: p.thrown, Nulls: ccmap.NullsUnknown})
	c.l.each(p.data, p.method.CodeSize, func(rec *record) error {
		if point, ok := c.point(p, rec); ok {
			c.add(p, method, rec.index, point)
		}
		if c.l.passesNull(rec) {
			c.add(p, method, rec.index, ccmap.Point{Kind: ccmap.PointType, Nulls: ccmap.NullsSeen})
		}
		return nil
	})
}

// add adds a point at a bytecode of a method.
func (c *converter) add(p *profile, method ccmap.MethodID, index int, point ccmap.Point) {
	if point.Count == 0 && !point.KnowsValues() && point.Nulls != ccmap.NullsSeen {
		return
	}
	point.Origin, point.Method, point.Frozen = ccmap.OriginVM, method, p.frozen && point.Kind != ccmap.PointThrown
	point.Offset, point.End = uint32(index), uint32(index)
	c.setLine(p, method, index)
	c.points = append(c.points, point)
}

// setLine tells the line of a bytecode.
func (c *converter) setLine(p *profile, method ccmap.MethodID, index int) {
	if line := p.method.Line(index); line > 0 {
		c.names.SetLine(ccmap.Frame{Method: method, Offset: uint32(index)}, int32(line))
	}
}

// point returns the counts of a record. It returns false for records of jumps, which have
// no point.
func (c *converter) point(p *profile, rec *record) (ccmap.Point, bool) {
	point := ccmap.Point{Nulls: ccmap.NullsUnknown}
	switch rec.tag {
	case tagVirtual, tagVirtualCall:
		point.Kind = ccmap.PointCall
		c.virtual(p, rec, &point)
		setNulls(rec, &point, ccmap.NullsUnknown)
	case tagCounter, tagCall:
		c.static(p, rec, &point)
	case tagType, tagBit:
		point.Kind = ccmap.PointType
		c.checked(p, rec, &point)
		setNulls(rec, &point, 0)
	case tagBranch:
		point.Kind = ccmap.PointBranch
		point.Values = []ccmap.PointValue{
			{Value: ccmap.BranchTaken, Count: rec.count(0)}, {Value: ccmap.BranchUntaken, Count: rec.count(2)},
		}
		point.Values = ccmap.SumValues(point.Values)
	case tagSwitch:
		point.Kind = ccmap.PointSwitch
		c.cases(p, rec, &point)
	default:
		return point, false
	}
	return point, true
}

// setNulls takes over the flag that a null was seen. Calls without it may not have been
// asked.
func setNulls(rec *record, point *ccmap.Point, none int64) {
	if point.Nulls = none; rec.null {
		point.Nulls = ccmap.NullsSeen
	}
}

// virtual sets what a call by receiver reached. A call without a type has one target: the
// JVM has found out that no class overrides it. It counts such calls where it counts receivers that it has no room
// for. So while there is room, all are of one target (InterpreterMacroAssembler::profile_final_call and
// record_klass_in_profile, cpu/x86/interp_masm_x86.cpp, 17 and 25).
func (c *converter) virtual(p *profile, rec *record, point *ccmap.Point) {
	s := p.site(rec.index)
	rows := c.l.rows(rec)
	if len(rows) == 0 && c.l.width > 0 && s.named {
		point.Values = c.one(p, s.callee, rec.count(0))
		return
	}
	for _, row := range rows {
		class := p.class(row.class)
		if class == nil || !s.named {
			point.Other += row.count
			continue
		}
		id := c.target(class, s.callee)
		point.Values = append(point.Values, ccmap.PointValue{Value: uint64(id), Count: row.count})
	}
	point.Values = ccmap.SumValues(point.Values)
	if counted := max(rec.count(0), 0); counted > 0 && len(point.Values) == 1 && (len(rows) < c.l.width || c.isFinal(p, s.callee)) {
		point.Values[0].Count += counted
	} else {
		point.Other += counted
	}
}

// isFinal reports whether no class overrides the method that a call names. All receivers have the same one, also those
// that the JVM has no room for.
func (c *converter) isFinal(p *profile, callee classes.Callee) bool {
	class := c.named(callee.Class, p.method.Class)
	if class == nil {
		return false
	}
	m := c.reached[reach{class, callee.Name, callee.Descriptor}]
	return m != nil && m.Final
}

// static sets what a call with one target reached. A call that names none, as
// invokedynamic, is a block.
func (c *converter) static(p *profile, rec *record, point *ccmap.Point) {
	if s := p.site(rec.index); s.named {
		point.Kind, point.Values = ccmap.PointCall, c.one(p, s.callee, rec.count(0))
		return
	}
	point.Kind, point.Count = ccmap.PointBlock, max(rec.count(0), 0)
}

// one returns the only target of a call.
func (c *converter) one(p *profile, callee classes.Callee, count int64) []ccmap.PointValue {
	if count <= 0 {
		return nil
	}
	if class := c.named(callee.Class, p.method.Class); class != nil {
		return []ccmap.PointValue{{Value: uint64(c.target(class, callee)), Count: count}}
	}
	id := c.intern(unresolved(callee.Class, callee))
	return []ccmap.PointValue{{Value: uint64(id), Count: count}}
}

// target returns the method that a call reaches with a receiver of a class.
func (c *converter) target(class *classes.Class, callee classes.Callee) ccmap.MethodID {
	if m := c.reached[reach{class, callee.Name, callee.Descriptor}]; m != nil {
		return c.method(m)
	}
	return c.intern(unresolved(class.Name, callee))
}

// unresolved returns a method of which a name is known and no more.
func unresolved(class string, callee classes.Callee) ccmap.Method {
	return ccmap.Method{
		Name: class + "." + callee.Name, Receiver: class, Signature: callee.Descriptor, Coordinate: ccmap.CoordinateBytecode,
	}
}

// method returns a method's id.
func (c *converter) method(m *classes.Method) ccmap.MethodID {
	id, known := c.methodIDs[m]
	if !known {
		id = c.intern(m.Map())
		c.methodIDs[m] = id
	}
	return id
}

// maxNamed bounds the bytes of names that profiles bring: a profile keeps each of them.
const maxNamed = 64 << 20

// intern returns the id of a method. Beyond the bound of names it is an unknown one.
func (c *converter) intern(m ccmap.Method) ccmap.MethodID {
	if id, known := c.names.Lookup(m.Name, m.Signature); known {
		return id
	}
	c.nameBytes += len(m.Name) + len(m.Signature) + len(m.Receiver) + len(m.File) + len(m.Module)
	if c.nameBytes > maxNamed {
		m = ccmap.Method{Name: ccmap.UnknownName}
	}
	return c.names.Intern(m)
}

// checked sets the types that a check met. JDK 17 counts failed checks downward from 0, and
// a count above 0 is of types that have no row. Both are of types that are not kept apart.
func (c *converter) checked(p *profile, rec *record, point *ccmap.Point) {
	for _, row := range c.l.rows(rec) {
		class := p.class(row.class)
		if class == nil {
			point.Other += row.count
			continue
		}
		id, known := c.typeIDs[class]
		if !known {
			id = c.intern(ccmap.Method{Name: class.Name, Receiver: class.Name, Module: class.Loader})
			c.typeIDs[class] = id
		}
		point.Values = append(point.Values, ccmap.PointValue{Value: uint64(id), Count: row.count})
	}
	point.Values = ccmap.SumValues(point.Values)
	if n := rec.count(0); n != math.MinInt64 { // which has no opposite
		point.Other += max(n, -n)
	}
}

// cases sets the cases of a switch that were chosen, by the bytecodes that they begin at.
// The default is none of them.
func (c *converter) cases(p *profile, rec *record, point *ccmap.Point) {
	const defaultCount, firstCase, perCase = 1, 3, 2
	targets := p.site(rec.index).cases
	n := (len(rec.cells)/cellSize - firstCase + 1) / perCase
	method := c.method(p.method)
	for i := range max(n, 0) {
		count := max(rec.count(firstCase+perCase*i), 0)
		if i >= len(targets) {
			point.Other += count
			continue
		}
		if count > 0 {
			c.setLine(p, method, targets[i])
			point.Values = append(point.Values, ccmap.PointValue{Value: uint64(targets[i]), Count: count})
		}
	}
	point.Values = ccmap.SumValues(point.Values)
	point.Other += max(rec.count(defaultCount), 0)
}

// The opcodes of switches: Java's own, and two that the JVM writes over lookupswitch.
const (
	opTableSwitch  = 170
	opLookupSwitch = 171
	opLinearSwitch = 228
	opBinarySwitch = 229
)

// switchTargets returns the bytecodes of a switch's cases, in its order (JVMS 6.5), nil if
// there is no switch at an index.
func switchTargets(code []byte, index int) []int {
	at := (index + 4) &^ 3 // its numbers are aligned to 4 bytes of the method
	number := func(i int) (int, bool) {
		i = at + 4*i
		if i < 0 || i+4 > len(code) {
			return 0, false
		}
		return int(int32(binary.BigEndian.Uint32(code[i:]))), true
	}
	if index < 0 || index >= len(code) {
		return nil
	}
	var n, first, step int
	low, _ := number(1)
	high, ok := number(2)
	switch code[index] {
	case opTableSwitch:
		n, first, step = high-low+1, 3, 1
	case opLookupSwitch, opLinearSwitch, opBinarySwitch:
		n, first, step = low, 3, 2
	}
	if !ok || n <= 0 || n > len(code)/4 {
		return nil
	}
	targets := make([]int, 0, n)
	for i := range n {
		offset, ok := number(first + step*i)
		if target := index + offset; ok && target >= 0 && target < len(code) {
			targets = append(targets, target)
		} else {
			return nil
		}
	}
	return targets
}
