package export

import (
	"errors"
	"fmt"
	"strings"
)

// table holds what has ids in a profile.proto. Nearly always these are 1, 2, 3 …
type table[T any] struct {
	entries []T
	inOrder uint64            // so many entries have the ids from 1 on
	others  map[uint64]uint32 // index of the entries behind them, by id
}

// find returns the index of the entry with an id.
func (t *table[T]) find(id uint64) (index uint32, found bool) {
	if id-1 < t.inOrder {
		return uint32(id - 1), true
	}
	index, found = t.others[id]
	return index, found
}

func (t *table[T]) add(id uint64, entry T) error {
	if id == 0 {
		return errors.New("its id is 0")
	}
	if _, found := t.find(id); found {
		return fmt.Errorf("its id %d stands twice", id)
	}
	if index := uint64(len(t.entries)); index == t.inOrder && id == index+1 {
		t.inOrder++
	} else {
		if t.others == nil {
			t.others = make(map[uint64]uint32)
		}
		t.others[id] = uint32(index)
	}
	t.entries = append(t.entries, entry)
	return nil
}

// reset makes room for another profile, and keeps the buffer.
func (t *table[T]) reset() {
	clear(t.entries) // their strings keep others alive
	*t = table[T]{entries: t.entries[:0]}
}

// stringTable holds the strings of a profile.proto as parts of one.
type stringTable struct {
	text    string
	ends    []int // of the strings, in text
	missing error // the first reference to a string that is not there
}

func (t *stringTable) join(parts []message) error {
	if len(parts) == 0 || len(parts[0]) > 0 {
		return errors.New("the first string is not the empty one")
	}
	size := 0
	for _, s := range parts {
		size += len(s)
	}
	var text strings.Builder
	text.Grow(size)
	for _, s := range parts {
		text.Write(s)
		t.ends = append(t.ends, text.Len())
	}
	t.text = text.String()
	return nil
}

// at returns a string by its number. It shares memory with all others: who keeps
// it clones it.
func (t *stringTable) at(number uint64) string {
	switch {
	case number >= uint64(len(t.ends)):
		if t.missing == nil {
			t.missing = fmt.Errorf("string %d of %d", number, len(t.ends))
		}
		return ""
	case number == 0:
		return ""
	}
	return t.text[t.ends[number-1]:t.ends[number]]
}
