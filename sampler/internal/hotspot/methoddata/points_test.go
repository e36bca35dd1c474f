package methoddata

import (
	"encoding/binary"
	"maps"
	"testing"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/sampler/internal/hotspot/classes"
)

// countedCall is a call of Base.area in a profile with room for two receivers.
type countedCall struct {
	names    *ccmap.Names
	base     *classes.Class
	types    []*classes.Class
	reached  map[reach]*classes.Method
	ids      map[*classes.Method]ccmap.MethodID
	received []uint64 // class and count of each row
}

var area = classes.Callee{Class: "Base", Name: "area", Descriptor: "()I"}

func newCountedCall() *countedCall {
	return &countedCall{
		names: ccmap.NewNames(), base: &classes.Class{Name: "Base"},
		reached: make(map[reach]*classes.Method), ids: make(map[*classes.Method]ccmap.MethodID),
	}
}

// declare has a class reach its own method, which may be final.
func (c *countedCall) declare(class *classes.Class, final bool) *classes.Method {
	m := &classes.Method{Class: class, Name: area.Name, Descriptor: area.Descriptor, Final: final}
	c.inherit(class, m)
	return m
}

func (c *countedCall) inherit(class *classes.Class, m *classes.Method) {
	c.ids[m] = c.names.Intern(ccmap.Method{Name: m.Class.Name + "." + m.Name, Receiver: m.Class.Name, Signature: m.Descriptor})
	c.reached[reach{class, area.Name, area.Descriptor}] = m
}

// receiver adds a row of 10 calls.
func (c *countedCall) receiver(name string) *classes.Class {
	class := &classes.Class{Name: name, Address: 0x1000 * uint64(1+len(c.types))}
	c.types = append(c.types, class)
	c.received = append(c.received, class.Address, 10)
	return class
}

// point converts the record, with calls that the JVM counts together.
func (c *countedCall) point(together uint64) ccmap.Point {
	r := &Reader{
		l: layout{width: 2}, byName: map[string][]*classes.Class{"Base": {c.base}}, reached: c.reached,
		methodIDs: c.ids,
	}
	rec := &record{tag: tagVirtual, cells: make([]byte, 5*cellSize)}
	for i, word := range append([]uint64{together}, c.received...) {
		binary.LittleEndian.PutUint64(rec.cells[cellSize*i:], word)
	}
	p := &profile{method: &classes.Method{Class: c.base}, sites: []site{{callee: area, named: true}}, types: c.types}
	conv := converter{Reader: r, names: c.names}
	point, _ := conv.point(p, rec)
	return point
}

// The JVM counts receivers that it has no room for together with calls that no class overrides. The count is of
// the one target that is known where there is room, or where the method that the call names is final. Elsewhere it
// is of others.
func TestCountedTogether(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		made   func(c *countedCall)
		values map[string]int64
		other  int64
	}{
		"one receiver, and room": {func(c *countedCall) {
			c.declare(c.base, false)
			c.declare(c.receiver("A"), false)
		}, map[string]int64{"A": 110}, 0},
		"no receiver": {func(c *countedCall) {
			c.declare(c.base, false)
		}, map[string]int64{"Base": 100}, 0},
		"two targets": {func(c *countedCall) {
			c.declare(c.base, false)
			c.declare(c.receiver("A"), false)
			c.declare(c.receiver("B"), false)
		}, map[string]int64{"A": 10, "B": 10}, 100},
		"one target, final where it is named": {func(c *countedCall) {
			m := c.declare(c.base, true)
			c.inherit(c.receiver("A"), m)
			c.inherit(c.receiver("B"), m)
		}, map[string]int64{"Base": 120}, 0},
		"one target, that others may override": {func(c *countedCall) {
			m := c.declare(c.base, false)
			c.inherit(c.receiver("A"), m)
			c.inherit(c.receiver("B"), m)
		}, map[string]int64{"Base": 20}, 100},
		"one target, final in a class below": {func(c *countedCall) {
			c.declare(c.base, false)
			m := c.declare(c.receiver("A"), true)
			c.inherit(c.receiver("B"), m)
		}, map[string]int64{"A": 20}, 100},
		"one target, where the method that is named was not found": {func(c *countedCall) {
			m := &classes.Method{Class: c.base, Name: area.Name, Descriptor: area.Descriptor, Final: true}
			c.inherit(c.receiver("A"), m)
			c.inherit(c.receiver("B"), m)
		}, map[string]int64{"Base": 20}, 100},
	} {
		t.Run(name, func(t *testing.T) {
			call := newCountedCall()
			c.made(call)
			p := call.point(100)
			got := make(map[string]int64)
			for _, v := range p.Values {
				got[call.names.At(ccmap.MethodID(v.Value)).Receiver] += v.Count
			}
			if !maps.Equal(got, c.values) || p.Other != c.other {
				t.Errorf("%v and %d others, want %v and %d", got, p.Other, c.values, c.other)
			}
		})
	}
}
