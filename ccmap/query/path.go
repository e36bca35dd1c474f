package query

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/ccmapd/ccmapd/ccmap"
)

// Elem is one element of a path: a method, and the line or the offset of its call to
// the next element, if that is given.
type Elem struct {
	Name string // what a Finder takes; never empty
	Line int32  // file line of the call, from 1; 0: any

	AtOffset bool   // only the call at Offset counts
	Offset   uint32 // of the call in its method, see ccmap.Frame
}

// anywhere reports whether the call may be on any line.
func (e Elem) anywhere() bool { return e.Line == 0 && !e.AtOffset }

// String returns the element as [ParsePath] reads it: "A", "A:123" or "A:+60".
func (e Elem) String() string {
	switch {
	case e.AtOffset:
		return fmt.Sprintf("%s:%+d", e.Name, int32(e.Offset))
	case e.Line != 0:
		return fmt.Sprintf("%s:%d", e.Name, e.Line)
	}
	return e.Name
}

// Path is a chain of direct calls, from the caller to the callee.
type Path []Elem

// Separator stands between a caller and its callee, with white space on both sides:
// names may contain the character, as "<init>" of a JVM or "operator->" of C++ do.
const Separator = ">"

// String returns the path as [ParsePath] reads it.
func (p Path) String() string {
	elems := make([]string, len(p))
	for i, elem := range p {
		elems[i] = elem.String()
	}
	return strings.Join(elems, " "+Separator+" ")
}

// ParsePath reads "A > B:12 > C:+0x3c > D": methods from the caller to the callee, each
// but the last with the line or the offset of its call if that matters. White space
// inside a name counts as one space.
func ParsePath(s string) (Path, error) {
	words := splitPath(s)
	path := make(Path, len(words))
	for i, word := range words {
		elem, err := parseElem(word)
		if err != nil {
			return nil, fmt.Errorf("parse path %q: element %d: %w", s, i+1, err)
		}
		path[i] = elem
	}
	if last := path[len(path)-1]; !last.anywhere() {
		return nil, fmt.Errorf("parse path %q: %q is the last element and calls nothing: a line is that of a call, as in 'A%s > B'",
			s, last, strings.TrimPrefix(last.String(), last.Name))
	}
	return path, nil
}

// splitPath returns the texts between the separators: at least one.
func splitPath(s string) []string {
	var elems, elem []string
	for _, word := range strings.Fields(s) {
		if word != Separator {
			elem = append(elem, word)
			continue
		}
		elems = append(elems, strings.Join(elem, " "))
		elem = nil
	}
	return append(elems, strings.Join(elem, " "))
}

// parseElem splits a line or an offset off the end of an element. The text after the
// last colon is a line only if it is all digits, and an offset only if it is a number
// with a sign: "type:.eq.main.T" is a name.
func parseElem(s string) (Elem, error) {
	name, place := s, ""
	if i := strings.LastIndexByte(s, ':'); i >= 0 && (isDigits(s[i+1:]) || isOffset(s[i+1:])) {
		name, place = s[:i], s[i+1:]
	}
	if name == "" {
		return Elem{}, errors.New("no method name; write a path as 'A > B > C'")
	}
	elem := Elem{Name: name}
	if place == "" {
		return elem, nil
	}
	elem.Name = strings.TrimSpace(name)
	if isOffset(place) {
		return elem, elem.setOffset(place)
	}
	line, err := strconv.ParseInt(place, 10, 32)
	if err != nil || line == 0 {
		return Elem{}, fmt.Errorf("line %s is not from 1 to %d", place, math.MaxInt32)
	}
	elem.Line = int32(line)
	return elem, nil
}

// setOffset parses an offset: "+0x3c", "+60", and "-2" of lines.
func (e *Elem) setOffset(s string) error {
	n, err := strconv.ParseInt(s, 0, 64)
	if err != nil || n < math.MinInt32 || n > math.MaxUint32 || uint32(n) == ccmap.NoOffset {
		return fmt.Errorf("offset %s is not a number of 32 bits, as in 'A:+0x3c > B'", s)
	}
	e.AtOffset, e.Offset = true, uint32(n)
	return nil
}

// isOffset reports whether s is a sign and a number, decimal or hexadecimal.
func isOffset(s string) bool {
	if s == "" || s[0] != '+' && s[0] != '-' {
		return false
	}
	digits, isHex := strings.CutPrefix(s[1:], "0x")
	return isHex && digits != "" && strings.Trim(digits, "0123456789abcdefABCDEF") == "" || isDigits(s[1:])
}

func isDigits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}
