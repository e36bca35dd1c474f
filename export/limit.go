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

// newElementReader bounds what a streaming decoder holds at once. The reader of
// the document calls reset after each method, node and point.
func newElementReader(r io.Reader, o ReadOptions) *limitReader {
	return newLimitReader(r, int64(o.MaxElement), "without a method, node or point")
}

// reset allows as much again as at first.
func (l *limitReader) reset() { l.left = l.limit }

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
