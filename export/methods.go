package export

import (
	"bytes"
	"encoding/json"
	"math"
	"unicode/utf8"
)

// methodCodec is the codec of methods. A document has thousands of them, so it reads those in our form itself.
type methodCodec struct{ fields[methodDoc] }

func (methodCodec) blank() (d methodDoc) { return d }

func (methodCodec) scan(b []byte, n *notation, d *methodDoc) (size int) {
	if n.number != inJSON {
		return 0
	}
	s := textScanner{rest: b}
	name, _ := s.text(`"name":`)
	d.Name = text(name)
	if size = s.scanMore(b, d); size > 0 {
		return size
	}
	*d = methodDoc{}
	return unmarshalLine(b, d)
}

// scanMore reads the rest of a method, which has a name at least, and returns the length of all.
func (s *textScanner) scanMore(b []byte, d *methodDoc) (size int) {
	if len(s.rest) == len(b) {
		return 0
	}
	for _, f := range []struct {
		lead string
		to   *text
	}{{`,"signature":`, &d.Signature}, {`,"receiver":`, &d.Receiver}, {`,"file":`, &d.File}} {
		value, _ := s.text(f.lead)
		*f.to = text(value)
	}
	d.StartLine = s.number(`,"start_line":`)
	module, _ := s.text(`,"module":`)
	d.Module = text(module)
	d.Coordinate, _ = s.text(`,"coordinate":`)
	if value, found := s.text(`,"body":`); found && d.Body.UnmarshalText([]byte(value)) != nil {
		return 0
	}
	if s.isOther || !hasPrefix(s.rest, "}") {
		return 0
	}
	return len(b) - len(s.rest) + 1
}

// textScanner reads members of an object of JSON, in an order.
type textScanner struct {
	rest    []byte
	isOther bool // a value was not in the form that it reads
}

// text reads the string after a lead, if the object has it. It reads no escapes.
func (s *textScanner) text(lead string) (value string, found bool) {
	if !hasPrefix(s.rest, lead) {
		return "", false
	}
	quoted := s.rest[len(lead):]
	size := plainString(quoted)
	if size == 0 {
		s.isOther = true
		return "", false
	}
	s.rest = quoted[size:]
	return string(quoted[1 : size-1]), true
}

// plainString returns the length of the string that b begins with: 0 without a string, or if it has escapes, control
// characters or bytes that are not UTF-8.
func plainString(b []byte) int {
	if len(b) == 0 || b[0] != '"' {
		return 0
	}
	isASCII := true
	for i, c := range b[1:] {
		switch {
		case c == '"' && (isASCII || utf8.Valid(b[1:i+1])):
			return i + 2
		case c < ' ' || c == '\\' || c == '"':
			return 0
		case c >= utf8.RuneSelf:
			isASCII = false
		}
	}
	return 0
}

// number reads the number after a lead, 0 if the object has none.
func (s *textScanner) number(lead string) int32 {
	if !hasPrefix(s.rest, lead) {
		return 0
	}
	v, size := scanNumber(s.rest[len(lead):])
	if size == 0 || v < math.MinInt32 || v > math.MaxInt32 {
		s.isOther = true
		return 0
	}
	s.rest = s.rest[len(lead)+size:]
	return int32(v)
}

// unmarshalLine reads a record that has the rest of a line for itself, after its brace: 0 if it is not valid.
func unmarshalLine(b []byte, d any) (size int) {
	size = bytes.IndexByte(b, '\n')
	if size < 0 {
		return 0
	}
	if size > 0 && b[size-1] == ',' {
		size--
	}
	if json.Unmarshal(append([]byte{'{'}, b[:size]...), d) != nil {
		return 0
	}
	return size
}
