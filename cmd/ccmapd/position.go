package main

import (
	"strconv"
	"strings"

	"github.com/ccmapd/ccmapd/ccmap"
)

// formatLocation prints where a position is in the source: "fib.c:12", or, where file
// or line are unknown, how far behind the beginning of the method: "fib.c+0x3c", "+3".
// Of an unknown position it is the file alone.
func formatLocation(names *ccmap.Names, f ccmap.Frame) string {
	m, line := names.At(f.Method), names.Line(f)
	if m.File != "" && line != 0 {
		return m.File + ":" + strconv.Itoa(int(line))
	}
	return m.File + m.Coordinate.Format(f.Offset)
}

// formatDeclaration prints where a method is declared: "" where the file is unknown,
// the file alone where the line is.
func formatDeclaration(m ccmap.Method) string {
	if m.File == "" || m.StartLine == 0 {
		return m.File
	}
	return m.File + ":" + strconv.Itoa(int(m.StartLine))
}

// formatCall prints the position of a call behind the name of its method: ":12" where
// the line is known, else its offset.
func formatCall(names *ccmap.Names, f ccmap.Frame) string {
	if line := names.Line(f); line != 0 {
		return ":" + strconv.Itoa(int(line))
	}
	return names.At(f.Method).Coordinate.Format(f.Offset)
}

// formatLines prints the lines of a point: "file.go:12", or "file.go:12-15" if they
// are several; "+2" is behind the declaration, where that is all that is known.
func formatLines(names *ccmap.Names, q ccmap.Point) string {
	m := names.At(q.Method)
	begin, end := ccmap.Frame{Method: q.Method, Offset: q.Offset}, ccmap.Frame{Method: q.Method, Offset: q.End}
	if q.Offset == ccmap.NoOffset || m.Coordinate != ccmap.CoordinateLine {
		return formatLocation(names, begin)
	}
	prefix, first, last := m.File+":", names.Line(begin), names.Line(end)
	if m.File == "" || m.StartLine <= 0 {
		prefix, first, last = strings.TrimPrefix(m.File+":+", ":"), int32(q.Offset), int32(q.End)
	}
	lines := prefix + strconv.Itoa(int(first))
	if last > first {
		lines += "-" + strconv.Itoa(int(last))
	}
	return lines
}

// methodNameJSON identifies a method in the JSON of all commands.
type methodNameJSON struct {
	Method    string `json:"method"`
	Signature string `json:"signature,omitempty"`
	File      string `json:"file,omitempty"`
	Line      int32  `json:"line,omitempty"`     // of the declaration or, in a call, of the call
	Position  string `json:"position,omitempty"` // of a call whose line is unknown, or may have several calls: "+0x3c"
}

func nameJSON(m ccmap.Method) methodNameJSON {
	return methodNameJSON{Method: m.Name, Signature: m.Signature, File: m.File, Line: m.StartLine}
}

// callJSON identifies the place of a call in its caller.
func callJSON(names *ccmap.Names, f ccmap.Frame) methodNameJSON {
	m := names.At(f.Method)
	call := methodNameJSON{Method: m.Name, Signature: m.Signature, File: m.File, Line: names.Line(f)}
	if call.Line == 0 || m.Coordinate != ccmap.CoordinateLine {
		call.Position = m.Coordinate.Format(f.Offset)
	}
	return call
}

// callersJSON identifies a chain of callers, each at its call.
func callersJSON(names *ccmap.Names, callers []ccmap.Frame) []methodNameJSON {
	out := make([]methodNameJSON, len(callers))
	for i, f := range callers {
		out[i] = callJSON(names, f)
	}
	return out
}
