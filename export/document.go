package export

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/ccmapd/ccmapd/ccmap"
)

// Version is the version of the XML and JSON schemas, and of the comments in a
// pprof profile. A later version may change the meaning of what is there; an
// added field alone does not make one, since readers skip fields that they do not know.
const Version = 1

// metaDoc is a ccmap.Meta as XML, JSON and pprof comments hold it. Counts and
// durations are decimal numbers, durations in ns.
type metaDoc struct {
	Engine    text          `json:"engine,omitempty" xml:"engine,attr,omitempty"`
	Kind      text          `json:"kind,omitempty" xml:"kind,attr,omitempty"`   // of the weights; left out with unit: CPU time
	Unit      text          `json:"unit,omitempty" xml:"unit,attr,omitempty"`   // of the weights
	Start     text          `json:"start,omitempty" xml:"start,attr,omitempty"` // RFC 3339, UTC
	Duration  int64         `json:"duration_ns,omitempty" xml:"duration_ns,attr,omitempty"`
	Ended     text          `json:"ended,omitempty" xml:"ended,attr,omitempty"`
	Known     uint64        `json:"known,omitempty" xml:"known,attr,omitempty"`
	Repeated  uint64        `json:"repeated,omitempty" xml:"repeated,attr,omitempty"`
	Window    int64         `json:"window_ns,omitempty" xml:"window_ns,attr,omitempty"`
	Target    targetDoc     `json:"target" xml:"target"`
	Intervals []intervalDoc `json:"intervals,omitempty" xml:"interval"`
	Loss      lossDoc       `json:"loss" xml:"loss"`
	Pruned    *prunedDoc    `json:"pruned,omitempty" xml:"pruned"`
	Settled   *settledDoc   `json:"settled,omitempty" xml:"settled"`
	Elided    *elidedDoc    `json:"elided,omitempty" xml:"elided"`
	Comments  []text        `json:"comments,omitempty" xml:"comment"`
}

type targetDoc struct {
	PID         int    `json:"pid,omitempty" xml:"pid,attr,omitempty"`
	Executable  text   `json:"executable,omitempty" xml:"executable,attr,omitempty"`
	BuildID     text   `json:"build_id,omitempty" xml:"build_id,attr,omitempty"`
	Runtime     text   `json:"runtime,omitempty" xml:"runtime,attr,omitempty"`
	Commit      text   `json:"commit,omitempty" xml:"commit,attr,omitempty"`
	CommandLine []text `json:"command_line,omitempty" xml:"argument"`
}

type intervalDoc struct {
	At       int64 `json:"at_ns" xml:"at_ns,attr"`
	Interval int64 `json:"interval_ns" xml:"interval_ns,attr"`
	Reason   text  `json:"reason,omitempty" xml:"reason,attr,omitempty"`
}

type lossDoc struct {
	Source    uint64 `json:"source,omitempty" xml:"source,attr,omitempty"`
	Queue     uint64 `json:"queue,omitempty" xml:"queue,attr,omitempty"`
	Throttled uint64 `json:"throttled,omitempty" xml:"throttled,attr,omitempty"`
	Corrupt   uint64 `json:"corrupt,omitempty" xml:"corrupt,attr,omitempty"`
	Orphaned  uint64 `json:"orphaned,omitempty" xml:"orphaned,attr,omitempty"`

	Clock       time.Duration `json:"clock_ns,omitempty" xml:"clock_ns,attr,omitempty"`
	ClockTick   time.Duration `json:"clock_tick_ns,omitempty" xml:"clock_tick_ns,attr,omitempty"`
	Unaccounted time.Duration `json:"unaccounted_ns,omitempty" xml:"unaccounted_ns,attr,omitempty"`
}

type prunedDoc struct {
	Times uint64 `json:"times,omitempty" xml:"times,attr,omitempty"`
	Nodes uint64 `json:"nodes,omitempty" xml:"nodes,attr,omitempty"`
}

