// Package moments keeps when and in which context samples were counted, at two to four bytes a sample.
//
// A file is a header and chunks. A chunk has the contexts that are new in the file, as numbers of
// [ccmap.Snapshot.PathIDs], and the samples of some seconds, each by the number of its context in the file. So a chunk
// needs those before it: what follows a damaged one counts for nothing.
package moments

import (
	"encoding/binary"
	"hash/crc32"
	"io"
	"iter"
	"math/bits"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/ccmapd/ccmapd/ccmap"
)

const (
	header = "ccmapd moments 1\n"

	// mostHeld bounds what a log holds until it is taken, in bytes. Later samples are lost, and counted.
	mostHeld = 8 << 20
	// mostPaths bounds the contexts of a file: a log that has half of them begins another file.
	mostPaths = 1 << 18
	// pathBytes is about what a context takes in a log.
	pathBytes = 48

	unit = time.Millisecond // of times
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

var encoder = sync.OnceValue(func() *zstd.Encoder {
	z, _ := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(1<<20), zstd.WithLowerEncoderMem(true))
	return z
})

// Log packs the moments of a map until they are taken. One goroutine adds, any may take.
type Log struct {
	offset func() int64 // from CLOCK_MONOTONIC to Unix time, ns

	mu      sync.Mutex
	ahead   int64             // offset, when it was last looked at
	numbers map[uint64]uint64 // of contexts in the file
	paths   []uint64          // by number
	written int               // paths that the file has
	begins  bool              // the next chunk begins a file
	records []byte
	count   uint64 // of records
	lost    uint64 // samples that no chunk has
	base    int64  // time of the first record, in units
	last    int64  // of the last one
	weight  uint64 // of the last one, packed
	carry   int64  // weight that no record has yet
}

// NewLog returns an empty log.
func NewLog() *Log {
	l := &Log{offset: sinceBoot}
	l.ahead = l.offset()
	l.begin()
	return l
}

// Begin has the next chunk begin a file.
func (l *Log) Begin() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.begin()
}

// begin forgets the contexts, unless records wait that name them.
func (l *Log) begin() {
	l.begins, l.written = true, 0
	if l.count == 0 {
		l.numbers, l.paths = make(map[uint64]uint64), nil
	}
}

// Lose counts a chunk that could not be written. The next one begins a file.
func (l *Log) Lose(c Chunk) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lost += c.count
	l.begin()
}

// Add adds the moment of a sample, as [ccmap.Options] tells it.
func (l *Log) Add(m ccmap.Moment) {
	l.mu.Lock()
	defer l.mu.Unlock()
	number, known := l.numbers[m.Path]
	if len(l.records)+pathBytes*len(l.paths) >= mostHeld || !known && len(l.paths) == mostPaths {
		l.lost++
		return
	}
	if !known {
		number = uint64(len(l.paths))
		l.numbers[m.Path], l.paths = number, append(l.paths, m.Path)
	}
	at := (m.Time + l.ahead) / int64(unit)
	if l.count == 0 {
		l.base, l.last, l.weight = at, at, 0
	}
	l.append(number, at, m.Weight)
	l.count++
}

// append appends a record: the context and whether another weight follows, the weight, the time since the last record.
// A weight has five bits, as most are about equal; the rest goes to the next record.
func (l *Log) append(number uint64, at, weight int64) {
	weight = l.carry + min(max(weight, 0), mostWeight)
	packed := packWeight(uint64(weight))
	l.carry = weight - int64(unpackWeight(packed))
	if packed == l.weight {
		l.records = binary.AppendUvarint(l.records, number<<1)
	} else {
		l.records = binary.AppendUvarint(l.records, number<<1|1)
		l.records = binary.AppendUvarint(l.records, packed)
	}
	l.records = binary.AppendVarint(l.records, at-l.last)
	l.last, l.weight = at, packed
}

const (
	mantissaBits = 5
	mostWeight   = 1 << 61 // so that none overflows with what is carried
)

func packWeight(w uint64) uint64 {
	shift := max(bits.Len64(w)-mantissaBits, 0)
	return uint64(shift)<<mantissaBits | w>>shift
}

func unpackWeight(p uint64) uint64 {
	return p & (1<<mantissaBits - 1) << min(p>>mantissaBits, 64-mantissaBits)
}

// Chunk is what a file goes on with.
type Chunk struct {
	Bytes  []byte // nil: there is nothing to write
	Begins bool   // a file
	From   time.Time
	count  uint64
}

// Take returns what was added since it was taken last.
func (l *Log) Take() Chunk {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ahead = l.offset()
	if l.count == 0 {
		return Chunk{}
	}
	plain := binary.LittleEndian.AppendUint64(nil, uint64(l.base))
	plain = binary.AppendUvarint(plain, l.lost)
	plain = binary.AppendUvarint(plain, uint64(len(l.paths)-l.written))
	for _, path := range l.paths[l.written:] {
		plain = binary.LittleEndian.AppendUint64(plain, path)
	}
	plain = append(binary.AppendUvarint(plain, l.count), l.records...)
	c := Chunk{Begins: l.begins, From: time.UnixMilli(l.base).UTC(), count: l.count + l.lost}
	if c.Begins {
		c.Bytes = append(c.Bytes, header...)
	}
	c.Bytes = appendFrame(c.Bytes, plain)
	l.records, l.written, l.begins, l.count, l.lost = l.records[:0], len(l.paths), false, 0, 0
	if len(l.paths) >= mostPaths/2 {
		l.begin()
	}
	return c
}

// appendFrame appends a chunk: its length, its checksum, and its bytes under zstd.
func appendFrame(b, plain []byte) []byte {
	body := encoder().EncodeAll(plain, nil)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(body)))
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(body, castagnoli))
	return append(b, body...)
}

// chunkSamples is how many samples a chunk of Write has.
const chunkSamples = 1 << 14

// Write writes moments, whose times are of Unix, as a file.
func Write(w io.Writer, all iter.Seq[ccmap.Moment]) error {
	l := &Log{offset: func() int64 { return 0 }}
	l.begin()
	flush := func() error {
		_, err := w.Write(l.Take().Bytes)
		return err
	}
	for m := range all {
		if l.Add(m); l.count >= chunkSamples {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	return flush()
}
