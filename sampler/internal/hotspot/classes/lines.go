package classes

import "sort"

// Line is where a source line begins in the bytecode.
type Line struct {
	Index  uint16 // of a bytecode: its distance from the begin
	Number uint16 // of the line, from 1
}

// numbers reads the compressed numbers of JVM metadata (UNSIGNED5): a number is one to
// five bytes, and a byte below 192 ends it. Its digits are those of base 64.
type numbers struct {
	data     []byte
	offset   byte // each byte is that much more than its digit: 0 until JDK 19, then 1
	overrun  bool // the data ended in a number, or a number has no encoding
	position int
}

// next returns the next number, 0 after an overrun.
func (n *numbers) next() uint32 {
	const more = 192 // such a byte, or a larger one, does not end a number
	sum := uint32(0)
	for i := range 5 {
		if n.position >= len(n.data) || n.data[n.position] < n.offset {
			n.overrun = true
			return 0
		}
		b := n.data[n.position]
		n.position++
		sum += uint32(b-n.offset) << (6 * i)
		if b < more {
			break
		}
	}
	return sum
}

// signed returns the next signed number, whose sign is its lowest bit.
func (n *numbers) signed() int32 {
	v := n.next()
	return int32(v>>1) ^ -int32(v&1)
}

// decodeLines returns the lines of a compressed table, by index. A byte of 0 ends the
// table, and 255 says that two signed numbers follow. Every other byte has the distance
// from the last index in its upper 5 bits, and that from the last line in its lower 3.
// A table that is not one gives the lines up to its first error.
func decodeLines(table []byte, codeSize int, offset byte) []Line {
	const end, escape = 0, 255
	var lines []Line
	index, number := 0, 0
	n := numbers{data: table, offset: offset}
	for n.position < len(table) && table[n.position] != end {
		b := table[n.position]
		n.position++
		if b == escape {
			index += int(n.signed())
			number += int(n.signed())
		} else {
			index += int(b >> 3)
			number += int(b & 7)
		}
		if n.overrun || index < 0 || index >= codeSize || number < 0 || number > 0xffff {
			break
		}
		lines = append(lines, Line{uint16(index), uint16(number)})
	}
	sort.SliceStable(lines, func(i, j int) bool { return lines[i].Index < lines[j].Index })
	return lines
}

// Line returns the source line of a bytecode, 0 if it is unknown.
func (m *Method) Line(index int) int {
	after := sort.Search(len(m.Lines), func(i int) bool { return int(m.Lines[i].Index) > index })
	if after == 0 {
		return 0
	}
	return int(m.Lines[after-1].Number)
}
