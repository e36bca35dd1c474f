package export

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/pprof/profile"

	"github.com/ccmapd/ccmapd/ccmap"
)

// pprofShare is the part of ReadOptions.MaxBytes that a profile may fill: it is
// decoded in memory as a whole, and takes up to 16 times its size there.
const pprofShare = 16

// readPprof reads a profile.proto of ours or of any other tool. Of others,
// labels and addresses are dropped, and [chooseValues] says what the values
// count.
func readPprof(r *bufio.Reader, b *builder) error {
	data, err := io.ReadAll(newLimitReader(r, b.limits.MaxBytes/pprofShare, "of pprof"))
	if err != nil {
		return err
	}
	if n := countRecords(data); n > b.limits.MaxNodes {
		return fmt.Errorf("%w: %d records, more than %d", ErrTooLarge, n, b.limits.MaxNodes)
	}
	p, err := profile.ParseUncompressed(data)
	if err == nil {
		err = p.CheckValid()
	}
	if err != nil {
		return fmt.Errorf("parse profile of %d bytes: %w", len(data), err)
	}
	return newPprofReader(p, b).read()
}

// countRecords counts the fields of the message Profile, up to the first that
// is malformed. Each becomes an object of 100 bytes and more, be it 2 bytes long.
func countRecords(data []byte) int {
	for n := 0; ; n++ {
		key, size := binary.Uvarint(data)
		if size <= 0 {
			return n
		}
		data = data[size:]
		value, size := binary.Uvarint(data)
		switch {
		case key&7 == 0 && size > 0:
			data = data[size:]
		case key&7 == 2 && size > 0 && value <= uint64(len(data)-size):
			data = data[size+int(value):]
		default:
			return n
		}
	}
}

type pprofReader struct {
	*profile.Profile
	b       *builder
	values  valueChoice
	ours    commentFields // nil in a profile of another tool
	others  []string      // comments
	frames  map[*profile.Location][]ccmap.Frame
	methods map[*profile.Function]ccmap.MethodID
}

func newPprofReader(p *profile.Profile, b *builder) *pprofReader {
	r := &pprofReader{
		Profile: p,
		b:       b,
		values:  chooseValues(p),
		frames:  make(map[*profile.Location][]ccmap.Frame, len(p.Location)),
		methods: make(map[*profile.Function]ccmap.MethodID, len(p.Function)),
	}
	r.ours, r.others = parseComments(p.Comments)
	return r
}

func (r *pprofReader) read() error {
	if err := r.meta(); err != nil {
		return err
	}
	var stack []ccmap.Frame
	frames := 0 // of all stacks
	for i, s := range r.Sample {
		var err error
		if stack, err = r.stack(stack[:0], s); err != nil {
			return fmt.Errorf("sample %d: %w", i, err)
		}
		if frames += len(stack); frames > r.b.limits.MaxFrames {
			return fmt.Errorf("sample %d: %w: more than %d frames in all stacks", i, ErrTooLarge, r.b.limits.MaxFrames)
		}
		counters, err := r.values.counters(s.Value)
		if err == nil {
			err = r.b.addStack(stack, counters)
		}
		if err != nil {
			return fmt.Errorf("sample %d: %w", i, err)
		}
	}
	return nil
}

// meta restores what the comments hold, or what else is known.
func (r *pprofReader) meta() error {
	meta := r.b.m.Meta()
	if r.ours != nil {
		err := r.ours.restore(r.b.m)
		meta.Comments = append(meta.Comments, r.others...)
		return err
	}
	meta.Duration = time.Duration(r.DurationNanos)
	if r.TimeNanos != 0 {
		meta.Start = time.Unix(0, r.TimeNanos).UTC()
	}
	if t := r.PeriodType; t != nil && t.Unit == timeUnit && r.Period > 0 {
		meta.Interval = []ccmap.IntervalChange{{Interval: time.Duration(r.Period), Reason: "period of the profile"}}
	}
	if len(r.Mapping) > 0 {
		meta.Target.Executable = r.Mapping[0].File
		meta.Target.BuildID = r.Mapping[0].BuildID
	}
	meta.Comments = append(meta.Comments, r.others...)
	if note := r.values.note(r.Profile); note != "" {
		meta.Comments = append(meta.Comments, note)
	}
	return nil
}

