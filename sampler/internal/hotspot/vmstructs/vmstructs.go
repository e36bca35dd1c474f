// Package vmstructs reads the tables in which HotSpot describes itself: types with their
// sizes, fields with their offsets or addresses, constants, flags. Debuggers use these
// tables (the Serviceability Agent); a stock JVM has them, and nothing has to be loaded
// into it.
//
// [Open] goes through these steps:
//
//  1. The memory map tells where libjvm.so is. Its ELF header, dynamic symbols and notes
//     are read from memory, as the dynamic linker sees them. No file is opened, so the
//     library may have been replaced, deleted, or be in another mount namespace.
//  2. The symbols gHotSpotVM… hold the addresses of the tables, and the layout of their
//     entries.
//  3. The tables are read whole, then all their strings at once.
//
// All of it is foreign: one budget bounds what is read and kept, and a table that makes no
// sense is an error. Nothing here trusts an offset beyond its table: readers of the
// memory behind must expect any word.
//
// A [VM] does not change after Open and may be used by any goroutine, if its [Memory] may.
//
// Facts about the tables: vmStructs.hpp and vmStructs.cpp of JDK 17 and 25.
package vmstructs

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Memory reads the target's memory while the target runs. The bytes may be torn.
type Memory interface {
	// Read fills buf from addr, or fails.
	Read(addr uint64, buf []byte) error

	// ReadMany fills bufs[i] from addrs[i], in order. It returns how many it has filled
	// before the first that it could not fill.
	ReadMany(addrs []uint64, bufs [][]byte) (int, error)
}

// Errors of Open, for errors.Is.
var (
	ErrNotHotSpot  = errors.New("not a HotSpot JVM")
	ErrUnsupported = errors.New("unsupported JVM")
	ErrTooMuch     = errors.New("the JVM's tables take more than they may")
)

// VM is what the JVM's tables say.
type VM struct {
	Memory Memory

	BuildID string // of libjvm.so, in hex; "" where it has none
	Version string // such as "17.0.15+6-Debian-1deb12u1": a foreign text
	Info    string // one line about the JVM, such as "OpenJDK 64-Bit Server VM (…": foreign

	Low, High uint64 // libjvm.so and its variables are at [Low, High)

	fields map[string]field // by "Type._field"
	types  map[string]typ
	consts map[string]int64
	flags  map[string]flag
}

type field struct {
	typ    string // of C++
	static bool
	at     uint64 // offset in bytes, or address of a static field
}

type typ struct {
	super string // "" where it has none
	size  uint64 // bytes; 0: not exported
}

// Offset returns the offset of a field, such as "Method._constMethod", in bytes from the
// object's beginning.
func (v *VM) Offset(name string) (uint64, bool) {
	f, ok := v.fields[name]
	return f.at, ok && !f.static
}

// Static returns the address of a static field, such as "CodeCache._heaps".
func (v *VM) Static(name string) (uint64, bool) {
	f, ok := v.fields[name]
	return f.at, ok && f.static
}

// FieldType returns the type of a field as C++ writes it.
func (v *VM) FieldType(name string) (string, bool) {
	f, ok := v.fields[name]
	return f.typ, ok
}

// Size returns the size of a type, in bytes.
func (v *VM) Size(name string) (uint64, bool) {
	t, ok := v.types[name]
	return t.size, ok && t.size > 0
}

// Super returns the superclass of a type; "" where it has none.
func (v *VM) Super(name string) string { return v.types[name].super }

// Const returns an int or long constant, such as "DataLayout::bit_data_tag".
func (v *VM) Const(name string) (int64, bool) {
	c, ok := v.consts[name]
	return c, ok
}

// Word reads a word of memory.
func (v *VM) Word(addr uint64) (uint64, error) {
	var b [8]byte
	err := v.Memory.Read(addr, b[:])
	return binary.LittleEndian.Uint64(b[:]), err
}

// A Query looks up many names, and notes the first that is missing: fields of a JVM that
// must all be there. The zero Query is not usable.
type Query struct {
	vm  *VM
	err error
}

// Query begins to look up names.
func (v *VM) Query() *Query { return &Query{vm: v} }

// Err says which of the names was missing, if any.
func (q *Query) Err() error { return q.err }

// Offset returns the offset of the first field that exists among names: the same one under
// the names of several releases.
func (q *Query) Offset(names ...string) uint64 { return first(q, "field", q.vm.Offset, names) }

// Static returns the address of the first static field that exists among names.
func (q *Query) Static(names ...string) uint64 { return first(q, "static field", q.vm.Static, names) }

// Size returns the size of the first type that exists among names.
func (q *Query) Size(names ...string) uint64 { return first(q, "size of type", q.vm.Size, names) }

// Const returns the first constant that exists among names.
func (q *Query) Const(names ...string) int64 { return first(q, "constant", q.vm.Const, names) }

func first[T any](q *Query, kind string, look func(string) (T, bool), names []string) T {
	for _, name := range names {
		if v, ok := look(name); ok {
			return v
		}
	}
	if q.err == nil {
		q.err = fmt.Errorf("find %s %s in the JVM's tables: %w", kind, names[0], ErrUnsupported)
	}
	var none T
	return none
}

// Open reads the tables of a JVM. maps is the content of its /proc/PID/maps. Errors wrap
// ErrNotHotSpot, ErrUnsupported and ErrTooMuch, or come from mem.
func Open(ctx context.Context, mem Memory, maps io.Reader) (*VM, error) {
	l := &load{budget: newBudget(ctx), mem: mem}
	lib, err := findLibrary(l.budget, maps)
	if err != nil {
		return nil, fmt.Errorf("find libjvm.so: %w", err)
	}
	v := &VM{Memory: mem, Low: lib.low}
	im, err := l.readImage(lib)
	if err != nil {
		return nil, fmt.Errorf("read libjvm.so: %w", err)
	}
	v.BuildID, v.High = im.buildID, im.end
	if err := l.readTables(v, im); err != nil {
		return nil, fmt.Errorf("read the JVM's tables: %w", err)
	}
	if err := l.readFlags(v); err != nil {
		return nil, fmt.Errorf("read the JVM's flags: %w", err)
	}
	l.readVersion(v)
	return v, nil
}
