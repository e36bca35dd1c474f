package export

import (
	"fmt"
	"io"
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

// countingReader counts what is read of a file.
type countingReader struct {
	r    io.Reader
	read int64 // bytes
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.read += int64(n)
	return n, err
}

const (
	// maxExpansion is how many times its size a file may expand to. Profiles expand some
	// 20 times; a profile of few stacks, counted millions of times, some 300 times.
	maxExpansion = 100

	// anyExpansion is the share of a limit that a file may expand to whatever its size: an
	// eighth.
	anyExpansion = 8
)

// expansionReader bounds a layer of a file by a limit, and by the size of the file: a
// small file takes little time to read.
type expansionReader struct {
	limitReader
	file *countingReader
}

func newExpansionReader(r io.Reader, limit int64, file *countingReader) *expansionReader {
	return &expansionReader{*newLimitReader(r, limit, "in all"), file}
}

func (e *expansionReader) Read(p []byte) (int, error) {
	n, err := e.limitReader.Read(p)
	if read, free := e.limit-e.left, e.limit/anyExpansion; read > free && read/maxExpansion > e.file.read {
		return 0, fmt.Errorf("%w: decompressed, more than %s and %d times its size", ErrTooLarge, mebibytes(free), maxExpansion)
	}
	return n, err
}

// decodedShare is how many times its size an element of a document takes decoded, at
// most: attributes of XML without a value, empty objects in a list of JSON.
const decodedShare = 64

// elementReader bounds the part of a document that is held at once, by the limit of elements
// and by the memory that is left for them.
type elementReader struct {
	limitReader
	b *builder
}

// newElementReader returns one that the reader of the document resets after each method,
// node and point.
func newElementReader(r io.Reader, b *builder) *elementReader {
	e := &elementReader{limitReader: *newLimitReader(r, 0, "without a method, node or point"), b: b}
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
	if e.left < 0 && e.limit < int64(e.b.limits.MaxElement) {
		return 0, fmt.Errorf("%w, with %d bytes without a method, node or point", e.b.memory.exceeded(), e.limit)
	}
	return n, err
}

// maxElement returns how many bytes an element may have.
func (b *builder) maxElement() int64 {
	return min(int64(b.limits.MaxElement), b.spare/decodedShare)
}
