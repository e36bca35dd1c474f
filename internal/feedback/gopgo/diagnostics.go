package gopgo

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"strconv"
	"strings"
)

// Diagnostics are the compiler's words on the calls of a profile, out of what it prints with -d=pgodebug=3 -m=2
// (Go 1.22 to 1.27; cmd/compile/internal/{inline,devirtualize,pgoir}). They are immutable, and nil is none.
type Diagnostics struct {
	sites     map[siteOf]note      // indirect calls
	functions map[string]note      // functions that cannot be inlined, by plain name
	big       map[bigCall]struct{} // hot calls in big functions
}

// siteOf is a call of a profile; names are plain.
type siteOf struct {
	place
	callee string
}

// bigCall is a call by its line in the file.
type bigCall struct {
	caller, callee string
	line           int32
}

// note is a reason and the words that it was found in.
type note struct {
	reason Reason
	words  string
}

// ErrNoDiagnostics is the error of a file that is no output of the compiler about a profile.
var ErrNoDiagnostics = errors.New("it has no words of the compiler on a profile")

// mostWords bounds the words of the compiler that are kept of a line, bytes.
const mostWords = 300

// ReadDiagnostics reads what a build has printed. All is left out but what is about calls of the profile, so it takes
// no more memory than they do. build is that of the output: it says where functions begin, since the compiler names
// functions without their package. Errors are those of the reader, or [ErrNoDiagnostics].
func ReadDiagnostics(r io.Reader, calls Calls, build *Build) (*Diagnostics, error) {
	in := newDiagnosticsReader(calls, build)
	for line, err := range lines(r) {
		if err != nil {
			return nil, fmt.Errorf("read the compiler's output: %w", err)
		}
		in.line(line)
	}
	if !in.found {
		return nil, ErrNoDiagnostics
	}
	return &in.said, nil
}

// lines yields the lines of a text without their ends, of each at most 64 kB. A line is valid until the next.
func lines(r io.Reader) iter.Seq2[[]byte, error] {
	const most = 64 << 10
	return func(yield func([]byte, error) bool) {
		in := bufio.NewReaderSize(r, most)
		for rest := false; ; {
			line, err := in.ReadSlice('\n')
			isWhole := !errors.Is(err, bufio.ErrBufferFull)
			if err != nil && isWhole && !errors.Is(err, io.EOF) {
				yield(nil, err)
				return
			}
			if !rest && len(line) > 0 && !yield(bytes.TrimRight(line, "\r\n"), nil) {
				return
			}
			if rest = !isWhole; errors.Is(err, io.EOF) {
				return
			}
		}
	}
}

// diagnosticsReader reads lines one after the other.
type diagnosticsReader struct {
	said   Diagnostics
	wanted map[siteOf]bool        // of the profile
	lines  map[place][]siteOf     // the same by place
	calls  map[[2]string]bool     // of the profile: caller and callee
	local  map[localName][]string // functions of the profile by the compiler's names
	pkg    string                 // whose output it is; "": not known
	last   siteOf                 // the indirect call that was decided on
	found  bool
}

// localName is a function as the compiler prints one of the package that it compiles.
type localName struct {
	name string // plain
	line int32  // of its declaration
}

func newDiagnosticsReader(calls Calls, build *Build) *diagnosticsReader {
	d := &diagnosticsReader{
		said:   Diagnostics{make(map[siteOf]note), make(map[string]note), make(map[bigCall]struct{})},
		wanted: make(map[siteOf]bool), lines: make(map[place][]siteOf), calls: make(map[[2]string]bool), local: make(map[localName][]string),
	}
	for _, e := range calls.Edges {
		at := siteOf{placeOf(e), plainName(e.Callee.Name)}
		if !d.wanted[at] {
			d.lines[at.place] = append(d.lines[at.place], at)
		}
		d.wanted[at], d.calls[[2]string{at.caller, at.callee}] = true, true
	}
	for name, is := range build.functions {
		if _, local := splitName(name); local != "" {
			at := localName{local, is.first}
			d.local[at] = append(d.local[at], name)
		}
	}
	return d
}

