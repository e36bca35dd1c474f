package goproc

import (
	"bytes"
	"encoding/binary"
	"slices"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/process"
)

// labels reads the labels of goroutines (pprof.Do) from the target's memory, which it never
// trusts: everything that it reads or keeps is bounded, and a set beyond a bound, or one
// that cannot be read, counts as other labels.
//
// g.labels points to a labelMap of runtime/pprof, which never changes (runtime/pprof/label.go,
// Go 1.18 to 1.27). It is a map[string]string up to Go 1.23, and from 1.24 on a slice of keys
// and values. When it is garbage, its memory can become another set. So a set that is
// known by its pointer must have the same words, and now and then the same texts. A
// wrong set would have to take the place of another, word by word and with texts of the same
// places and lengths, within rereadAfter.
type labels struct {
	memory process.Memory
	now    func() time.Time
	known  map[uint64]*labelSet     // by pointer; emptied when full
	texts  map[string]*ccmap.Method // by text: at most ccmap.MaxLabelSets
	words  []byte                   // scratch
}

// labelSet is a set that was read.
type labelSet struct {
	words  []byte // of its structures, without the texts
	read   time.Time
	method *ccmap.Method // nil: the set is empty
}

const (
	rereadAfter = 100 * time.Millisecond // texts of sets that are known are read again
	mostKnown   = 1 << 10                // sets by pointer
)

var otherLabels = ccmap.LabelsMethod(nil)

func newLabels(m process.Memory) *labels {
	return &labels{memory: m, now: time.Now, known: make(map[uint64]*labelSet), texts: make(map[string]*ccmap.Method)}
}

// at returns the method that stands for the set at an address, nil if there are no labels.
func (l *labels) at(addr uint64, isMap bool) *ccmap.Method {
	if addr == 0 {
		return nil
	}
	l.words = l.words[:0]
	var texts []labelText
	var ok bool
	if isMap {
		texts, ok = l.ofMap(addr)
	} else {
		texts, ok = l.ofList(addr)
	}
	if !ok {
		return &otherLabels
	}
	now := l.now()
	if known := l.known[addr]; known != nil && now.Sub(known.read) < rereadAfter && bytes.Equal(known.words, l.words) {
		return known.method
	}
	set := &labelSet{words: slices.Clone(l.words), read: now, method: l.method(texts)}
	if len(l.known) >= mostKnown {
		clear(l.known)
	}
	l.known[addr] = set
	return set.method
}

// labelText says where a key and its value are.
type labelText struct{ key, keyLen, value, valueLen uint64 }

// Sizes in bytes, of 64-bit machines.
const (
	stringSize = 16
	sliceSize  = 24
	// Of a map up to Go 1.23 (runtime/map.go): its head, and a bucket with the first bytes
	// of hashes, keys, values, and the pointer to a further bucket.
	mapSize      = 48
	bucketCells  = 8
	bucketSize   = bucketCells + 2*bucketCells*stringSize + 8
	mostFurther  = 4
	leastTopHash = 5 // smaller ones mark empty cells
)

// more reads bytes to the words, and returns them.
func (l *labels) more(addr uint64, size int) ([]byte, bool) {
	from := len(l.words)
	l.words = slices.Grow(l.words, size)[:from+size]
	read := l.words[from:]
	return read, plausible(addr) && l.memory.Read(addr, read) == nil
}

func wordAt(b []byte, offset int) uint64 { return binary.NativeEndian.Uint64(b[offset:]) }

// ofList returns the texts of a slice of labels.
func (l *labels) ofList(addr uint64) ([]labelText, bool) {
	head, ok := l.more(addr, sliceSize)
	if !ok {
		return nil, false
	}
	list, count := wordAt(head, 0), wordAt(head, 8)
	if count > ccmap.MaxLabels {
		return nil, false
	}
	if count == 0 {
		return nil, true
	}
	items, ok := l.more(list, int(count)*2*stringSize)
	if !ok {
		return nil, false
	}
	texts := make([]labelText, count)
	for i := range texts {
		texts[i] = textAt(items[i*2*stringSize:], items[i*2*stringSize+stringSize:])
	}
	return texts, true
}

func textAt(key, value []byte) labelText {
	return labelText{wordAt(key, 0), wordAt(key, 8), wordAt(value, 0), wordAt(value, 8)}
}

// ofMap returns the texts of a map. A map of so few labels does not remain in the middle of
// growing: the insertion that makes it grow also moves all of its old buckets.
func (l *labels) ofMap(addr uint64) ([]labelText, bool) {
	pointer, ok := l.more(addr, 8)
	if !ok {
		return nil, false
	}
	at := wordAt(pointer, 0)
	if at == 0 {
		return nil, true
	}
	head, ok := l.more(at, mapSize)
	if !ok {
		return nil, false
	}
	count, logBuckets, buckets, old := wordAt(head, 0), head[9], wordAt(head, 16), wordAt(head, 24)
	if count > ccmap.MaxLabels || logBuckets > 2 || old != 0 {
		return nil, false
	}
	var texts []labelText
	further := 0
	for i := range uint64(1) << logBuckets {
		for b := buckets + i*bucketSize; b != 0 && count > 0; {
			bucket, ok := l.more(b, bucketSize)
			if !ok || further > mostFurther {
				return nil, false
			}
			texts = appendCells(texts, bucket)
			if b = wordAt(bucket, bucketSize-8); b != 0 {
				further++
			}
		}
	}
	return texts, uint64(len(texts)) == count
}

// appendCells appends the texts of a bucket.
func appendCells(texts []labelText, bucket []byte) []labelText {
	keys, values := bucket[bucketCells:], bucket[bucketCells+bucketCells*stringSize:]
	for i := range bucketCells {
		if bucket[i] >= leastTopHash {
			texts = append(texts, textAt(keys[i*stringSize:], values[i*stringSize:]))
		}
	}
	return texts
}

// method reads the texts of a set.
func (l *labels) method(texts []labelText) *ccmap.Method {
	if len(texts) == 0 {
		return nil
	}
	set := make([]ccmap.Label, len(texts))
	for i, t := range texts {
		var ok1, ok2 bool
		set[i].Key, ok1 = l.text(t.key, t.keyLen)
		set[i].Value, ok2 = l.text(t.value, t.valueLen)
		if !ok1 || !ok2 {
			return &otherLabels
		}
	}
	m := ccmap.LabelsMethod(set)
	if known := l.texts[m.Signature]; known != nil {
		return known
	}
	if len(l.texts) >= ccmap.MaxLabelSets {
		return &otherLabels
	}
	l.texts[m.Signature] = &m
	return &m
}

func (l *labels) text(addr, size uint64) (string, bool) {
	if size == 0 {
		return "", true
	}
	if size > ccmap.MaxLabelText || addr < 4096 || addr >= process.OSThread-size {
		return "", false
	}
	buf := make([]byte, size)
	if l.memory.Read(addr, buf) != nil {
		return "", false
	}
	return string(buf), true
}
