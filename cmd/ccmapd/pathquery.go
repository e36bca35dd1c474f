package main

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/ccmapd/ccmapd/ccmap"
)

// pathElem is one element of a path query: a method as the user names it and,
// where given, the line or the offset of its call to the next element.
type pathElem struct {
	name string // method name, unique suffix of one, or regular expression; never empty
	line int32  // file line of the call, from 1; 0: any

	atOffset bool
	offset   uint32 // of the call, if atOffset
}

// anywhere reports whether the call may be on any line.
func (e pathElem) anywhere() bool { return e.line == 0 && !e.atOffset }

func (e pathElem) String() string {
	switch {
	case e.atOffset:
		return fmt.Sprintf("%s:%+d", e.name, int32(e.offset))
	case e.line != 0:
		return fmt.Sprintf("%s:%d", e.name, e.line)
	}
	return e.name
}

// pathSeparator stands between a caller and its callee. It is a word of its
// own, with white space on both sides, because names may contain the character:
// "<init>" of a JVM, "operator->" of C++.
const pathSeparator = ">"

// parsePath parses "A > B:12 > C:+0x3c > D": methods from the caller to the callee,
// each but the last with the line or the offset of its call if it matters. White space
// inside a name counts as one space.
func parsePath(s string) ([]pathElem, error) {
	words := splitPath(s)
	path := make([]pathElem, len(words))
	for i, word := range words {
		elem, err := parsePathElem(word)
		if err != nil {
			return nil, fmt.Errorf("parse path %q: element %d: %w", s, i+1, err)
		}
		path[i] = elem
	}
	if last := path[len(path)-1]; !last.anywhere() {
		return nil, fmt.Errorf("parse path %q: %q is the last element and calls nothing: a line is that of a call, as in 'A%s > B'",
			s, last, strings.TrimPrefix(last.String(), last.name))
	}
	return path, nil
}

// splitPath returns the text between the separators, at least one element.
func splitPath(s string) []string {
	var elems, elem []string
	for _, word := range strings.Fields(s) {
		if word != pathSeparator {
			elem = append(elem, word)
			continue
		}
		elems = append(elems, strings.Join(elem, " "))
		elem = nil
	}
	return append(elems, strings.Join(elem, " "))
}

// parsePathElem splits a line or an offset off the end of an element. What follows
// the last colon is a line only if it is all digits, and an offset only if it is a
// number with a sign: "type:.eq.main.T" is a name.
func parsePathElem(s string) (pathElem, error) {
	name, place := s, ""
	if i := strings.LastIndexByte(s, ':'); i >= 0 && (isDigits(s[i+1:]) || isOffset(s[i+1:])) {
		name, place = s[:i], s[i+1:]
	}
	if name == "" {
		return pathElem{}, errors.New("no method name; write a path as 'A > B > C'")
	}
	elem := pathElem{name: name}
	if place == "" {
		return elem, nil
	}
	elem.name = strings.TrimSpace(name)
	if isOffset(place) {
		return elem, elem.setOffset(place)
	}
	line, err := strconv.ParseInt(place, 10, 32)
	if err != nil || line == 0 {
		return pathElem{}, fmt.Errorf("line %s is not from 1 to %d", place, math.MaxInt32)
	}
	elem.line = int32(line)
	return elem, nil
}

// setOffset parses an offset: "+0x3c", "+60", and "-2" of lines.
func (e *pathElem) setOffset(s string) error {
	n, err := strconv.ParseInt(s, 0, 64)
	if err != nil || n < math.MinInt32 || n > math.MaxUint32 || uint32(n) == ccmap.NoOffset {
		return fmt.Errorf("offset %s is none of 32 bits, as in 'A:+0x3c > B'", s)
	}
	e.atOffset, e.offset = true, uint32(n)
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
