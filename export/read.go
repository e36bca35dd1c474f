package export

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"sync/atomic"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/jvm/jfr"
)

// Errors that the caller may want to tell apart, wrapped in those returned.
var (
	ErrFormat   = errors.New("unknown format")
	ErrEmpty    = errors.New("empty file")
	ErrTooLarge = errors.New("too large")
	ErrTooDeep  = fmt.Errorf("%w in depth", ErrTooLarge)      // which no option but MaxDepth raises
	ErrTooMany  = fmt.Errorf("%w for any limit", ErrTooLarge) // which no option raises
	ErrMemory   = errors.New("too much memory")
	ErrVersion  = errors.New("unknown version")

	ErrSampleType = errors.New("no sample type")
)

// ReadOptions bound the memory that a file may take. Zero fields take their
// defaults.
type ReadOptions struct {
	// MaxMemory bounds the memory of reading, in bytes: the map with its names, as
	// [MapMemory] counts them, and all that decoding takes until the map is there.
	// Default [DefaultMaxMemory], which admits some 6 million contexts. The garbage of
	// Go's heap comes on top: runtime/debug.SetMemoryLimit bounds that.
	//
	// The defaults of the other bounds, except MaxDepth, are for 512 MiB: they grow in
	// proportion to a MaxMemory that is larger.
	MaxMemory int64

	// MaxBytes bounds the file after decompression. Beyond an eighth of it, a file may
	// not expand to more than a hundred times its size. Default 2 GiB.
	MaxBytes   int64
	MaxMethods int // default 4 Mi; pseudo methods do not count
	MaxNodes   int // default 16 Mi
	MaxDepth   int // frames of a stack; default 64 Ki
	MaxPoints  int // profile points; default 4 Mi
	// MaxFrames bounds the frames of all stacks of a pprof profile together,
	// which inlined calls can make many times its bytes. Default 256 Mi.
	MaxFrames int
	// MaxElement bounds what is held at once of a streamed document, in bytes: a
	// line of folded stacks; in XML and JSON a point, or the text between two
	// methods or nodes. Default 32 MiB. Decoded, it takes up to 64 times its size, and
	// MaxMemory must have room for that.
	MaxElement int

	// MaxSteps bounds the work of reading: a step is a byte after decompression, in each layer, or a frame of a
	// stack of pprof, and takes up to 100 ns in XML. 0: it is not bounded beyond MaxBytes and MaxFrames.
	MaxSteps int64

	// Steps counts the steps of several reads together, which MaxSteps then bounds. It only counts where MaxSteps is
	// not 0. Nil: each read has a count of its own.
	Steps *atomic.Int64

	// Ahead has zstd decompressed by other goroutines, ahead of the one that reads, which takes less time on several
	// processors and no less work. A caller that measures the work of its goroutine leaves it off.
	Ahead bool

	// Reserve is asked before reading takes more memory than it had, in steps of 1 MiB: bytes is all that it takes
	// then. An error ends the read, which returns it wrapped. The goroutine that reads calls it. Nil: MaxMemory
	// alone bounds the memory.
	Reserve func(bytes int64) error

	// Progress is told how much of the reading is done, 0 to 1, or less than 0 where the size of the file is not
	// known. The goroutine that reads calls it, some hundred times a second. Nil: it is not told.
	Progress func(part float64)

	// SampleType chooses the kind of values that become the weight of a pprof
	// profile, for example "alloc_objects". Empty: what 'go tool pprof' shows, the
	// default type or the last. Of a JFR recording it chooses the samples: a name of
	// [jfr.Measure], by default "cpu". The other formats have one kind.
	SampleType string
}

// WithDefaults returns the bounds that a reader holds to.
func (o ReadOptions) WithDefaults() ReadOptions {
	if o.MaxMemory <= 0 {
		o.MaxMemory = DefaultMaxMemory()
	}
	if o.MaxDepth <= 0 {
		o.MaxDepth = 64 << 10
	}
	o.MaxBytes = o.orScaled(o.MaxBytes, 2<<30)
	for _, bound := range []struct {
		field     *int
		byDefault int64
		most      int64
	}{
		{&o.MaxMethods, 4 << 20, math.MaxUint32},
		{&o.MaxNodes, 16 << 20, math.MaxUint32 - 1}, // and the root
		{&o.MaxPoints, 4 << 20, math.MaxInt},
		{&o.MaxFrames, 256 << 20, math.MaxInt},
		{&o.MaxElement, 32 << 20, math.MaxInt},
	} {
		*bound.field = int(min(o.orScaled(int64(*bound.field), bound.byDefault), bound.most))
	}
	return o
}

// orScaled returns a bound that is given, or else its default for the memory that there is.
func (o *ReadOptions) orScaled(given, byDefault int64) int64 {
	switch {
	case given > 0:
		return given
	case o.MaxMemory <= mostByDefault:
		return byDefault
	}
	whole, part := o.MaxMemory/mostByDefault, o.MaxMemory%mostByDefault
	if whole >= math.MaxInt64/byDefault {
		return math.MaxInt64
	}
	return whole*byDefault + int64(float64(part)/mostByDefault*float64(byDefault))
}

