package view

import (
	"path"
	"strconv"
	"strings"

	"github.com/ccmapd/ccmapd/ccmap"
)

// methodTitle prints a method in a table: its name with the system call, "[kernel] read",
// and for code without symbols with the file that holds the code: "[unknown] libc.so.6".
func methodTitle(m ccmap.Method) string {
	if library := path.Base(m.Signature); m.IsUnknown() && m.Signature != "" {
		return m.Name + " " + library
	}
	return m.Title()
}

// title prints a method in a table of the profile. A Java method that shares its name with
// another one has its parameters too: "Account.put(int)".
func (p *Profile) title(m ccmap.Method) string {
	title := methodTitle(m)
	if parameters := m.Parameters(); parameters != "" && p.overloaded(m.Name) {
		return title + parameters
	}
	return title
}

// overloaded reports whether several methods of the profile have a name. The profile's names are
// looked through once, when a Java method is printed.
func (p *Profile) overloaded(name string) bool {
	if p.declared == nil {
		p.declared = make(map[string]int)
		names := p.Names()
		for id := range names.Len() {
			if m := names.At(ccmap.MethodID(id)); m.Coordinate == ccmap.CoordinateBytecode {
				p.declared[m.Name]++
			}
		}
	}
	return p.declared[name] > 1
}

// formatLocation prints where a position is in the source: "fib.c:12". If the file or the
// line is unknown, it prints the distance from the beginning of the method: "fib.c+0x3c",
// "+3". For an unknown position it prints the file alone.
func formatLocation(names *ccmap.Names, f ccmap.Frame) string {
	m, line := names.At(f.Method), names.Line(f)
	if m.File != "" && line != 0 {
		return m.File + ":" + strconv.Itoa(int(line))
	}
	return m.File + m.Coordinate.Format(f.Offset)
}

// formatDeclaration prints where a method is declared: the file alone if the line is
// unknown, "" if the file is.
func formatDeclaration(m ccmap.Method) string {
	if m.File == "" || m.StartLine == 0 {
		return m.File
	}
	return m.File + ":" + strconv.Itoa(int(m.StartLine))
}

// formatCall prints the position of a call after the name of its method: ":12" if the
// line is known, else its offset.
func formatCall(names *ccmap.Names, f ccmap.Frame) string {
	if line := names.Line(f); line != 0 {
		return ":" + strconv.Itoa(int(line))
	}
	return names.At(f.Method).Coordinate.Format(f.Offset)
}

// formatLines prints the lines of a point: "file.go:12", "file.go:12-15", or "+2", the
// distance from the declaration, if the line of that is unknown.
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

// place is a method, or a call in it.
type place struct {
	ccmap.Method
	line     int32  // of the declaration, or of the call
	position string // of a call whose line is unknown, or may have several calls
	location string // for people
}

var placeColumns = columns[place]{
	col("", "method", "name of the method", func(r place) string { return r.Name }).
		printed(func(p *Profile, r place) string { return p.title(r.Method) }),
	col("", "signature,omitempty", "tells methods of one name apart", func(r place) string { return r.Signature }),
	col("", "file,omitempty", "file of the source", func(r place) string { return r.File }).
		printed(func(_ *Profile, r place) string { return r.location }),
	col("", "line,omitempty", "line of the declaration or, in a call, of the call", func(r place) int32 { return r.line }),
	col("", "position,omitempty", "of a call whose line is unknown, or may have several calls: +0x3c", func(r place) string { return r.position }),
}

func declaredAt(m ccmap.Method) *place { return &place{m, m.StartLine, "", formatDeclaration(m)} }

// calledAt returns the place of a call in its caller.
func calledAt(names *ccmap.Names, f ccmap.Frame) *place {
	m := names.At(f.Method)
	call := &place{Method: m, line: names.Line(f), location: formatLocation(names, f)}
	if call.line == 0 || m.Coordinate != ccmap.CoordinateLine {
		call.position = m.Coordinate.Format(f.Offset)
	}
	return call
}

// chainOf returns the places of a chain of callers. It is nil if the chain is.
func chainOf(names *ccmap.Names, callers []ccmap.Frame) []place {
	if callers == nil {
		return nil
	}
	out := make([]place, len(callers))
	for i, f := range callers {
		out[i] = *calledAt(names, f)
	}
	return out
}