// line reads a line.
func (d *diagnosticsReader) line(line []byte) {
	text := string(line)
	if pkg, ok := strings.CutPrefix(text, "# "); ok {
		d.pkg, d.last = pkg, siteOf{}
		return
	}
	d.found = d.found || strings.HasPrefix(text, "hot-callsite-thres-from-CDF=")
	switch {
	case strings.HasPrefix(text, "hot-big check disallows inlining for call "):
		d.bigFunction(text)
	case strings.HasPrefix(text, "callee ") && strings.HasSuffix(text, ", skipping"):
		d.skipped(text)
	default:
		d.positioned(text)
	}
}

// positioned reads a line that begins with a position: FILE:LINE:COLUMN: WORDS.
func (d *diagnosticsReader) positioned(text string) {
	at, words, ok := strings.Cut(text, ": ")
	if !ok {
		return
	}
	switch {
	case strings.HasPrefix(words, "edge "):
		d.edge(words)
	case strings.HasPrefix(words, "call "):
		d.call(words)
	case strings.HasPrefix(words, "cannot inline "):
		d.cannotInline(at, words)
	case strings.HasPrefix(words, "should not PGO devirtualize "):
		d.note(d.last, note{NotInlinable, words})
	}
}

// edge reads "edge CALLER:OFFSET -> CALLEE (weight N)WORDS".
func (d *diagnosticsReader) edge(text string) {
	from, to, ok := strings.Cut(strings.TrimPrefix(text, "edge "), " -> ")
	if !ok {
		return
	}
	callee, rest, ok := strings.Cut(to, " (weight ")
	_, words, ended := strings.Cut(rest, ")")
	at, is := d.siteOf(from, callee)
	if !ok || !ended || !is {
		return
	}
	if reason := reasonOfEdge(at, words); reason != (Reason{}) {
		d.note(at, note{reason, strings.Trim(words, ": ")})
	}
}

// reasonOfEdge returns what the words on an edge mean.
func reasonOfEdge(at siteOf, words string) Reason {
	switch {
	case strings.HasPrefix(words, ": too cold"):
		return Colder
	case strings.HasPrefix(words, " (missing IR)") && isClosure(at.callee):
		return IsClosure
	case strings.HasPrefix(words, " (missing IR)") && strings.Contains(at.callee, "["), strings.Contains(words, "go.shape."):
		return IsGeneric
	case strings.HasPrefix(words, " (missing IR)"):
		return NotExported
	case strings.Contains(words, " doesn't implement "):
		return NotImplemented
	case strings.HasSuffix(words, ": callee is a different method"), strings.HasSuffix(words, ": callee not a method"), strings.Contains(words, " doesn't match "):
		return OfAnotherCall
	}
	return Reason{}
}

// call reads "call CALLER:OFFSET: no hot callee" and "call CALLER:OFFSET: hottest callee NAME (weight N)".
func (d *diagnosticsReader) call(text string) {
	d.last = siteOf{}
	from, words, ok := strings.Cut(strings.TrimPrefix(text, "call "), ": ")
	if !ok {
		return
	}
	callee, _, _ := strings.Cut(strings.TrimPrefix(words, "hottest callee "), " (weight ")
	if at, is := d.siteOf(from, callee); is {
		d.last = at
	}
	if words != "no hot callee" {
		return
	}
	if caller, offset, ok := cutOffset(from); ok {
		for _, at := range d.lines[place{caller, offset}] {
			d.note(at, note{NoWeight, words})
		}
	}
}

// siteOf returns the call of the profile that CALLER:OFFSET and a callee mean.
func (d *diagnosticsReader) siteOf(from, callee string) (at siteOf, is bool) {
	caller, offset, ok := cutOffset(from)
	at = siteOf{place{caller, offset}, plainName(callee)}
	return at, ok && d.wanted[at]
}

