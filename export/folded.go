package export

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"
	"unsafe"

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
	name := m.Name + m.Signature
	if m.IsKernel() {
		name = m.Title()
	}
	name = escape(name, inSamples)
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

// maxCached bounds the cache of frames: equal frames may be escaped differently.
const maxCached = 1 << 20

// readFolded reads our own folded stacks and the stacks of any other tool. A line is
// ours if each of its frames ends in a position; then its count is ns. In
// another's line the frames are nothing but names. Its count has no unit: it is taken
// for samples, which then are the weight of the whole file.
func readFolded(r *bufio.Reader, b *builder) error {
	f := foldedReader{b: b, own: make(map[string]ccmap.Frame)}
	lines := foldedLines{r: r, b: b, longest: b.maxLine()}
	for number := 1; ; number++ {
		line, err := lines.next()
		if err == nil && len(line) > 0 { // a bomb has millions of blank lines
			err = f.line(string(line))
		}
		switch {
		case err == io.EOF && f.stacks == 0:
			return fmt.Errorf("%w: no line holds a stack", ErrEmpty)
		case err == io.EOF:
			return nil
		case err != nil:
			return fmt.Errorf("line %d: %w", number, err)
		}
	}
}

// foldedLines are the lines of a file. A line that is longer than the reader's buffer is put together in one of its
// own, which takes memory as it grows.
type foldedLines struct {
	r       *bufio.Reader
	b       *builder
	longest int    // that a line may be, bytes
	long    []byte // reused
}

// next returns the next line without its end, and io.EOF after the last one. The line is valid until the next call.
func (l *foldedLines) next() ([]byte, error) {
	l.long = l.long[:0]
	for {
		part, err := l.r.ReadSlice('\n')
		switch {
		case len(l.long)+len(part) > l.longest:
			return nil, l.tooLong()
		case err == nil || err == io.EOF && len(l.long)+len(part) > 0:
			if len(l.long) == 0 {
				return withoutEnd(part), nil
			}
		case err != bufio.ErrBufferFull:
			return nil, err
		}
		roomErr := error(nil)
		if l.long, roomErr = room(l.b.memory, l.long, len(part)); roomErr != nil {
			return nil, roomErr
		}
		if l.long = append(l.long, part...); err != bufio.ErrBufferFull {
			return withoutEnd(l.long), nil
		}
	}
}

func (l *foldedLines) tooLong() error {
	if l.longest < l.b.limits.MaxElement {
		return fmt.Errorf("%w, with more than %d bytes in a line", l.b.memory.exceeded(), l.longest)
	}
	return fmt.Errorf("%w: more than %d bytes", ErrTooLarge, l.longest)
}

// withoutEnd cuts the end of a line off.
func withoutEnd(line []byte) []byte {
	return bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r"))
}

// lineShare is how many times its size a line takes at most: in a buffer while that grows, in a copy, and in the
// stack that is made of it.
const lineShare = 4

// copyShare is the part of it beside the buffer.
const copyShare = 2

// maxLine returns how many bytes a line may have. It leaves half of the memory.
func (b *builder) maxLine() int {
	return int(min(int64(b.limits.MaxElement), b.left()/(2*lineShare)))
}

type foldedReader struct {
	b       *builder
	longest int                    // line, in bytes
	own     map[string]ccmap.Frame // our frames, by their text
	stack   []ccmap.Frame          // of the line
	stacks  int                    // read so far
}

// line reads one line. Blank ones are skipped.
func (f *foldedReader) line(line string) error {
	if longer := len(line) - f.longest; longer > 0 {
		if err := f.b.memory.reserve(int64(longer) * copyShare); err != nil {
			return err
		}
		f.longest = len(line)
	}
	line = strings.TrimRight(line, " \t")
	if line == "" {
		return nil
	}
	cut := strings.LastIndexAny(line, " \t")
	if cut < 0 {
		return errors.New("want frame;frame;… count")
	}
	count, err := strconv.ParseInt(line[cut+1:], 10, 64)
	if err != nil {
		return fmt.Errorf("want frame;frame;… count: %q is no whole number of 64 bits", clip(line[cut+1:]))
	}
	frames := strings.TrimRight(line[:cut], " \t")
	if depth := strings.Count(frames, frameSeparator) + 1; depth > f.b.limits.MaxDepth {
		return fmt.Errorf("%w: %d frames deep, more than %d", ErrTooDeep, depth, f.b.limits.MaxDepth)
	}
	f.stacks++
	return f.addLine(frames, count)
}

