package export

import (
	"errors"
	"fmt"
	"math"
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

// add adds an entry. There is room for it.
func (t *table[T]) add(m *memory, id uint64, entry T) error {
	if id == 0 {
		return errors.New("its id is 0")
	}
	if _, found := t.find(id); found {
		return fmt.Errorf("its id %d stands twice", id)
	}
	if index := uint64(len(t.entries)); index == t.inOrder && id == index+1 {
		t.inOrder++
	} else {
		const other = 3 * (8 + 4) // bytes in the map, while that grows
		if err := m.take(other); err != nil {
			return err
		}
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
	text    strings.Builder
	ends    []uint32 // of the strings, in text
	missing error    // the first reference to a string that is not there
}

// makeRoom makes room for so many strings of so many bytes, which are taken already.
func (t *stringTable) makeRoom(m *memory, count, bytes int) (err error) {
	if int64(bytes) > math.MaxUint32 {
		return fmt.Errorf("%w: strings of %d bytes", ErrTooLarge, bytes)
	}
	t.text.Grow(bytes)
	t.ends, err = room(m, t.ends, count)
	return err
}

func (t *stringTable) add(s message) {
	t.text.Write(s)
	t.ends = append(t.ends, uint32(t.text.Len()))
}

// finish checks that the first string is the empty one.
func (t *stringTable) finish() error {
	if len(t.ends) == 0 || t.ends[0] > 0 {
		return errors.New("the first string is not the empty one")
	}
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
	return t.text.String()[t.ends[number-1]:t.ends[number]]
}
