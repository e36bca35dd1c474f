package export

import (
	"bufio"
	"encoding/binary"
)

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
	e.putLength(field, len(data))
	e.w.Write(data)
}

func (e *pprofEncoder) putString(s string) {
	e.putLength(stringField, len(s))
	e.w.WriteString(s)
}

// putLength writes the head of a field.
func (e *pprofEncoder) putLength(field uint64, bytes int) {
	head := binary.AppendUvarint(e.w.AvailableBuffer(), field<<3|uint64(wireBytes))
	e.w.Write(binary.AppendUvarint(head, uint64(bytes)))
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

// fewestPacked is how many numbers a list has at least to be packed.
const fewestPacked = 3

// appendList appends a list of numbers.
func appendList[T uint64 | int64](e *pprofEncoder, to []byte, field uint64, list []T) []byte {
	if len(list) < fewestPacked {
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

// appendListOf appends a list whose numbers after the first are encoded.
func appendListOf(to []byte, field, first uint64, rest *frontList) []byte {
	if rest.count+1 >= fewestPacked {
		var number [binary.MaxVarintLen64]byte
		n := binary.PutUvarint(number[:], first)
		to = binary.AppendUvarint(to, field<<3|uint64(wireBytes))
		to = binary.AppendUvarint(to, uint64(n+rest.bytes))
		return append(append(to, number[:n]...), rest.list()...)
	}
	to = appendNumber(to, field, first)
	if rest.count == 1 {
		to = append(binary.AppendUvarint(to, field<<3), rest.list()...)
	}
	return to
}

// label is a label of a sample.
type label struct{ key, text string }

// putSample writes a sample: ids of its location and of the callers, and labels by key.
func (e *pprofEncoder) putSample(top uint64, callers *frontList, values []int64, labels []label) {
	const location, value, labelled = 1, 2, 3
	e.record = appendListOf(e.record[:0], location, top, callers)
	e.record = appendList(e, e.record, value, values)
	for _, l := range labels {
		e.part = appendNumbers(e.part[:0], e.number(l.key), e.number(l.text))
		e.record = appendBytes(e.record, labelled, e.part)
	}
	e.put(sampleField, e.record)
}

func (e *pprofEncoder) putType(field uint64, t valueType) {
	e.put(field, e.appendType(e.record[:0], t))
}

func (e *pprofEncoder) appendType(to []byte, t valueType) []byte {
	return appendNumbers(to, e.number(t.kind), e.number(t.unit))
}

// putMapping writes a mapping. It claims to be symbolized, so that no tool looks for the
// binary to do it again.
func (e *pprofEncoder) putMapping(id uint64, m *pprofMapping) {
	const hasAll = 1 // functions, filenames, line numbers, inline frames
	e.put(mappingField, appendNumbers(e.record[:0],
		id, m.start, m.limit, m.offset, e.number(m.file), e.number(m.buildID), hasAll, hasAll, hasAll, hasAll))
}

// appendLocation appends a location. The id of a function is its index plus 1.
func (e *pprofEncoder) appendLocation(to []byte, id, mapping, address uint64, lines []pprofLine) []byte {
	const line = 4
	e.record = appendNumbers(e.record[:0], id, mapping, address)
	for _, at := range lines {
		e.part = appendNumbers(e.part[:0], uint64(at.function)+1, uint64(at.line))
		e.record = appendBytes(e.record, line, e.part)
	}
	return appendBytes(to, locationField, e.record)
}

func (e *pprofEncoder) putFunction(id uint64, f pprofFunction) {
	e.put(functionField, appendNumbers(e.record[:0],
		id, e.number(f.name), e.number(f.systemName), e.number(f.filename), uint64(f.startLine)))
}

// pprofDescription are the fields of a profile that are there once.
type pprofDescription struct {
	start, duration, period int64 // ns; 0: unknown
	periodType              valueType
	comments                []string
	defaultType             string
}

// putDescription writes the strings of all records, which come before it, and the
// description.
func (e *pprofEncoder) putDescription(d *pprofDescription) {
	period := e.appendType(nil, d.periodType)
	comments := make([]uint64, len(d.comments))
	for i, c := range d.comments {
		comments[i] = e.number(c)
	}
	byDefault := e.number(d.defaultType)
	for _, s := range e.strings {
		e.putString(s)
	}
	e.w.Write(appendNumbers(nil, 0, 0, 0, 0, 0, 0, 0, 0, uint64(d.start), uint64(d.duration)))
	e.put(periodTypeField, period)
	if d.period != 0 {
		e.putNumber(periodField, uint64(d.period))
	}
	e.w.Write(appendList(e, nil, commentField, comments))
	e.putNumber(defaultTypeField, byDefault)
}