func cutOffset(from string) (caller string, offset uint32, ok bool) {
	colon := strings.LastIndexByte(from, ':')
	if colon < 0 {
		return "", 0, false
	}
	n, err := strconv.ParseInt(from[colon+1:], 10, 32)
	return plainName(from[:colon]), uint32(n), err == nil
}

// skipped reads "callee NAME is a closure, skipping", which follows the words on its call.
func (d *diagnosticsReader) skipped(text string) {
	reason := IsClosure
	if strings.HasSuffix(text, " is a method, skipping") {
		reason = IsMethodValue
	}
	d.note(d.last, note{reason, strings.TrimSuffix(text, ", skipping")})
}

// bigFunction reads "hot-big check disallows inlining for call CALLEE (cost N) at FILE:LINE:COLUMN in big function CALLER".
func (d *diagnosticsReader) bigFunction(text string) {
	callee, rest, ok := strings.Cut(strings.TrimPrefix(text, "hot-big check disallows inlining for call "), " (cost ")
	_, rest, ok2 := strings.Cut(rest, ") at ")
	at, caller, ok3 := strings.Cut(rest, " in big function ")
	if !ok || !ok2 || !ok3 {
		return
	}
	if pair := [2]string{plainName(caller), plainName(callee)}; d.calls[pair] {
		if line := lineOf(at); line > 0 {
			d.said.addBig(bigCall{pair[0], pair[1], line})
		}
	}
}

// addBig notes a call in a big function. A function has fewer than a thousand lines with a call of another.
func (d *Diagnostics) addBig(c bigCall) {
	const most = 1 << 16
	if len(d.big) < most {
		d.big[c] = struct{}{}
	}
}

// lineOf returns the line of FILE:LINE:COLUMN, 0 if there is none.
func lineOf(at string) int32 {
	parts := strings.Split(at, ":")
	if len(parts) < 2 {
		return 0
	}
	i := len(parts) - 1
	if len(parts) > 2 {
		i--
	}
	n, err := strconv.ParseInt(parts[i], 10, 32)
	if err != nil {
		return 0
	}
	return int32(n)
}

// cannotInline reads "cannot inline NAME: WORDS" at the declaration of a function. The first words count: those of
// the package that has it.
func (d *diagnosticsReader) cannotInline(at, text string) {
	name, words, ok := strings.Cut(strings.TrimPrefix(text, "cannot inline "), ": ")
	if !ok {
		return
	}
	for _, full := range d.local[localName{plainName(name), lineOf(at)}] {
		pkg := packageOf(full)
		if _, known := d.said.functions[full]; known || d.pkg != "" && pkg != "main" && pkg != d.pkg {
			continue
		}
		reason := NotInlinable
		if strings.HasPrefix(words, "function too complex") {
			reason = TooComplex
		}
		d.said.functions[full] = note{reason, cut(words)}
	}
}

// note notes words on a call, unless there are others.
func (d *diagnosticsReader) note(at siteOf, n note) {
	if _, known := d.said.sites[at]; known || !d.wanted[at] {
		return
	}
	n.words = cut(n.words)
	d.said.sites[at] = n
}

// cut returns the beginning of words that is kept.
func cut(words string) string {
	return strings.Clone(strings.ToValidUTF8(words[:min(len(words), mostWords)], "…"))
}

// on returns what the compiler says of a call that it has not inlined, the zero reason if it says nothing.
func (d *Diagnostics) on(e Edge, is does) (Reason, string) {
	if d == nil {
		return Reason{}, ""
	}
	at := siteOf{placeOf(e), plainName(e.Callee.Name)}
	if is.way == WayIndirect {
		n := d.sites[at]
		return n.reason, n.words
	}
	if n, known := d.functions[at.callee]; known {
		return n.reason, n.words
	}
	if _, known := d.big[bigCall{at.caller, at.callee, is.line}]; known {
		return BigCaller, ""
	}
	return Reason{}, ""
}
