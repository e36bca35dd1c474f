// Package compilation has compile records: what a compiler has made of a method, for the next run of the program. It
// works like this:
//
//  1. A record is a line of a log, and is appended as soon as a method is compiled: [Append].
//  2. The next run reads the log: [Read]. Lines that are damaged, and the end of a log that was cut, are counted.
//  3. [NewCache] keeps the record that counts: of the highest level the last one, for profiles only grow in a run.
//  4. A record that was wrong [MostWrong] times is out of use until the method is compiled again ([Cache.Wrong]). That,
//     too, is a line of the log.
//
// A line is the CRC-32C of its JSON, in 8 digits, a space, and the JSON. Any editor can read it. A log holds the
// records of one build of a program.
package compilation

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"strconv"
)

// Levels of compilation, as HotSpot has them: records are of those that have a profile.
const (
	LevelProfiled  = 3 // compiled with a full profile
	LevelOptimized = 4 // compiled out of a profile
)

// The OSR indices of a compilation that was not for a loop that runs, and of one for a loop that is not known.
const (
	NoOSR      = -1
	OSRUnknown = -2
)

// Method names a method of a build.
type Method struct {
	Name      string `json:"name"`
	Signature string `json:"signature,omitempty"`
	Body      uint64 `json:"body,omitempty"` // hash of its code; 0: not known
}

// fits reports whether a record of one method serves another: their code may differ.
func (m Method) fits(n Method) bool {
	return m.Name == n.Name && m.Signature == n.Signature && (m.Body == n.Body || m.Body == 0 || n.Body == 0)
}

// Record is what became of a method.
type Record struct {
	Method
	Time   int64  `json:"time"`             // when it was compiled, ns since 1970
	Level  int    `json:"level"`            // 3 or 4; 0: the record only says how often it was wrong
	OSR    int    `json:"osr"`              // bytecode index of the loop that was entered; -1: none; -2: one of the loops
	Thrown int64  `json:"thrown,omitempty"` // how often compiled code of the method had been thrown away
	Calls  []Call `json:"calls,omitempty"`  // in the order in which the compiler came to them
	Wrong  int    `json:"wrong,omitempty"`  // how often the record before this one was wrong
}

// Call is a call that the compiler came to, in the compiled method or in a method that it had inlined.
type Call struct {
	Caller  string `json:"caller"`
	Callee  string `json:"callee"`
	Offset  int    `json:"offset"` // of the call in the caller
	Inlined bool   `json:"inlined"`
	Words   string `json:"words,omitempty"` // why, or why not; a foreign text
}

// Bounds of a log.
const (
	MostCalls   = 4096     // of a record; the rest is cut
	longestLine = 4 << 20  // bytes
	mostRecords = 1 << 20  // lines that are kept
	mostBytes   = 64 << 20 // that are read of a log
	longestName = 8 << 10  // bytes
)

var checksums = crc32.MakeTable(crc32.Castagnoli)

// ErrRecord is the error of a record that cannot be kept.
var ErrRecord = errors.New("bad compile record")

// Append appends a record to the text of a log.
func Append(b []byte, r Record) ([]byte, error) {
	r.Calls = r.Calls[:min(len(r.Calls), MostCalls)]
	if err := r.check(); err != nil {
		return b, err
	}
	text, err := json.Marshal(r)
	if err != nil {
		return b, fmt.Errorf("encode compile record: %w", err)
	}
	if len(text)+9 > longestLine {
		return b, fmt.Errorf("%w: %d bytes, more than %d", ErrRecord, len(text), longestLine)
	}
	b = fmt.Appendf(b, "%08x ", crc32.Checksum(text, checksums))
	return append(append(b, text...), '\n'), nil
}

// check checks what a record says.
func (r *Record) check() error {
	switch {
	case r.Name == "" || len(r.Name) > longestName || len(r.Signature) > longestName:
		return fmt.Errorf("%w: a name of %d bytes, a signature of %d", ErrRecord, len(r.Name), len(r.Signature))
	case r.Level < 0 || r.Level > math.MaxUint8 || r.OSR < OSRUnknown || r.OSR > math.MaxInt32:
		return fmt.Errorf("%w: level %d, OSR %d", ErrRecord, r.Level, r.OSR)
	case r.Thrown < 0 || r.Wrong < 0 || len(r.Calls) > MostCalls:
		return fmt.Errorf("%w: thrown away %d times, wrong %d times, %d calls", ErrRecord, r.Thrown, r.Wrong, len(r.Calls))
	}
	return nil
}

// parse returns the record of a line without its end.
func parse(line []byte) (r Record, err error) {
	sum, text, found := bytes.Cut(line, []byte{' '})
	if !found || len(sum) != 8 {
		return r, fmt.Errorf("%w: no checksum", ErrRecord)
	}
	want, err := strconv.ParseUint(string(sum), 16, 32)
	if err != nil || uint32(want) != crc32.Checksum(text, checksums) {
		return r, fmt.Errorf("%w: its checksum is another", ErrRecord)
	}
	if err := json.Unmarshal(text, &r); err != nil {
		return r, fmt.Errorf("%w: %w", ErrRecord, err)
	}
	return r, r.check()
}

// Log is what was read of a log.
type Log struct {
	Records []Record // in the order in which they were appended
	Damaged int      // lines that are no records
	Torn    bool     // the last line has no end: a writer was killed, or is writing
	Cut     bool     // there is more than is read
}

// Read reads a log, within bounds. It skips what is damaged: the error is of reading alone.
func Read(r io.Reader) (Log, error) {
	var l Log
	in := bufio.NewReaderSize(io.LimitReader(r, mostBytes), 64<<10)
	total := 0
	for {
		line, whole, err := nextLine(in)
		total += len(line)
		switch {
		case err != nil && !errors.Is(err, io.EOF):
			return l, fmt.Errorf("read compile records: %w", err)
		case err != nil && len(line) == 0:
			l.Cut = l.Cut || total >= mostBytes
			return l, nil
		case err != nil:
			l.Torn = true
			return l, nil
		}
		total++
		l.add(line, whole)
		if len(l.Records) >= mostRecords {
			l.Cut = true
			return l, nil
		}
	}
}

func (l *Log) add(line []byte, whole bool) {
	r, err := parse(line)
	if !whole || err != nil {
		l.Damaged++
		return
	}
	l.Records = append(l.Records, r)
}

// nextLine returns a line without its end. A line that is too long is not whole. An error is of a line without an end.
func nextLine(in *bufio.Reader) (line []byte, whole bool, err error) {
	for whole = true; ; {
		part, err := in.ReadSlice('\n')
		if whole = whole && len(line)+len(part) <= longestLine; whole {
			line = append(line, part...)
		}
		switch {
		case err == nil:
			return bytes.TrimSuffix(line, []byte{'\n'}), whole, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return line, whole, err
		}
	}
}