// clip shortens a text that an error quotes.
func clip(s string) string {
	const most = 40
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}

func (f *foldedReader) addLine(frames string, count int64) error {
	ours, err := f.ownStack(frames)
	if err != nil {
		return err
	}
	if ours {
		return f.b.addStack(f.stack, ccmap.Counters{Time: count})
	}
	if err := f.plainStack(frames); err != nil {
		return err
	}
	f.b.m.Meta().Unit = ccmap.SampleCount
	return f.b.addStack(f.stack, ccmap.Counters{Samples: count, Time: count})
}

// ownStack parses the frames if all of them are ours.
func (f *foldedReader) ownStack(frames string) (ours bool, err error) {
	f.stack = f.stack[:0]
	for text := range strings.SplitSeq(frames, frameSeparator) {
		frame, known := f.own[text]
		if !known {
			method, offset, ours := parseFrame(text)
			if !ours {
				return false, nil
			}
			if frame, err = f.intern(text, method, offset); err != nil {
				return false, err
			}
		}
		f.stack = append(f.stack, frame)
	}
	return true, nil
}

func (f *foldedReader) intern(text string, m ccmap.Method, offset uint32) (ccmap.Frame, error) {
	m.Name, m.Signature = strings.Clone(m.Name), strings.Clone(m.Signature)
	id, err := f.b.intern(m)
	frame := ccmap.Frame{Method: id, Offset: offset}
	if err == nil && len(f.own) < maxCached {
		err = f.b.note(unsafe.Sizeof(text) + unsafe.Sizeof(frame) + uintptr(len(text)))
		f.own[strings.Clone(text)] = frame
	}
	return frame, err
}

// plainStack takes each frame as a name. The title of a system call becomes its method.
func (f *foldedReader) plainStack(frames string) error {
	f.stack = f.stack[:0]
	for name := range strings.SplitSeq(frames, frameSeparator) {
		if name == "" {
			name = ccmap.UnknownName
		}
		m := ccmap.Method{Name: name}
		if call, found := strings.CutPrefix(name, ccmap.KernelName+" "); found {
			m = ccmap.Method{Name: ccmap.KernelName, Signature: call}
		}
		id, known := f.b.m.Names().Lookup(m.Name, m.Signature)
		if !known {
			var err error
			if id, err = f.b.intern(ccmap.Method{Name: strings.Clone(m.Name), Signature: strings.Clone(m.Signature)}); err != nil {
				return err
			}
		}
		f.stack = append(f.stack, ccmap.Frame{Method: id, Offset: ccmap.NoOffset})
	}
	return nil
}

// parseFrame parses a frame as writeFolded writes it, and says if it is one.
func parseFrame(s string) (m ccmap.Method, offset uint32, ours bool) {
	cut := strings.LastIndex(s, positionMark)
	if cut <= 0 {
		return m, 0, false
	}
	offset, ours = parsePosition(s[cut+len(positionMark):])
	if !ours {
		return m, 0, false
	}
	name, signature := cutSignature(s[:cut])
	var err1, err2 error
	m.Name, err1 = unescape(name)
	m.Signature, err2 = unescape(signature)
	return m, offset, m.Name != "" && err1 == nil && err2 == nil
}

func parsePosition(s string) (offset uint32, ok bool) {
	if s == unknownPosition {
		return ccmap.NoOffset, true
	}
	v, err := strconv.ParseInt(s, 10, 32)
	return uint32(v), err == nil && s[0] != '+'
}

// cutSignature cuts at the signature mark, which an escaped backslash before a
// colon is not.
func cutSignature(s string) (name, signature string) {
	for i := 0; i+1 < len(s); i++ {
		if s[i] != '\\' {
			continue
		}
		if s[i+1] == signatureMark[1] {
			return s[:i], s[i+len(signatureMark):]
		}
		i++
	}
	return s, ""
}
