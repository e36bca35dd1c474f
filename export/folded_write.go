package export

import (
	"bufio"
	"fmt"
	"strconv"
	"strings"
	"unicode"

	"github.com/ccmapd/ccmapd/ccmap"
)

// Marks of the folded format. A frame is NAME+POSITION, or
// NAME\:SIGNATURE+POSITION where the method has a signature. Inside NAME and
// SIGNATURE, backslashes, semicolons and characters that are not visible are escaped.
const (
	frameSeparator  = ";"
	signatureMark   = `\:`
	positionMark    = "+"
	unknownPosition = "?"

	escapedPositionMark = `\x2b`
)

// inSamples reports whether a frame of samples has a place for the character. Nothing
// undoes its escapes, so backslashes stay.
func inSamples(r rune) bool { return r == '\\' || inFolded(r) }

// inFolded reports whether a frame has a place for the character.
func inFolded(r rune) bool { return unicode.IsGraphic(r) && r != ';' && r != '\\' }

// writeFolded writes one line for each stack that was sampled: the frames,
// outermost first, a space, and the time in ns. There is no header: tools have
// no comments, and warn of such a line or skip it.
//
// So a line does not say its unit, and readers know it by the positions: frames of
// CPU time have them, and frames of samples do not. There are no lines of other units.
func writeFolded(w *bufio.Writer, c *canonical) error {
	unit := c.snapshot.Meta().Unit
	if unit != ccmap.CPUTime && unit != ccmap.SampleCount {
		return fmt.Errorf("folded stacks have no place for a unit, and would pass for CPU time: write %q as XML, JSON or pprof", unit)
	}
	names, positions := make([]string, len(c.methods)), unit == ccmap.CPUTime
	for i, m := range c.methods {
		if positions {
			names[i] = foldedName(m)
		} else {
			names[i] = sampledName(m)
		}
	}
	for stack, e := range c.stacks() {
		if e.Self.Samples == 0 && e.Self.Time == 0 {
			continue
		}
		for i, f := range stack {
			if i > 0 {
				w.WriteString(frameSeparator)
			}
			w.WriteString(names[f.method])
			if positions {
				writePosition(w, f.offset)
			}
		}
		w.WriteByte(' ')
		w.Write(strconv.AppendInt(w.AvailableBuffer(), e.Self.Time, 10))
		if err := w.WriteByte('\n'); err != nil {
			return err
		}
	}
	return nil
}

func foldedName(m ccmap.Method) string {
	name := escape(m.Name, inFolded)
	if m.Signature != "" {
		name += signatureMark + escape(m.Signature, inFolded)
	}
	return name
}

// sampledName is a frame of samples: the name as it is, unless it would pass for one
// that has a position.
func sampledName(m ccmap.Method) string {
	name := escape(m.Name+m.Signature, inSamples)
	if _, _, ours := parseFrame(name); ours {
		cut := strings.LastIndex(name, positionMark)
		name = name[:cut] + escapedPositionMark + name[cut+len(positionMark):]
	}
	return name
}

func writePosition(w *bufio.Writer, offset uint32) {
	w.WriteString(positionMark)
	if offset == ccmap.NoOffset {
		w.WriteString(unknownPosition)
		return
	}
	w.Write(strconv.AppendInt(w.AvailableBuffer(), int64(int32(offset)), 10))
}
