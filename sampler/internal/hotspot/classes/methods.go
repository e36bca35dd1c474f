package classes

import "github.com/ccmapd/ccmapd/sampler/internal/hotspot/vmstructs"

// Header is what the JVM knows of a method at one moment: words that change while it
// runs.
type Header struct {
	Method uint64 // address of the Method
	Data   uint64 // of its MethodData; 0: the method was never warm
	Code   uint64 // of its compiled code, an nmethod; 0: none
}

// Headers appends the methods that a class declares to list.
func (t *Table) Headers(list []Header, c *Class) []Header {
	addrs := t.pointers(c.sameAs.methods)
	raws := t.readAll(addrs, t.l.methodSize)
	for i, raw := range raws {
		if raw != nil {
			list = append(list, Header{addrs[i], u64(raw, t.l.methodData), u64(raw, t.l.methodCode)})
		}
	}
	return list
}

// Recheck reads the words of methods again, with few calls: as they are now, in a load too. A
// method that cannot be read any more has none.
func (t *Table) Recheck(list []Header) {
	addrs := make([]uint64, len(list))
	for i := range list {
		addrs[i] = list[i].Method
	}
	for i, raw := range readAll(t.vm.Memory, addrs, t.l.methodSize) {
		list[i].Data, list[i].Code = u64(raw, t.l.methodData), u64(raw, t.l.methodCode)
	}
}

// pointers returns an array of pointers, without those that cannot be one.
func (t *Table) pointers(array uint64) []uint64 {
	length, err := t.word(array + t.l.arrayLength)
	if err != nil || uint32(length) == 0 || uint32(length) > maxMethods {
		return nil
	}
	raw := make([]byte, 8*uint64(uint32(length)))
	if t.read(array+t.l.arrayData, raw) != nil {
		return nil
	}
	all := make([]uint64, 0, uint32(length))
	for at := uint64(0); at < uint64(len(raw)); at += 8 {
		if p := u64(raw, at); Plausible(p) {
			all = append(all, p)
		}
	}
	return all
}

// readAll reads a structure at each of the addresses, nil where it cannot.
func (t *Table) readAll(addrs []uint64, size uint64) [][]byte {
	return readAll(t.memory(), addrs, size)
}

func readAll(mem vmstructs.Memory, addrs []uint64, size uint64) [][]byte {
	raws := make([][]byte, len(addrs))
	memory := make([]byte, uint64(len(addrs))*size)
	for i := range raws {
		raws[i], memory = memory[:size:size], memory[size:]
	}
	ReadMany(mem, addrs, raws)
	return raws
}

// methodTable returns the methods of an array by their names and descriptors.
func (t *Table) methodTable(array uint64) methodTable {
	if !Plausible(array) {
		return nil
	}
	methods := t.pointers(array)
	table := make(methodTable, len(methods))
	constants := make([]uint64, 0, len(methods))
	owners := make([]uint64, 0, len(methods))
	for i, raw := range t.readAll(methods, t.l.methodSize) {
		if c := u64(raw, t.l.methodConst); Plausible(c) {
			constants, owners = append(constants, c), append(owners, methods[i])
		}
	}
	var slots, of []uint64
	for i, raw := range t.readAll(constants, t.l.constHeader) {
		if pool := u64(raw, t.l.constPool); Plausible(pool) {
			first := pool + t.l.poolHeader
			slots = append(slots, first+8*uint64(u16(raw, t.l.constName)), first+8*uint64(u16(raw, t.l.constSignature)))
			of = append(of, owners[i])
		}
	}
	symbols := t.readAll(slots, 8)
	for i, method := range of {
		table[methodKey{u64(symbols[2*i], 0), u64(symbols[2*i+1], 0)}] = method
	}
	return table
}

// Code returns the bytecode of a method, as the JVM has changed it; nil if it cannot be
// read.
func (t *Table) Code(m *Method) []byte {
	code := make([]byte, m.CodeSize)
	if m.CodeSize == 0 || t.memory().Read(m.CodeBegin, code) != nil {
		return nil
	}
	return code
}
