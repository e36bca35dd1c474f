package hotspot

import (
	"encoding/binary"
	"fmt"

	"github.com/ccmapd/ccmapd/sampler/internal/hotspot/classes"
	"github.com/ccmapd/ccmapd/sampler/internal/hotspot/vmstructs"
)

// object is a copy of an object's first bytes. What it does not have is 0.
type object []byte

func (o object) number(at uint64) int32 {
	if at > uint64(len(o)) || uint64(len(o))-at < 4 {
		return 0
	}
	return int32(binary.LittleEndian.Uint32(o[at:]))
}

func (o object) word(at uint64) uint64 {
	if at > uint64(len(o)) || uint64(len(o))-at < 8 {
		return 0
	}
	return binary.LittleEndian.Uint64(o[at:])
}

func (o object) octet(at uint64) uint8 { return uint8(o.word(at&^7) >> (8 * (at & 7))) }

// copies returns the first bytes of objects, until it or pieces is called; none of one that cannot be read.
func (h *heap) copies(objects []uint64, size uint64) []object {
	return h.near.read(h.memory, objects, func(int) int { return int(size) })
}

// pieces returns pieces of the heap, as copies does.
func (h *heap) pieces(addrs []uint64, sizes []int) []object {
	return h.near.read(h.memory, addrs, func(i int) int { return sizes[i] })
}

// ref returns the object that a field of an object points to.
func (h *heap) ref(o object, at uint64) uint64 { return h.l.oop.address(o.word(at&^7), at) }

// classOf returns the class of an object.
func (h *heap) classOf(o object) uint64 { return h.l.klass.address(o.word(h.l.class&^7), h.l.class) }

// arrayLayout is where an array has its length, and its first element.
type arrayLayout struct{ length, data uint64 }

// newArrayLayout tells where arrays of objects have what: their length follows the class, and elements begin as soon
// as they are aligned (arrayOop.hpp of JDK 23 and later).
func newArrayLayout(l *heapLayout) arrayLayout {
	a := arrayLayout{length: l.class + 8}
	if l.klass.bits == 32 {
		a.length = l.class + 4
	}
	a.data = a.length + 4
	if size := l.oopSize(); size == 8 {
		a.data = (a.data + 7) &^ 7
	}
	return a
}

// oopSize is how many bytes a pointer to an object has.
func (l *heapLayout) oopSize() uint64 {
	if l.oop.bits == 64 {
		return 8
	}
	return 4
}

// classList are classes of the JDK, by name, and notes the first field that is missing.
type classList struct {
	table *classes.Table
	named map[string]*classes.Class
	err   error
}

// find finds those of the JDK's classes that are loaded.
func (c *classList) find(names ...string) error {
	c.named = make(map[string]*classes.Class, len(names))
	for _, name := range names {
		c.named[name] = nil
	}
	left := len(names)
	return c.table.Walk(func(of *classes.Class) bool {
		if was, wanted := c.named[of.Name]; wanted && was == nil && of.Loader == "" {
			c.named[of.Name] = of
			left--
		}
		return left > 0
	})
}

// has reports whether a class is loaded.
func (c *classList) has(class string) bool { return c.named[class] != nil }

// lookUp looks something up in a class; 0 where it is missing.
func lookUp[T any](c *classList, class string, look func(*classes.Class) (T, error)) (found T) {
	of, err := c.named[class], error(nil)
	if of == nil {
		err = fmt.Errorf("find the class %s: %w", class, vmstructs.ErrUnsupported)
	} else {
		found, err = look(of)
	}
	if err != nil && c.err == nil {
		c.err = err
	}
	return found
}

// field returns where objects of a class have a field.
func (c *classList) field(class, name, descriptor string) uint64 {
	return lookUp(c, class, func(of *classes.Class) (uint64, error) { return c.table.Field(of, name, descriptor) })
}

// added returns where objects of a class have a field that the JVM has added.
func (c *classList) added(class, name, descriptor string) uint64 {
	return lookUp(c, class, func(of *classes.Class) (uint64, error) { return c.table.Added(of, name, descriptor) })
}

// static returns a static field of a class.
func (c *classList) static(class, name, descriptor string) staticField {
	return lookUp(c, class, func(of *classes.Class) (staticField, error) {
		at, err := c.table.Static(of, name, descriptor)
		return staticField{of.Address, at}, err
	})
}

// constant returns the value of a constant.
func (c *classList) constant(class, name string) int32 {
	return lookUp(c, class, func(of *classes.Class) (int32, error) { return c.table.Constant(of, name) })
}

// staticField is a static field: its class, and where the class's java.lang.Class has it.
type staticField struct{ class, at uint64 }