// settledDoc has percentages.
type settledDoc struct {
	Methods  float64 `json:"methods,omitempty" xml:"methods,attr,omitempty"`
	Edges    float64 `json:"edges,omitempty" xml:"edges,attr,omitempty"`
	Contexts float64 `json:"contexts,omitempty" xml:"contexts,attr,omitempty"`
	Samples  int64   `json:"samples,omitempty" xml:"samples,attr,omitempty"`
}

type elidedDoc struct {
	Samples   uint64 `json:"samples,omitempty" xml:"samples,attr,omitempty"`
	Least     uint64 `json:"least,omitempty" xml:"least,attr,omitempty"`
	Most      uint64 `json:"most,omitempty" xml:"most,attr,omitempty"`
	Uncounted uint64 `json:"uncounted,omitempty" xml:"uncounted,attr,omitempty"`
}

// methodDoc is a ccmap.Method as XML and JSON hold it.
type methodDoc struct {
	Name      text  `json:"name" xml:"name,attr"`
	Signature text  `json:"signature,omitempty" xml:"signature,attr,omitempty"`
	Receiver  text  `json:"receiver,omitempty" xml:"receiver,attr,omitempty"`
	File      text  `json:"file,omitempty" xml:"file,attr,omitempty"`
	StartLine int32 `json:"start_line,omitempty" xml:"start_line,attr,omitempty"`
	Module    text  `json:"module,omitempty" xml:"module,attr,omitempty"`

	Coordinate string `json:"coordinate,omitempty" xml:"coordinate,attr,omitempty"` // left out: lines
	Body       hex    `json:"body,omitempty" xml:"body,attr,omitempty"`
}

// nodeDoc is a node as XML and JSON hold it.
type nodeDoc struct {
	Parent       int64 // index of a node further up; 0 is the root
	Offset       int64 // signed; -1 is ccmap.NoOffset
	Method       int64 // index; noMethod in a position node
	Self, Recent ccmap.Counters
}

// nodeCodec is the codec of nodes. A document has millions of them, so it reads a usual one in JSON by constants.
type nodeCodec struct{ columns[nodeDoc] }

// The members of a usual node, in order, and how many columns they are.
const (
	nodeParent, nodeOffset, nodeMethod         = `"parent":`, `,"offset":`, `,"method":`
	nodeSamples, nodeTime, nodeActivations     = `,"samples":`, `,"time_ns":`, `,"activations":`
	longestNode                                = len(nodeParent+nodeOffset+nodeMethod+nodeSamples+nodeTime+nodeActivations) + usualColumns*longestNumber
	usualColumns                           int = 6
)

func (c nodeCodec) scan(b []byte, n *notation, d *nodeDoc) (size int) {
	if n.number != inJSON || len(b) <= longestNode || string(b[:len(nodeParent)]) != nodeParent {
		return c.columns.scan(b, n, d)
	}
	s := numbers{b: b}
	d.Parent = s.next(len(nodeParent))
	if string(b[s.at:s.at+len(nodeOffset)]) == nodeOffset {
		d.Offset = s.next(len(nodeOffset))
	}
	if string(b[s.at:s.at+len(nodeMethod)]) == nodeMethod {
		d.Method = s.next(len(nodeMethod))
	}
	if string(b[s.at:s.at+len(nodeSamples)]) == nodeSamples {
		d.Self.Samples = s.next(len(nodeSamples))
	}
	if string(b[s.at:s.at+len(nodeTime)]) == nodeTime {
		d.Self.Time = s.next(len(nodeTime))
	}
	if string(b[s.at:s.at+len(nodeActivations)]) == nodeActivations {
		d.Self.Activations = s.next(len(nodeActivations))
	}
	switch {
	case s.isOther:
		return 0
	case b[s.at] == '}':
		return s.at + 1
	}
	return c.columns[usualColumns:].scanFrom(b, s.at, n, d)
}

// numbers reads numbers one after another. They are long enough for all that it reads.
type numbers struct {
	b       []byte
	at      int
	isOther bool // a number was not as strconv writes it
}

// next reads the number after a lead.
func (s *numbers) next(lead int) int64 {
	v, size := scanNumber(s.b[s.at+lead:])
	s.at += lead + size
	s.isOther = s.isOther || size == 0
	return v
}

