package main

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// pathElem is one element of a path query: a method as the user names it and,
// where given, the line of its call to the next element.
type pathElem struct {
	name string // method name, unique suffix of one, or regular expression; never empty
	line int32  // file line of the call, from 1; 0: any
}

func (e pathElem) String() string {
	if e.line == 0 {
		return e.name
	}
	return fmt.Sprintf("%s:%d", e.name, e.line)
}

// pathSeparator stands between a caller and its callee. It is a word of its
// own, with white space on both sides, because names may contain the character:
// "<init>" of a JVM, "operator->" of C++.
const pathSeparator = ">"

// parsePath parses "A > B:12 > C": methods from the caller to the callee, each
// but the last with the line of its call if it matters. White space inside a
// name counts as one space.
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
	if last := path[len(path)-1]; last.line != 0 {
		return nil, fmt.Errorf("parse path %q: %q is the last element and calls nothing: a line is that of a call, as in 'A:%d > B'",
			s, last, last.line)
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

// parsePathElem splits a line off the end of an element. What follows the last
// colon is a line only if it is all digits: "type:.eq.main.T" is a name.
func parsePathElem(s string) (pathElem, error) {
	name, digits := s, ""
	if i := strings.LastIndexByte(s, ':'); i >= 0 && isDigits(s[i+1:]) {
		name, digits = s[:i], s[i+1:]
	}
	if name == "" {
		return pathElem{}, errors.New("no method name; write a path as 'A > B > C'")
	}
	if digits == "" {
		return pathElem{name: name}, nil
	}
	line, err := strconv.ParseInt(digits, 10, 32)
	if err != nil || line == 0 {
		return pathElem{}, fmt.Errorf("line %s is not from 1 to %d", digits, math.MaxInt32)
	}
	return pathElem{name: strings.TrimSpace(name), line: int32(line)}, nil
}

func isDigits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}
