package export

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math"
	"os"
	"path"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/ccmapd/ccmapd/ccmap"
)

// limitReader fails at its limit, unlike io.LimitReader, which would pretend
// that the file ends.
type limitReader struct {
	r           io.Reader
	limit, left int64
	where       string // the limit applies
}

func newLimitReader(r io.Reader, limit int64, where string) *limitReader {
	return &limitReader{r: r, limit: limit, left: limit, where: where}
}

func (l *limitReader) Read(p []byte) (int, error) {
	if l.left < 0 {
		return 0, l.tooLarge()
	}
	if int64(len(p))-1 > l.left {
		p = p[:l.left+1] // one byte too many says that there is more
	}
	n, err := l.r.Read(p)
	if l.left -= int64(n); l.left < 0 {
		return 0, l.tooLarge()
	}
	return n, err
}

func (l *limitReader) tooLarge() error {
	return fmt.Errorf("%w: more than %d bytes %s", ErrTooLarge, l.limit, l.where)
}

// countingReader counts what is read of a file. The goroutine that reads it may not be the one that looks at the count.
type countingReader struct {
	r    io.Reader
	size int64        // bytes; 0: not known
	read atomic.Int64 // bytes
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.read.Add(int64(n))
	return n, err
}

// progress tells how much of a read is done.
type progress struct {
	tell     func(part float64) // nil: it is not told
	from, to float64            // of the part that is being done
}

// done tells how much of the present part is done. 0 of 0 is told as not known.
func (p *progress) done(n, of int64) {
	switch {
	case p.tell == nil:
	case of <= 0:
		p.tell(-1)
	default:
		p.tell(p.from + (p.to-p.from)*min(float64(n)/float64(of), 1))
	}
}

const (
	// maxExpansion is how many times its size a file may expand to. Profiles expand some
	// 20 times; a profile of few stacks, counted millions of times, some 300 times.
	maxExpansion = 100

	// anyExpansion is the share of a limit that a file of any size may expand to: an
	// eighth.
	anyExpansion = 8
)

// expansionReader bounds a layer of a file by a limit, and by the size of the file: a
// small file takes little time to read.
type expansionReader struct {
	limitReader
	file   *countingReader
	ledger *ledger
	told   *progress // of the innermost layer; nil: of another one
}

func newExpansionReader(r io.Reader, b *builder, file *countingReader) *expansionReader {
	return &expansionReader{limitReader: *newLimitReader(r, b.limits.MaxBytes, "in all"), file: file, ledger: b.memory.ledger}
}

func (e *expansionReader) Read(p []byte) (int, error) {
	n, err := e.limitReader.Read(p)
	if e.told != nil {
		e.told.done(e.file.read.Load(), e.file.size)
	}
	if err := e.ledger.work(int64(n)); err != nil {
		return 0, err
	}
	if read, free := e.limit-e.left, e.limit/anyExpansion; read > free && read/maxExpansion > e.file.read.Load() {
		return 0, fmt.Errorf("%w: decompressed, more than %s and %d times its size", ErrTooLarge, mebibytes(free), maxExpansion)
	}
	return n, err
}

// decodedShare is how many times its size an element of a document takes decoded, at
// most: attributes of XML without a value, empty objects in a list of JSON.
const decodedShare = 64

// elementReader bounds the part of a document that is held at once, by the limit of elements
// and by the memory that is left for them. It reads at most a line at once, so a decoder that
// has read the beginning of a list leaves the rest to [scanRecords].
type elementReader struct {
	limitReader
	source *bufio.Reader
	b      *builder

	last, lastButOne byte // that ReadByte has read
}

// newElementReader returns one that the reader of the document resets after each method,
// node and point.
func newElementReader(r *bufio.Reader, b *builder) *elementReader {
	e := &elementReader{limitReader: *newLimitReader(lineReader{r}, 0, "without a method, node or point"), source: r, b: b}
	e.reset()
	return e
}

// reset allows the next element.
func (e *elementReader) reset() {
	e.limit = e.b.maxElement()
	e.left = e.limit
}

func (e *elementReader) Read(p []byte) (int, error) {
	n, err := e.limitReader.Read(p)
	if e.left < 0 {
		return 0, e.exceeded()
	}
	return n, err
}

// ReadByte makes the decoder of XML read no further than it must.
func (e *elementReader) ReadByte() (byte, error) {
	c, err := e.source.ReadByte()
	if err == nil {
		e.left--
		e.last, e.lastButOne = c, e.last
	}
	if e.left < 0 {
		return 0, e.exceeded()
	}
	return c, err
}

func (e *elementReader) exceeded() error {
	if e.limit < int64(e.b.limits.MaxElement) {
		return fmt.Errorf("%w, with %d bytes without a method, node or point", e.b.memory.exceeded(), e.limit)
	}
	return e.tooLarge()
}

// lineReader reads up to the end of a line at once. The line break begins the next one, with
// all white space after it: the decoder of JSON scans white space anew in each read.
type lineReader struct{ *bufio.Reader }

func (l lineReader) Read(p []byte) (int, error) {
	if _, err := l.Peek(1); err != nil {
		return 0, err
	}
	line, _ := l.Peek(min(len(p), l.Buffered()))
	white := len(line) - len(bytes.TrimLeft(line, " \t\r\n"))
	if end := bytes.IndexByte(line[white:], '\n'); end >= 0 {
		line = line[:white+end]
	}
	return l.Reader.Read(p[:len(line)])
}