var nodeColumns = newColumns(slices.Concat([]column[nodeDoc]{
	{name: "parent", at: func(d *nodeDoc) *int64 { return &d.Parent }, absent: -1},
	{name: "offset", at: func(d *nodeDoc) *int64 { return &d.Offset }, absent: -1},
	{name: "method", at: func(d *nodeDoc) *int64 { return &d.Method }, absent: noMethod},
},
	counterColumns("", false, func(d *nodeDoc) *ccmap.Counters { return &d.Self }),
	counterColumns(recentPrefix, true, func(d *nodeDoc) *ccmap.Counters { return &d.Recent }),
))

// nodeDocs returns the nodes in canonical order.
func (c *canonical) nodeDocs() iter.Seq[*nodeDoc] {
	return func(yield func(*nodeDoc) bool) {
		var d nodeDoc
		for e := range c.entries() {
			d = nodeDoc{int64(e.parent), int64(int32(e.Offset)), int64(e.method), e.Self, e.recent}
			if !yield(&d) {
				return
			}
		}
	}
}

// methodDocs returns the methods in canonical order.
func (c *canonical) methodDocs() iter.Seq[*methodDoc] {
	return func(yield func(*methodDoc) bool) {
		for _, m := range c.methods {
			d := newMethodDoc(m)
			if !yield(&d) {
				return
			}
		}
	}
}

func newMethodDoc(m ccmap.Method) methodDoc {
	d := methodDoc{
		Name:      text(m.Name),
		Signature: text(m.Signature),
		Receiver:  text(m.Receiver),
		File:      text(m.File),
		StartLine: m.StartLine,
		Module:    text(m.Module),
		Body:      hex(m.Body),
	}
	if m.Coordinate != ccmap.CoordinateLine {
		d.Coordinate = m.Coordinate.String()
	}
	return d
}

func (d *methodDoc) method() (ccmap.Method, error) {
	m := ccmap.Method{
		Name:      string(d.Name),
		Signature: string(d.Signature),
		Receiver:  string(d.Receiver),
		File:      string(d.File),
		StartLine: d.StartLine,
		Module:    string(d.Module),
		Body:      uint64(d.Body),
	}
	var err error
	if d.Coordinate != "" {
		m.Coordinate, err = named("coordinate", d.Coordinate, ccmap.CoordinateMachine)
	}
	return m, err
}

// newMetaDoc fails on a start time that RFC 3339 cannot hold. A snapshot that is
// itself the window of another has none to be restored.
func newMetaDoc(s *ccmap.Snapshot) (metaDoc, error) {
	m := s.Meta()
	if _, windowed := s.Recent(); !windowed {
		m.Window = 0
	}
	start, err := formatTime("start time", m.Start)
	commit, commitErr := formatTime("commit", m.Target.Commit)
	err = errors.Join(err, commitErr)
	d := metaDoc{
		Engine:   text(m.Engine),
		Start:    text(start),
		Duration: int64(m.Duration),
		Ended:    text(m.Ended),
		Known:    m.Known,
		Repeated: m.Repeated,
		Window:   int64(m.Window),
		Target: targetDoc{
			PID:         m.Target.PID,
			Executable:  text(m.Target.Executable),
			BuildID:     text(m.Target.BuildID),
			Runtime:     text(m.Target.Runtime),
			Commit:      text(commit),
			CommandLine: convert[text](m.Target.CommandLine),
		},
		Loss:     lossDoc(m.Loss),
		Comments: convert[text](m.Comments),
	}
	if m.Unit != ccmap.CPUTime {
		d.Kind, d.Unit = text(m.Unit.Kind()), text(m.Unit.Base())
	}
	if m.Pruned != (ccmap.PruneStats{}) {
		d.Pruned = (*prunedDoc)(&m.Pruned)
	}
	if m.Settled != (ccmap.Settled{}) {
		d.Settled = (*settledDoc)(&m.Settled)
	}
	if m.Elided != (ccmap.Elided{}) {
		d.Elided = (*elidedDoc)(&m.Elided)
	}
	for _, c := range m.Interval {
		d.Intervals = append(d.Intervals, intervalDoc{int64(c.At), int64(c.Interval), text(c.Reason)})
	}
	return d, err
}

