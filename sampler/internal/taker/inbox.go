package taker

import (
	"slices"
	"sync"
)

// Inbox holds the records of a target until they are taken. The reader of an engine adds, the goroutine of
// [Taker.Run] takes. The engine says what a record looks like.
type Inbox struct {
	mu      sync.Mutex
	records []byte
	urgent  bool   // one of them is wanted at once
	dropped uint64 // records that found no room
}

// Add adds a record, its head and its body, unless all would be longer than a bound, bytes. It reports whether
// the inbox was empty, and whether there was room.
func (i *Inbox) Add(head, body []byte, bound int) (first, room bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if len(i.records)+len(head)+len(body) > bound {
		i.dropped++
		return false, false
	}
	first = len(i.records) == 0
	i.records = append(append(i.records, head...), body...)
	return first, true
}

// Hurry notes that a record is wanted at once if there are more bytes than full, or if it is so anyway.
func (i *Inbox) Hurry(anyway bool, full int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.urgent = i.urgent || anyway || len(i.records) > full
}

// Waiting reports whether records must be taken now. due says that a beat has come.
func (i *Inbox) Waiting(due bool) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.urgent || due && len(i.records) > 0
}

// Swap returns the records, and leaves a buffer to be filled.
func (i *Inbox) Swap(buffer []byte) []byte {
	i.mu.Lock()
	defer i.mu.Unlock()
	records := i.records
	i.records, i.urgent = buffer[:0], false
	return records
}

// PutBack returns records that were not taken.
func (i *Inbox) PutBack(records []byte) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.records = append(slices.Clone(records), i.records...)
}

// Lose counts a record that is not taken.
func (i *Inbox) Lose() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.dropped++
}

// Lost returns how many records were lost.
func (i *Inbox) Lost() uint64 {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.dropped
}

// Size returns the memory of the inbox, bytes.
func (i *Inbox) Size() int64 {
	i.mu.Lock()
	defer i.mu.Unlock()
	return int64(cap(i.records))
}
