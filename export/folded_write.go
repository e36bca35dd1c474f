package export

import (
	"bufio"
	"strconv"

	"github.com/ccmapd/ccmapd/ccmap"
)

// Marks of the folded format. A frame is NAME+POSITION, or
// NAME\:SIGNATURE+POSITION where the method has a signature. Inside NAME and
// SIGNATURE, backslashes, semicolons and control characters are escaped.
const (
	frameSeparator  = ";"
	signatureMark   = `\:`
	positionMark    = "+"
	unknownPosition = "?"
)

// inFolded reports whether a frame has a place for the character.
func inFolded(r rune) bool { return r >= ' ' && r != 0x7f && r != ';' && r != '\\' }

// writeFolded writes one line for each stack that was sampled: the frames,
// outermost first, a space, and the time in ns. There is no header: tools have
// no comments, and warn of such a line or skip it.
func writeFolded(w *bufio.Writer, c *canonical) error {
	names := make([]string, len(c.methods))
	for i, m := range c.methods {
		names[i] = foldedName(m)
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
			writePosition(w, f.offset)
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

func writePosition(w *bufio.Writer, offset uint32) {
	w.WriteString(positionMark)
	if offset == ccmap.NoOffset {
		w.WriteString(unknownPosition)
		return
	}
	w.Write(strconv.AppendInt(w.AvailableBuffer(), int64(int32(offset)), 10))
}