// restore makes the document the map's description. It comes before the nodes.
func (d metaDoc) restore(m *ccmap.Map) error {
	meta, err := d.meta()
	if err != nil {
		return err
	}
	*m.Meta() = meta
	m.SetWindow(meta.Window)
	if m.Meta().Window != meta.Window {
		return fmt.Errorf("a window of %v, want %v or more", meta.Window, m.Meta().Window)
	}
	return nil
}

func (d metaDoc) meta() (ccmap.Meta, error) {
	start, err := parseTime("start time", string(d.Start))
	commit, commitErr := parseTime("commit", string(d.Target.Commit))
	unit, unitErr := newUnit(string(d.Kind), string(d.Unit))
	m := ccmap.Meta{
		Engine:   string(d.Engine),
		Unit:     unit,
		Start:    start,
		Duration: time.Duration(d.Duration),
		Ended:    string(d.Ended),
		Known:    d.Known,
		Repeated: d.Repeated,
		Window:   time.Duration(d.Window),
		Target: ccmap.Target{
			PID:         d.Target.PID,
			Executable:  string(d.Target.Executable),
			BuildID:     string(d.Target.BuildID),
			Runtime:     string(d.Target.Runtime),
			Commit:      commit,
			CommandLine: convert[string](d.Target.CommandLine),
		},
		Loss:     ccmap.Loss(d.Loss),
		Comments: convert[string](d.Comments),
	}
	err = errors.Join(err, commitErr, unitErr, d.Loss.check())
	if d.Pruned != nil {
		m.Pruned = ccmap.PruneStats(*d.Pruned)
	}
	if d.Settled != nil {
		m.Settled = ccmap.Settled(*d.Settled)
		err = errors.Join(err, d.Settled.check())
	}
	if d.Elided != nil {
		m.Elided = ccmap.Elided(*d.Elided)
		err = errors.Join(err, d.Elided.check())
	}
	for _, c := range d.Intervals {
		m.Interval = append(m.Interval, ccmap.IntervalChange{
			At:       time.Duration(c.At),
			Interval: time.Duration(c.Interval),
			Reason:   string(c.Reason),
		})
	}
	return m, err
}

// newUnit returns the unit of a file if it can be printed: it has a kind and a base, or
// neither, and no control characters.
func newUnit(kind, base string) (ccmap.Unit, error) {
	if (kind == "") != (base == "") || strings.ContainsFunc(kind+base, isNoText) {
		return ccmap.Unit{}, fmt.Errorf("weights of kind %q in unit %q", clip(kind), clip(base))
	}
	return ccmap.NewUnit(kind, base), nil
}

// isNoText reports whether a character controls terminals, or stands for bytes that are
// not UTF-8.
func isNoText(r rune) bool { return unicode.IsControl(r) || r == utf8.RuneError }

// mostTimesClock bounds how many times the CPU time of the program its samples can
// stand for. A program that ran for a microsecond may have had a sample, which stands
// for the interval: a second is longer than any that is of use.
const mostTimesClock = int64(time.Second / time.Microsecond)

func (d lossDoc) check() error {
	switch {
	case d.Clock < 0 || d.ClockTick < 0:
		return fmt.Errorf("a CPU time of %v in ticks of %v", d.Clock, d.ClockTick)
	case d.Unaccounted > d.Clock:
		return fmt.Errorf("%v of CPU time unaccounted for, more than all %v", d.Unaccounted, d.Clock)
	case d.Clock > 0 && int64(d.Unaccounted)/mostTimesClock < -int64(d.Clock):
		return fmt.Errorf("%v of CPU time unaccounted for, of %v", d.Unaccounted, d.Clock)
	}
	return nil
}

func (d settledDoc) check() error {
	for _, percent := range []float64{d.Methods, d.Edges, d.Contexts} {
		if !(percent >= 0 && percent <= 100) {
			return fmt.Errorf("settled to %v percent", percent)
		}
	}
	return nil
}

func (d elidedDoc) check() error {
	if d.Least > d.Most || d.Uncounted > d.Samples {
		return fmt.Errorf("%d to %d frames elided, in %d of %d samples not all counted", d.Least, d.Most, d.Uncounted, d.Samples)
	}
	return nil
}