// stack appends the frames of a sample, outermost first. A sample without
// locations is one of the unknown.
func (r *pprofReader) stack(stack []ccmap.Frame, s *profile.Sample) ([]ccmap.Frame, error) {
	for i := len(s.Location) - 1; i >= 0; i-- {
		frames, err := r.location(s.Location[i])
		if err != nil {
			return stack, err
		}
		stack = append(stack, frames...)
		if len(stack) > r.b.limits.MaxDepth {
			return stack, fmt.Errorf("%w: more than %d frames deep", ErrTooLarge, r.b.limits.MaxDepth)
		}
	}
	if len(stack) == 0 {
		return r.pseudo(stack, ccmap.UnknownName)
	}
	return stack, nil
}

// location returns the frames of a location, outermost first: more than one
// where calls were inlined.
func (r *pprofReader) location(l *profile.Location) ([]ccmap.Frame, error) {
	if frames, known := r.frames[l]; known {
		return frames, nil
	}
	var frames []ccmap.Frame
	var err error
	if len(l.Line) == 0 {
		frames, err = r.pseudo(frames, addressName(l))
	}
	for i := len(l.Line) - 1; i >= 0 && err == nil; i-- {
		var method ccmap.MethodID
		line := l.Line[i]
		method, err = r.method(line.Function, l.Mapping)
		offset := offsetOf(line.Line, line.Function.StartLine)
		frames = append(frames, ccmap.Frame{Method: method, Offset: offset})
	}
	r.frames[l] = frames
	return frames, err
}

// pseudo appends a frame that has no more than a name.
func (r *pprofReader) pseudo(stack []ccmap.Frame, name string) ([]ccmap.Frame, error) {
	id, err := r.b.intern(ccmap.Method{Name: name})
	return append(stack, ccmap.Frame{Method: id, Offset: ccmap.NoOffset}), err
}

// addressName names a location without symbols by where it is in its file, for
// example "libc.so.6+0x2a3b4", or not at all where the file is not known.
func addressName(l *profile.Location) string {
	if l.Mapping == nil || l.Mapping.File == "" || l.Address == 0 {
		return ccmap.UnknownName
	}
	m := l.Mapping
	return fmt.Sprintf("%s+%#x", filepath.Base(m.File), l.Address-m.Start+m.Offset)
}

// method returns the method of a function. The module is that of the first
// location.
func (r *pprofReader) method(f *profile.Function, m *profile.Mapping) (ccmap.MethodID, error) {
	if id, known := r.methods[f]; known {
		return id, nil
	}
	id, err := r.b.intern(ccmap.Method{
		Name:      firstNonEmpty(f.Name, f.SystemName, ccmap.UnknownName),
		Signature: r.signature(f),
		File:      f.Filename,
		StartLine: startLine(f),
		Module:    moduleOf(m),
	})
	r.methods[f] = id
	return id, err
}

func firstNonEmpty(names ...string) string {
	for _, n := range names {
		if n != "" {
			return n
		}
	}
	return ""
}

// signature is what our system name has behind the name. Of other tools' system
// names, for example a mangled C++ name, none is taken.
func (r *pprofReader) signature(f *profile.Function) string {
	if r.ours == nil {
		return ""
	}
	signature, _ := strings.CutPrefix(f.SystemName, f.Name)
	return signature
}

// startLine is 0, unknown, where it is absurd.
func startLine(f *profile.Function) int32 {
	if line := int32(f.StartLine); int64(line) == f.StartLine {
		return line
	}
	return 0
}

func moduleOf(m *profile.Mapping) string {
	if m == nil {
		return ""
	}
	return firstNonEmpty(m.BuildID, m.File)
}
