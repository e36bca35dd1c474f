package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"slices"
	"sync/atomic"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/cursor"
)

// index caches what reading a file tells, by the path, size and time of the file. It is never the truth: an entry
// whose file has changed does not count, and a lost or damaged index is made anew as files are looked at.
type index struct{ files map[string]indexed }

type indexed struct {
	size, time int64 // of the file; ns
	from, to   int64 // that were sampled, as the profile says it; ns, 0: not known
	interval   int64 // at which the tuner had settled, ns; 0: it decided nothing
	commit     int64 // of the build's source, Unix seconds; 0: not known
	unitBase   string
	quality    Quality
}

const (
	indexBefore = "ccmapd index 2\n" // without commits, which its files do not have either
	indexMagic  = "ccmapd index 3\n"
	mostIndex   = 64 << 20 // bytes
	mostPath    = 1 << 12  // bytes of a path, and of a unit
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// find returns the entry of a file, unless the file has changed.
func (x *index) find(name string, info fs.FileInfo) (indexed, bool) {
	e, ok := x.files[name]
	return e, ok && e.size == info.Size() && e.time == info.ModTime().UnixNano()
}

func (x *index) set(name string, info fs.FileInfo, q Quality, m ccmap.Meta) {
	e := indexed{size: info.Size(), time: info.ModTime().UnixNano(), unitBase: m.Unit.Base(), commit: toUnix(m.Target.Commit), quality: q}
	if m.Unit == ccmap.CPUTime {
		e.interval = int64(settledInterval(m.Interval))
	}
	if !m.Start.IsZero() {
		e.from, e.to = m.Start.UnixNano(), m.Start.Add(m.Duration).UnixNano()
	}
	x.files[name] = e
}

// copy notes that a file is a second name of another one.
func (x *index) copy(name, second string) {
	if e, known := x.files[name]; known {
		x.files[second] = e
	}
}

// keep forgets all files but those that are there.
func (x *index) keep(there map[string]bool) {
	maps.DeleteFunc(x.files, func(name string, _ indexed) bool { return !there[name] })
}

// readIndex returns the index of a store. It is never nil: with an error, or without a file, it is empty.
func readIndex(d fileSystem) (*index, error) {
	x := &index{files: make(map[string]indexed)}
	f, err := d.Open(indexName)
	if errors.Is(err, fs.ErrNotExist) {
		return x, nil
	}
	if err != nil {
		return x, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, mostIndex))
	if err != nil {
		return x, fmt.Errorf("read %s: %w", indexName, err)
	}
	files, err := parseIndex(data)
	if err != nil {
		return x, fmt.Errorf("read %s: %w", indexName, err)
	}
	x.files = files
	return x, nil
}

// indexCache keeps the index that was read last, until its file is another one: lists are asked for by the minute, and
// the file changes with each period. Any goroutine may call it.
type indexCache struct {
	last atomic.Pointer[cachedIndex]
}

// cachedIndex is an index that was read, which never changes.
type cachedIndex struct {
	of    fs.FileInfo
	index *index
}

// read returns the index of a store. It is never nil, and empty where it cannot be read.
func (c *indexCache) read(d fileSystem) *index {
	info, err := d.Stat(indexName)
	if last := c.last.Load(); err == nil && last != nil && os.SameFile(info, last.of) && info.ModTime().Equal(last.of.ModTime()) && info.Size() == last.of.Size() {
		return last.index
	}
	x, readErr := readIndex(d)
	if err == nil && readErr == nil {
		c.last.Store(&cachedIndex{info, x}) // a file that has replaced it meanwhile is another one, and is read next time
	}
	return x
}

func parseIndex(data []byte) (map[string]indexed, error) {
	rest, ok := bytes.CutPrefix(data, []byte(indexMagic))
	unknown := 0 // numbers that it does not have
	if !ok {
		rest, ok = bytes.CutPrefix(data, []byte(indexBefore))
		unknown = 1
	}
	if !ok || len(rest) < 4 {
		return nil, errors.New("it is no index of this version")
	}
	rest, sum := rest[:len(rest)-4], rest[len(rest)-4:]
	if crc32.Checksum(rest, castagnoli) != binary.LittleEndian.Uint32(sum) {
		return nil, errors.New("its checksum is wrong")
	}
	c := &cursor.Cursor{Data: rest}
	files := make(map[string]indexed)
	for !c.Empty() {
		name := text(c)
		var e indexed
		for _, to := range e.numbers()[unknown:] {
			*to = int64(c.U64())
		}
		e.unitBase, e.quality = text(c), parseQuality(c)
		files[name] = e
	}
	return files, c.Err
}

func text(c *cursor.Cursor) string {
	n := c.Uleb()
	if n > mostPath {
		c.Fail(errors.New("a text is too long"))
	}
	return string(c.Bytes(n))
}

func parseQuality(c *cursor.Cursor) Quality {
	q := Quality{Samples: int64(c.U64()), Known: c.Byte() != 0}
	for _, to := range q.numbers() {
		*to = math.Float64frombits(c.U64())
	}
	return q
}

// numbers returns what an index has of a file beside its quality. The first is new in the last version.
func (e *indexed) numbers() []*int64 {
	return []*int64{&e.commit, &e.size, &e.time, &e.from, &e.to, &e.interval}
}

func (q *Quality) numbers() []*float64 {
	return []*float64{&q.Independent, &q.Settled, &q.Pruned, &q.Other, &q.Truncated, &q.Unaccounted}
}

// append appends the bytes of the index.
func (x *index) append(b []byte) []byte {
	b = append(b, indexMagic...)
	for _, name := range slices.Sorted(maps.Keys(x.files)) {
		e := x.files[name]
		b = appendText(b, name)
		for _, v := range e.numbers() {
			b = binary.LittleEndian.AppendUint64(b, uint64(*v))
		}
		b = appendText(b, e.unitBase)
		b = e.quality.append(b)
	}
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b[len(indexMagic):], castagnoli))
}

func appendText(b []byte, s string) []byte {
	s = s[:min(len(s), mostPath)]
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func (q *Quality) append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint64(b, uint64(q.Samples))
	known := byte(0)
	if q.Known {
		known = 1
	}
	b = append(b, known)
	for _, v := range q.numbers() {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(*v))
	}
	return b
}

// writeIndex replaces the index. An error is logged: nothing depends on it.
func (s *Store) writeIndex() {
	err := s.replace(indexName, func(w io.Writer) error {
		_, err := w.Write(s.index.append(nil))
		return err
	})
	if err != nil {
		s.log.Warn("cannot write the index of the store", "error", err)
	}
}