func convert[To, From ~string](list []From) []To {
	var to []To
	for _, s := range list {
		to = append(to, To(s))
	}
	return to
}

// formatTime returns RFC 3339 in UTC, and nothing for the zero time.
// formatTime writes a time as it is in documents, "" if it is not known. What it is of is named in errors.
func formatTime(of string, t time.Time) (string, error) {
	if t.IsZero() {
		return "", nil
	}
	b, err := t.UTC().MarshalText()
	if err != nil {
		return "", fmt.Errorf("%s: %w", of, err)
	}
	return string(b), nil
}

// parseTime is the inverse of formatTime.
func parseTime(of, s string) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		return time.Time{}, fmt.Errorf("%s: %w", of, err)
	}
	return t.UTC(), nil
}

// checkVersion refuses documents of a newer ccmapd.
func checkVersion(v int) error {
	switch {
	case v > Version:
		return fmt.Errorf("%w: it is version %d, and this ccmapd reads up to %d: take a newer ccmapd", ErrVersion, v, Version)
	case v < 1:
		return fmt.Errorf("%w: it has no valid version, want 1 to %d", ErrVersion, Version)
	}
	return nil
}

// text is a string in a document. Every byte sequence can be held: a backslash
// is written \\, and characters that XML 1.0 has no place for or a terminal could
// obey, and bytes that are not UTF-8, byte by byte as \xHH. JSON holds the same
// text, so that the two convert into each other.
type text string

func (t text) MarshalText() ([]byte, error) {
	return []byte(escape(string(t), inDocument)), nil
}

func (t *text) UnmarshalText(b []byte) error {
	s, err := unescape(string(b))
	*t = text(s)
	return err
}

// inDocument reports whether a character stands in XML 1.0 (section 2.2, Char) and
// JSON as it is. It must be visible or a space, and not the backslash that we escape
// with.
func inDocument(r rune) bool {
	return unicode.IsGraphic(r) && r != '\\' || r == '\t' || r == '\n' || r == '\r'
}

const hexDigits = "0123456789abcdef"

// escape returns s with the characters that are not plain, and bytes that are
// not UTF-8, escaped.
func escape(s string, plain func(rune) bool) string {
	var b strings.Builder
	done := 0 // s[:done] is in b
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		valid := r != utf8.RuneError || size > 1
		if !valid || !plain(r) {
			b.WriteString(s[done:i])
			appendEscaped(&b, s[i:i+size])
			done = i + size
		}
		i += size
	}
	if done == 0 {
		return s
	}
	b.WriteString(s[done:])
	return b.String()
}

// appendEscaped writes the bytes of one character.
func appendEscaped(b *strings.Builder, char string) {
	if char == `\` {
		b.WriteString(`\\`)
		return
	}
	for i := range len(char) {
		b.WriteString(`\x`)
		b.WriteByte(hexDigits[char[i]>>4])
		b.WriteByte(hexDigits[char[i]&15])
	}
}

var errEscape = errors.New(`bad escape: want \\ or \xHH`)

// unescape undoes escape, with any set of plain characters.
func unescape(s string) (string, error) {
	before, rest, escaped := strings.Cut(s, `\`)
	if !escaped {
		return s, nil
	}
	var b strings.Builder
	for ; escaped; before, rest, escaped = strings.Cut(rest, `\`) {
		b.WriteString(before)
		char, size, err := unescapeOne(rest)
		if err != nil {
			return "", err
		}
		b.WriteByte(char)
		rest = rest[size:]
	}
	b.WriteString(before)
	return b.String(), nil
}

// unescapeOne decodes the rest of an escape, after its backslash, and returns its length.
func unescapeOne(s string) (char byte, size int, err error) {
	if strings.HasPrefix(s, `\`) {
		return '\\', 1, nil
	}
	if len(s) < 3 || s[0] != 'x' {
		return 0, 0, errEscape
	}
	v, err := strconv.ParseUint(s[1:3], 16, 8)
	if err != nil {
		return 0, 0, errEscape
	}
	return byte(v), 3, nil
}
