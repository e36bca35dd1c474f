package export

import (
	"bufio"
	"bytes"
	"io"
	"strconv"
)

// notation is how a format writes the numbers of a record. A [scanner] reads the
// records as our writers write them, without the decoders of the standard library: they
// take many times as long. Records in any other form are for them.
type notation struct {
	number      int    // of the notation
	first, next string // before a name
	colon       string // between a name and its number
	after       string // after a number
	end         string // of the record
}

// Numbers of the notations.
const (
	inJSON = iota
	inXML
	notations
)

var (
	jsonNotation = notation{number: inJSON, first: `"`, next: `,"`, colon: `":`, end: `}`}
	xmlNotation  = notation{number: inXML, first: ` `, next: ` `, colon: `="`, after: `"`, end: `/>`}
)

// lead is the text before a number: its name. The next lead ends the number before it, too.
type lead struct{ first, next string }

func (n *notation) lead(name string) lead {
	return lead{n.first + name + n.colon, n.after + n.next + name + n.colon}
}

// append appends the numbers of a record, without its end.
func (c columns[D]) append(b []byte, n *notation, d *D) []byte {
	isFirst := true
	for i := range c {
		k := &c[i]
		v := *k.of(d)
		if k.isLeftOut(v) {
			continue
		}
		before := k.leads[n.number].next
		if isFirst {
			before, isFirst = k.leads[n.number].first, false
		}
		b = strconv.AppendInt(append(b, before...), v, 10)
	}
	if !isFirst {
		b = append(b, n.after...)
	}
	return b
}

// scan reads the numbers of a record up to its end, and returns their length: 0 if they are
// not as append writes them.
func (c columns[D]) scan(b []byte, n *notation, d *D) (size int) { return c.scanFrom(b, 0, n, d) }

// scanFrom is scan where the numbers of earlier columns were read: that many bytes.
func (c columns[D]) scanFrom(b []byte, at int, n *notation, d *D) (size int) {
	rest, isFirst := b[at:], at == 0
	for i := range c {
		if n.isAtEnd(rest, isFirst) {
			if c[i:].require() {
				return 0
			}
			break // most records have few numbers
		}
		k := &c[i]
		before := k.leads[n.number].next
		if isFirst {
			before = k.leads[n.number].first
		}
		switch {
		case len(rest) > 2 && rest[2] == before[2] && hasPrefix(rest, before): // most others differ there
			v, length := scanNumber(rest[len(before):])
			if length == 0 {
				return 0
			}
			*k.of(d) = v
			rest, isFirst = rest[len(before)+length:], false
		case k.required:
			return 0
		}
	}
	if !isFirst {
		if !hasPrefix(rest, n.after) {
			return 0
		}
		rest = rest[len(n.after):]
	}
	if !hasPrefix(rest, n.end) {
		return 0
	}
	return len(b) - len(rest) + len(n.end)
}

// require reports whether a record must have one of the numbers.
func (c columns[D]) require() bool {
	for i := range c {
		if c[i].required {
			return true
		}
	}
	return false
}

// isAtEnd reports whether no number can follow one that was read: the end of the record seems to.
func (n *notation) isAtEnd(rest []byte, isFirst bool) bool {
	return !isFirst && len(rest) > len(n.after) && rest[len(n.after)] == n.end[0]
}

func hasPrefix(b []byte, prefix string) bool {
	return len(b) >= len(prefix) && string(b[:len(prefix)]) == prefix
}

// longestNumber is how many characters a number has at most that scanNumber reads.
const longestNumber = 19

// scanNumber reads a number as strconv writes it, of at most 18 digits, and returns its
// length: 0 if b begins otherwise.
func scanNumber(b []byte) (v int64, size int) {
	const most = longestNumber - 1 // digits, which fit
	digits := b
	if len(b) > 0 && b[0] == '-' {
		digits = b[1:]
	}
	n := 0
	for _, c := range digits[:min(len(digits), most+1)] {
		if c -= '0'; c > 9 {
			break
		}
		v = 10*v + int64(c)
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

// scanner is a codec that reads records in our form itself.
type scanner[D any] interface {
	// blank returns the record that leaves out all.
	blank() D
	// scan reads a record into a blank one, from its first name to its end, and returns its length: 0 if it is not
	// in our form.
	scan(b []byte, n *notation, d *D) (size int)
}

func (c columns[D]) blank() (d D) {
	c.reader(&d)
	return d
}

// longestRecord is how long a record of numbers in our form can be, in bytes: a dozen
// numbers of 20 digits with their names.
const longestRecord = 1 << 10

// scanRecords gives the records that a reader has next to add, as far as each follows a
// text: the first follows begin, the others next. It returns how many bytes they took, and
// lines.
func scanRecords[D any](r *bufio.Reader, c scanner[D], n *notation, begin, next string, add func(*D) error) (size, lines int, err error) {
	if r.Size() < longestRecord {
		return 0, 0, nil
	}
	d, blank := new(D), c.blank()
	for more := true; more && err == nil; {
		_, readErr := r.Peek(longestRecord)
		buffered, _ := r.Peek(r.Buffered())
		rest := buffered
		for err == nil && hasPrefix(rest, begin) {
			*d = blank
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