// Read restores a map from r, in any format and compression, and returns the format. The
// error names the mistake and its place; errors.Is
// finds [ErrFormat], [ErrEmpty], [ErrTooLarge], [ErrTooDeep], [ErrTooMany], [ErrMemory], [ErrVersion],
// [ErrSampleType] and, in a file that was cut, [io.ErrUnexpectedEOF].
func Read(r io.Reader, o ReadOptions) (*ccmap.Map, Format, error) {
	o = o.WithDefaults()
	b := newBuilder(o)
	plain, format, release, err := open(r, b)
	defer release()
	if err != nil {
		return nil, 0, fmt.Errorf("read profile: %w", err)
	}
	m, err := b.read(plain, format)
	if err != nil {
		return nil, format, fmt.Errorf("read %v: %w", format, err)
	}
	return m, format, nil
}

// open undoes compression, within the bounds of a builder, and tells the format.
// release is never nil.
func open(r io.Reader, b *builder) (plain *bufio.Reader, f Format, release func(), err error) {
	plain, release, err = decompress(r, b)
	if err == nil {
		f, err = sniff(plain)
	}
	return plain, f, release, err
}

// read decodes a whole document of a format.
func (b *builder) read(r *bufio.Reader, f Format) (*ccmap.Map, error) {
	if err := formatTable[f].read(r, b); err != nil {
		return nil, err
	}
	asked, kind := b.limits.SampleType, b.m.Meta().Unit.Kind()
	if f != Pprof && asked != "" && asked != kind {
		return nil, noSampleType(asked, []string{kind})
	}
	return b.finish()
}

// ReadFile is [Read] of a file. Errors name it.
func ReadFile(path string, o ReadOptions) (*ccmap.Map, Format, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	m, format, err := Read(f, o)
	if err != nil {
		return nil, format, fmt.Errorf("%s: %w", path, err)
	}
	return m, format, nil
}

// sniffed is how much of a file decides its format.
const sniffed = 512

// sniff tells the format by the first bytes, and reads none but the byte order
// mark of a text. XML begins with a tag and JSON with an object, perhaps after
// white space; folded stacks are any other text without control characters; a
// profile.proto begins with the tag of one of its fields, and the first of them
// has control characters for field numbers and lengths. A recording begins with its magic.
func sniff(r *bufio.Reader) (Format, error) {
	head, err := r.Peek(sniffed)
	if err != nil && err != io.EOF {
		return 0, err
	}
	switch {
	case len(head) == 0:
		return 0, ErrEmpty
	case isText(head):
		text, marked := bytes.CutPrefix(head, utf8BOM)
		if marked {
			r.Discard(len(utf8BOM))
		}
		return sniffText(bytes.TrimLeft(text, " \t\r\n")), nil
	case bytes.HasPrefix(head, []byte(jfr.Magic)):
		return JFR, nil
	case isProfileTag(head[0]):
		return Pprof, nil
	}
	return 0, fmt.Errorf("%w: it begins with % x, like none of %v, %v, gzip and zstd", ErrFormat, head[:min(len(head), 4)], Formats(), JFR)
}

var utf8BOM = []byte("\xef\xbb\xbf")

// sniffText tells XML and JSON from stacks whose outermost frame begins as they
// do: Python's "<module> (a.py:1);f" and PHP's "{main};f".
func sniffText(text []byte) Format {
	switch {
	case bytes.HasPrefix(text, []byte("<")) && !isBracketedFrame(text):
		return XML
	case bytes.HasPrefix(text, []byte("{")) && isObject(text):
		return JSON
	}
	return Folded
}

// isBracketedFrame reports whether the first thing in angle brackets is the name
// of a frame, which goes on or ends behind it, rather than a tag. White space
// may follow a tag, too, but the beginnings of our own documents are known.
func isBracketedFrame(text []byte) bool {
	for _, start := range []string{"<?", "<!", "<ccmap"} {
		if bytes.HasPrefix(text, []byte(start)) {
			return false
		}
	}
	_, behind, _ := bytes.Cut(text, []byte(">"))
	return bytes.HasPrefix(behind, []byte(" ")) || bytes.HasPrefix(behind, []byte(frameSeparator))
}

// isObject reports whether a brace begins an object of JSON: a name in quotes follows, the
// end of the object, or nothing.
func isObject(text []byte) bool {
	inside := bytes.TrimLeft(text[1:], " \t\r\n")
	return len(inside) == 0 || inside[0] == '"' || inside[0] == '}'
}

func isText(b []byte) bool {
	return !bytes.ContainsFunc(b, func(r rune) bool {
		return r < ' ' && r != '\t' && r != '\n' && r != '\r'
	})
}

// isProfileTag reports whether b is the key of a field of message Profile:
// number<<3 | wire type, numbers 1 to 15. Messages and strings have type 2,
// numbers 0; a writer may pack the comments (13) or not.
func isProfileTag(b byte) bool {
	number, wire := b>>3, b&7
	switch number {
	case 1, 2, 3, 4, 5, 6, 11:
		return wire == 2
	case 7, 8, 9, 10, 12, 14, 15:
		return wire == 0
	case 13:
		return wire == 0 || wire == 2
	}
	return false
}
