package export

import (
	"bufio"
	"bytes"
	"io"
	"strconv"
)

// notation is how a format writes the numbers of a record. [columns.scan] reads the
// records that [columns.append] writes, without the decoders of the standard library: they
// take many times as long. Records in any other form are for them.
type notation struct {
	first, next string // before a name
	colon       string // between a name and its number
	after       string // after a number
	end         string // of the record
}

var (
	jsonNotation = notation{first: `"`, next: `,"`, colon: `":`, end: `}`}
	xmlNotation  = notation{first: ` `, next: ` `, colon: `="`, after: `"`, end: `/>`}
)

// append appends the numbers of a record, without its end.
func (c columns[D]) append(b []byte, n *notation, d *D) []byte {
	before := n.first
	for i := range c {
		v := *c[i].at(d)
		if c[i].isLeftOut(v) {
			continue
		}
		b = append(append(append(b, before...), c[i].name...), n.colon...)
		b = append(strconv.AppendInt(b, v, 10), n.after...)
		before = n.next
	}
	return b
}

// scan reads the numbers of a record up to its end, and returns their length: 0 if they are
// not as append writes them.
func (c columns[D]) scan(b []byte, n *notation, d *D) (size int) {
	rest, before := b, n.first
	for i := range c {
		v, length := c[i].absent, 0
		if value := afterName(rest, before, c[i].name, n.colon); value != nil {
			if v, length = scanNumber(value); length == 0 || !hasPrefix(value[length:], n.after) {
				return 0
			}
			rest, before = value[length+len(n.after):], n.next
		} else if c[i].required {
			return 0
		}
		*c[i].at(d) = v
	}
	if !hasPrefix(rest, n.end) {
		return 0
	}
	return len(b) - len(rest) + len(n.end)
}

// afterName returns the part of b after a name between two texts, nil if b begins
// otherwise.
func afterName(b []byte, before, name, colon string) []byte {
	size := len(before) + len(name) + len(colon)
	if len(b) < size || string(b[:len(before)]) != before ||
		string(b[len(before):size-len(colon)]) != name || string(b[size-len(colon):size]) != colon {
		return nil
	}
	return b[size:]
}

func hasPrefix(b []byte, prefix string) bool {
	return len(b) >= len(prefix) && string(b[:len(prefix)]) == prefix
}

// scanNumber reads a number as strconv writes it, of at most 18 digits, and returns its
// length: 0 if b begins otherwise.
func scanNumber(b []byte) (v int64, size int) {
	const most = 18 // digits, which fit
	digits := b
	if len(b) > 0 && b[0] == '-' {
		digits = b[1:]
	}
	n := 0
	for n < len(digits) && n <= most && digits[n]-'0' <= 9 {
		v = 10*v + int64(digits[n]-'0')
		n++
	}
	isPadded := n > 0 && digits[0] == '0' && len(b) > 1 && (n > 1 || b[0] == '-')
	switch {
	case n == 0 || n > most || isPadded:
		return 0, 0
	case b[0] == '-':
		return -v, n + 1
	}
	return v, n
}

// longestRecord is how long a record of numbers in our form can be, in bytes: a dozen
// numbers of 20 digits with their names.
const longestRecord = 1 << 10

// scanRecords gives the records that a reader has next to add, as far as each follows a
// text: the first follows begin, the others next. It returns how many bytes they took, and
// lines.
func scanRecords[D any](r *bufio.Reader, c columns[D], n *notation, begin, next string, add func(*D) error) (size, lines int, err error) {
	if r.Size() < longestRecord {
		return 0, 0, nil
	}
	d := new(D)
	for more := true; more && err == nil; {
		_, readErr := r.Peek(longestRecord)
		buffered, _ := r.Peek(r.Buffered())
		rest := buffered
		for err == nil && hasPrefix(rest, begin) {
			length := c.scan(rest[len(begin):], n, d)
			if length == 0 {
				break
			}
			rest, begin = rest[len(begin)+length:], next
			err = add(d)
		}
		used := buffered[:len(buffered)-len(rest)]
		size, lines, more = size+len(used), lines+bytes.Count(used, newline), len(used) > 0
		r.Discard(len(used))
		if readErr != nil && readErr != io.EOF && err == nil {
			err = readErr // which the reader would not say again
		}
	}
	return size, lines, err
}

var newline = []byte("\n")