// maxElement returns how many bytes an element may have.
func (b *builder) maxElement() int64 {
	return min(int64(b.limits.MaxElement), b.spare/decodedShare)
}

// memory counts the bytes that a reader holds. It is a count, not a measurement: what
// garbage and Go's runtime add is not in it.
type memory struct {
	limit, held int64
	ledger      *ledger // nil: there is none
}

// reserve counts bytes, and fails where there would be too many.
func (m *memory) reserve(bytes int64) error {
	if bytes > m.limit-m.held {
		return m.exceeded()
	}
	m.held += bytes
	return m.ledger.cover(m.held)
}

// mapped notes the memory of the map, which the limit was held against.
func (m *memory) mapped(bytes int64) error {
	if m.ledger != nil {
		m.ledger.mapped = bytes
	}
	return m.ledger.cover(m.held)
}

// release gives bytes back.
func (m *memory) release(bytes int64) { m.held -= bytes }

func (m *memory) exceeded() error {
	return fmt.Errorf("%w: more than %s", ErrMemory, mebibytes(m.limit))
}

func mebibytes(bytes int64) string {
	return fmt.Sprintf("%.4g MiB", float64(bytes)/(1<<20))
}

// room returns the list with room for n more elements, which it takes from the memory.
func room[T any](m *memory, list []T, n int) ([]T, error) {
	if n <= cap(list)-len(list) {
		return list, nil
	}
	const large = 16 << 20 // bytes: longer lists grow by a quarter
	size, held := int64(unsafe.Sizeof(*new(T))), cap(list)
	grown := 2 * held
	if int64(held)*size > large {
		grown = held + held/4
	}
	grown = max(grown, len(list)+n)
	// While it grows the list is there twice, and its room of before may be still.
	if err := m.reserve(int64(grown+held) * size); err != nil {
		return list, err
	}
	list = append(make([]T, 0, grown), list...)
	m.release(2 * int64(held) * size)
	return list, nil
}

// roomOf returns how many bytes a list has room for.
func roomOf[T any](list []T) int64 { return int64(cap(list)) * int64(unsafe.Sizeof(*new(T))) }

// keep appends to a list whose room is taken from the memory.
func keep[T any](m *memory, list []T, element T) ([]T, error) {
	list, err := room(m, list, 1)
	if err != nil {
		return list, err
	}
	return append(list, element), nil
}

// viewShare is how many times its own memory a map counts for: a command sorts a map, looks
// at it or writes it, and that takes as much again.
const viewShare = 2

// listShare is the same of names and descriptions, whose lists are made into texts.
const listShare = 3

// MapMemory returns how much of ReadOptions.MaxMemory a map takes that was read: the
// map, its names and its description, and as much again for a view of it.
func MapMemory(m *ccmap.Map) int64 { return mapMemory(m) + metaMemory(m.Meta()) }

// mapMemory is MapMemory without the description. Views of labelled maps are made of
// another map, without the labels.
func mapMemory(m *ccmap.Map) int64 {
	maps := int64(viewShare)
	if m.Names().Labelled() {
		maps++
	}
	return maps*m.Bytes() + listShare*m.Names().Bytes()
}

// metaMemory returns the memory that the lists of a description count for.
func metaMemory(meta *ccmap.Meta) int64 {
	const copied = 2 // by each snapshot
	held := int64(cap(meta.Interval)) * int64(unsafe.Sizeof(ccmap.IntervalChange{}))
	for _, list := range [][]string{meta.Comments, meta.Target.CommandLine} {
		held += int64(cap(list)) * int64(unsafe.Sizeof(""))
		for _, text := range list {
			held += int64(len(text))
		}
	}
	return copied * listShare * held
}

// mostByDefault is the default of ReadOptions.MaxMemory where the machine has enough.
const mostByDefault = 512 << 20

// DefaultMaxMemory returns the default of ReadOptions.MaxMemory: 512 MiB, or a quarter
// of the memory of the machine or of this process's control group, if that is less.
func DefaultMaxMemory() int64 { return defaultMaxMemory() }

var defaultMaxMemory = sync.OnceValue(func() int64 {
	most := int64(math.MaxInt64)
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) == nil {
		most = int64(min(uint64(info.Totalram)*uint64(info.Unit), math.MaxInt64))
	}
	if groups, err := os.ReadFile("/proc/self/cgroup"); err == nil {
		most = min(most, groupMemory("/sys/fs/cgroup", string(groups)))
	}
	return min(mostByDefault, most/4)
})

// groupMemory returns how many bytes the control groups of a process may have. Their
// list is as /proc/PID/cgroup has it (cgroups(7)): of version 1 "4:memory:/path", and of
// version 2 "0::/path". In a container a path may be the one outside: then its last
// parent that is there is the container's own.
func groupMemory(mount, list string) int64 {
	most := int64(math.MaxInt64)
	for line := range strings.Lines(list) {
		controllers, group, _ := strings.Cut(line[strings.Index(line, ":")+1:], ":")
		dir, file := mount, "memory.max"
		if controllers != "" {
			dir, file = path.Join(mount, "memory"), "memory.limit_in_bytes"
		}
		if controllers != "" && controllers != "memory" {
			continue
		}
		for at := path.Clean("/" + strings.TrimSpace(group)); ; at = path.Dir(at) {
			text, _ := os.ReadFile(path.Join(dir, at, file))
			if limit, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil {
				most = min(most, limit) // "max" is no number
			}
			if at == "/" {
				break
			}
		}
	}
	return most
}
