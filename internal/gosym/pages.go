package gosym

import (
	"errors"
	"io"
	"time"
)

// bytesTable is a table of a module that look-ups read: its bytes or, where a program has
// too many to hold, those in its file.
type bytesTable struct {
	bytes []byte
	file  *pages // nil: bytes has the whole table
	off   uint64 // in the file
	size  uint64 // in the file, bytes
}

// leastBytes is how much of a table a look-up needs in one piece: a function's record, or
// an entry of a pc table.
const leastBytes = 64

func (t *bytesTable) len() uint64 {
	if t.file == nil {
		return uint64(len(t.bytes))
	}
	return t.size
}

// from returns the bytes after an offset, at least leastBytes if there are so many. They are
// valid until the next call.
func (t *bytesTable) from(at uint64) []byte {
	switch {
	case at >= t.len():
		return nil
	case t.file == nil:
		return t.bytes[at:]
	}
	b := t.file.from(t.off + at)
	return b[:min(uint64(len(b)), t.size-at)]
}

// pages are parts of a file that were read lately, each in the slot that its number gives.
// One goroutine uses them. Where the file cannot be read they are empty.
type pages struct {
	r     io.ReaderAt
	read  pageReader
	slots [pageSlots]struct {
		number uint64 // of the page
		buf    []byte // of pageSize bytes; nil: the slot is free
		n      int    // bytes of buf that were read
	}
	joined [2 * leastBytes]byte // the end of one page and the beginning of the next
}

const (
	pageSize  = 64 << 10 // bytes
	pageSlots = 256      // 16 MiB in all
)

// pageReader reads a page at an offset of a file, within some budget.
type pageReader func(r io.ReaderAt, p []byte, off uint64) (n int, err error)

// from returns the rest of the page that an offset is in, and some of the next page if that
// is less than leastBytes.
func (p *pages) from(off uint64) []byte {
	b := p.rest(off)
	if len(b) >= leastBytes || off%pageSize+uint64(len(b)) < pageSize { // or the file ends
		return b
	}
	n := copy(p.joined[:leastBytes], b)
	return p.joined[:n+copy(p.joined[n:], p.rest(off+uint64(n)))]
}

// rest returns the rest of the page that an offset is in.
func (p *pages) rest(off uint64) []byte {
	number := off / pageSize
	s := &p.slots[number%pageSlots]
	if s.buf == nil || s.number != number {
		if s.buf == nil {
			s.buf = make([]byte, pageSize)
		}
		n, err := p.read(p.r, s.buf, number*pageSize)
		if err != nil && !errors.Is(err, io.EOF) {
			s.n, s.number = 0, noPage
			return nil
		}
		s.n, s.number = n, number
	}
	return s.buf[min(off%pageSize, uint64(s.n)):s.n]
}

// held returns how many bytes the pages take.
func (p *pages) held() (bytes int64) {
	for i := range p.slots {
		bytes += int64(len(p.slots[i].buf))
	}
	return bytes
}

// noPage is the number of no page.
const noPage = ^uint64(0)

// pagesOf returns pages of the file of an image, which a load reads at first.
func pagesOf(l *load, im *image) *pages {
	const size = pageSlots * pageSize
	if im == nil || im.file == nil || l.hold < size || l.holding(size) != nil {
		return nil
	}
	return &pages{r: im.file.r, read: l.readPage}
}

// readPage reads a page within the budget.
func (b *budget) readPage(r io.ReaderAt, p []byte, off uint64) (int, error) {
	if err := b.reading(len(p)); err != nil {
		return 0, err
	}
	start := time.Now()
	n, err := r.ReadAt(p, int64(off))
	if spent := b.waited(start); spent != nil {
		return 0, spent
	}
	return n, err
}

// pageCost is the cost of a look-up that reads a page, in steps.
const pageCost = 1 << 14

// readPage reads a page for a look-up, within its steps and the time that look-ups have.
// Without the page the answer is incomplete, so a failure counts as the limit of steps:
// nothing keeps that answer.
func (t *Table) readPage(r io.ReaderAt, p []byte, off uint64) (n int, err error) {
	if t.Spend(pageCost); t.Exceeded() {
		return 0, ErrTooMuch
	}
	err = ErrTooMuch
	if t.late.ctx.Err() == nil && t.late.pages > 0 {
		start := time.Now()
		n, err = r.ReadAt(p, int64(off))
		t.late.pages -= time.Since(start)
	}
	if n == 0 && !errors.Is(err, io.EOF) {
		t.Spend(t.steps)
	}
	return n, err
}

// inFile returns a table that lies in the file of an image, if it does.
func (p *pages) inFile(im *image, s slice) (bytesTable, bool) {
	addr := s.addr - im.bias
	for _, seg := range im.file.segments {
		if at := addr - seg.vaddr; seg.isLoaded() && addr >= seg.vaddr && at < seg.fileSize && s.len <= seg.fileSize-at {
			return bytesTable{file: p, off: seg.off + at, size: s.len}, true
		}
	}
	return bytesTable{}, false
}
