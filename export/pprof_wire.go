package export

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/google/pprof/profile"
)

// The wire format of Protocol Buffers (protobuf.dev/programming-guides/encoding)
// as far as profile.proto needs it: no groups.

// message is what is left of a message.
type message []byte

// wireType says how the value of a field is written.
type wireType uint8

const (
	wireVarint  wireType = 0
	wireFixed64 wireType = 1
	wireBytes   wireType = 2 // messages, strings, packed lists
	wireFixed32 wireType = 5
)

// field is one field of a message.
type field struct {
	number uint64
	wire   wireType
	value  uint64  // of a varint; others of ours are no numbers
	data   message // of wireBytes: the value; of a varint: its bytes
}

var (
	errCut      = errors.New("it ends within a field")
	errVarint   = errors.New("a number of more than ten bytes, or cut")
	errWireType = errors.New("a field of another type than its own")
)

// next takes the next field from the message, which is not empty.
func (m *message) next(f *field) error {
	key, size := varint(*m)
	if size == 0 {
		return errVarint
	}
	rest := (*m)[size:]
	*f = field{number: key >> 3, wire: wireType(key & 7)}
	switch f.wire {
	case wireVarint:
		if f.value, size = varint(rest); size == 0 {
			return errVarint
		}
	case wireBytes:
		length, n := varint(rest)
		if n == 0 {
			return errVarint
		}
		if rest = rest[n:]; length > uint64(len(rest)) {
			return errCut
		}
		size = int(length)
	case wireFixed64:
		size = 8
	case wireFixed32:
		size = 4
	default:
		return fmt.Errorf("unknown wire type %d", f.wire)
	}
	if size > len(rest) {
		return errCut
	}
	f.data, *m = rest[:size], rest[size:]
	return nil
}

// varint decodes the number at the beginning of b; size is 0 if there is no number.
// Bits of a tenth byte beyond 64 are dropped, as all decoders do.
func varint(b []byte) (v uint64, size int) {
	switch { // most have one byte or two
	case len(b) > 0 && b[0] < 0x80:
		return uint64(b[0]), 1
	case len(b) > 1 && b[1] < 0x80:
		return uint64(b[0]&0x7f) | uint64(b[1])<<7, 2
	}
	return longVarint(b)
}

func longVarint(b []byte) (v uint64, size int) {
	for i := range min(len(b), binary.MaxVarintLen64) {
		v |= uint64(b[i]&0x7f) << (7 * i)
		if b[i] < 0x80 {
			return v, i + 1
		}
	}
	return 0, 0
}

// numbers reads a message whose known fields are single numbers, into values by their
// field number. The last of a field that stands twice counts.
func (m message) numbers(values []uint64) error {
	var f field
	for len(m) > 0 {
		if err := m.next(&f); err != nil {
			return err
		}
		if f.number >= uint64(len(values)) || f.number == 0 {
			continue
		}
		if f.wire != wireVarint {
			return errWireType
		}
		values[f.number] = f.value
	}
	return nil
}

// eachNumber calls yield with the elements of a list of numbers, packed or one.
func (f *field) eachNumber(yield func(uint64)) error {
	switch f.wire {
	case wireVarint:
		yield(f.value)
		return nil
	case wireBytes:
		for list := f.data; len(list) > 0; {
			v, size := varint(list)
			if size == 0 {
				return errVarint
			}
			yield(v)
			list = list[size:]
		}
		return nil
	}
	return errWireType
}

// pprofEncoder writes a profile.proto record by record, with the bytes that google/pprof
// would write. That package holds a profile as a whole, which for the stacks of a deep
// recursion is gigabytes.
type pprofEncoder struct {
	w       *bufio.Writer
	numbers map[string]uint64 // of strings
	strings []string          // by their number
	record  []byte            // that is put together
	part    []byte            // of it: a list, or a message
}

func newPprofEncoder(w *bufio.Writer) *pprofEncoder {
	return &pprofEncoder{w: w, numbers: map[string]uint64{"": 0}, strings: []string{""}}
}

// number returns the number of a string.
func (e *pprofEncoder) number(s string) uint64 {
	n, known := e.numbers[s]
	if !known {
		n = uint64(len(e.strings))
		e.numbers[s], e.strings = n, append(e.strings, s)
	}
	return n
}

// put writes a field of the profile.
func (e *pprofEncoder) put(field uint64, data []byte) {
	head := binary.AppendUvarint(e.w.AvailableBuffer(), field<<3|uint64(wireBytes))
	e.w.Write(binary.AppendUvarint(head, uint64(len(data))))
	e.w.Write(data)
}

// putNumber writes a field of the profile that is a number.
func (e *pprofEncoder) putNumber(field, value uint64) {
	e.w.Write(appendNumber(e.w.AvailableBuffer(), field, value))
}

func appendNumber(to []byte, field, value uint64) []byte {
	return binary.AppendUvarint(binary.AppendUvarint(to, field<<3), value)
}

// appendNumbers appends the fields from 1 on that are not 0.
func appendNumbers(to []byte, values ...uint64) []byte {
	for i, v := range values {
		if v != 0 {
			to = appendNumber(to, uint64(i+1), v)
		}
	}
	return to
}

func appendBytes(to []byte, field uint64, data []byte) []byte {
	to = binary.AppendUvarint(to, field<<3|uint64(wireBytes))
	return append(binary.AppendUvarint(to, uint64(len(data))), data...)
}

// appendList appends a list of numbers, packed if it has more than two.
func appendList[T uint64 | int64](e *pprofEncoder, to []byte, field uint64, list []T) []byte {
	const fewest = 3 // to be packed
	if len(list) < fewest {
		for _, v := range list {
			to = appendNumber(to, field, uint64(v))
		}
		return to
	}
	e.part = e.part[:0]
	for _, v := range list {
		e.part = binary.AppendUvarint(e.part, uint64(v))
	}
	return appendBytes(to, field, e.part)
}

// label is a label of a sample.
type label struct{ key, text string }

// putSample writes a sample: ids of its locations, innermost first, and labels by key.
func (e *pprofEncoder) putSample(locations []uint64, values []int64, labels []label) {
	const location, value, labelled = 1, 2, 3
	e.record = appendList(e, e.record[:0], location, locations)
	e.record = appendList(e, e.record, value, values)
	for _, l := range labels {
		e.part = appendNumbers(e.part[:0], e.number(l.key), e.number(l.text))
		e.record = appendBytes(e.record, labelled, e.part)
	}
	e.put(sampleField, e.record)
}

func (e *pprofEncoder) putType(field uint64, t *profile.ValueType) {
	e.put(field, appendNumbers(e.record[:0], e.number(t.Type), e.number(t.Unit)))
}

// putTables writes all but the sample types and samples, which come before.
func (e *pprofEncoder) putTables(p *profile.Profile) {
	for _, m := range p.Mapping {
		e.put(mappingField, appendNumbers(e.record[:0], m.ID, m.Start, m.Limit, m.Offset, e.number(m.File), e.number(m.BuildID),
			boolNumber(m.HasFunctions), boolNumber(m.HasFilenames), boolNumber(m.HasLineNumbers), boolNumber(m.HasInlineFrames)))
	}
	for _, l := range p.Location {
		e.putLocation(l)
	}
	for _, f := range p.Function {
		e.put(functionField, appendNumbers(e.record[:0],
			f.ID, e.number(f.Name), e.number(f.SystemName), e.number(f.Filename), uint64(f.StartLine)))
	}
	period := appendNumbers(nil, e.number(p.PeriodType.Type), e.number(p.PeriodType.Unit))
	comments := make([]uint64, len(p.Comments))
	for i, c := range p.Comments {
		comments[i] = e.number(c)
	}
	byDefault := e.number(p.DefaultSampleType)
	for _, s := range e.strings {
		e.put(stringField, []byte(s))
	}
	e.w.Write(appendNumbers(nil, 0, 0, 0, 0, 0, 0, 0, 0, uint64(p.TimeNanos), uint64(p.DurationNanos)))
	e.put(periodTypeField, period)
	if p.Period != 0 {
		e.putNumber(periodField, uint64(p.Period))
	}
	e.w.Write(appendList(e, nil, commentField, comments))
	e.putNumber(defaultTypeField, byDefault)
}

func (e *pprofEncoder) putLocation(l *profile.Location) {
	const line = 4
	mapping := uint64(0)
	if l.Mapping != nil {
		mapping = l.Mapping.ID
	}
	e.record = appendNumbers(e.record[:0], l.ID, mapping, l.Address)
	for _, at := range l.Line {
		e.part = appendNumbers(e.part[:0], at.Function.ID, uint64(at.Line))
		e.record = appendBytes(e.record, line, e.part)
	}
	e.put(locationField, e.record)
}

// boolNumber returns a boolean as messages hold it.
func boolNumber(set bool) uint64 {
	if set {
		return 1
	}
	return 0
}
