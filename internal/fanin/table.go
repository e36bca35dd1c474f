package fanin

import (
	"fmt"
	"maps"
	"slices"
)

// Table is fan-in of methods that others are stored into, by the rules of the cache: an entry that is not there is
// made, and one that is there is overwritten with a better one alone.
type Table map[Key]FanIn

// Stored counts what became of entries that were to be stored.
type Stored struct {
	Created     int `json:"created"`
	Overwritten int `json:"overwritten"` // with better ones
	Ties        int `json:"ties"`        // about as good as those that stand
	Worse       int `json:"worse"`       // than those that stand
}

// Add adds what became of others.
func (s *Stored) Add(o Stored) {
	s.Created += o.Created
	s.Overwritten += o.Overwritten
	s.Ties += o.Ties
	s.Worse += o.Worse
}

// TableOf returns the table of some entries.
func TableOf(l List) Table {
	t := make(Table, len(l))
	for _, e := range l {
		t[e.Key] = e.FanIn
	}
	return t
}

// Store stores entries, and says what became of them.
func (t Table) Store(l List) (s Stored) {
	for _, e := range l {
		switch is, known := t[e.Key]; {
		case !known:
			s.Created++
		case Better(is, e.FanIn) > 0:
			s.Overwritten++
		case Better(e.FanIn, is) > 0:
			s.Worse++
			continue
		default:
			s.Ties++
			continue
		}
		t[e.Key] = e.FanIn
	}
	return s
}

// Encode writes the table as a file, which can be read again.
func (t Table) Encode() ([]byte, error) { return t.EncodeWithin(ofCommand) }

// EncodeWithin writes the table as a file, which can be read again within limits.
func (t Table) EncodeWithin(l Limits) ([]byte, error) {
	all := make(List, 0, len(t))
	for _, k := range slices.SortedFunc(maps.Keys(t), Key.compare) {
		all = append(all, Entry{k, t[k]})
	}
	file := Encode(all)
	if _, err := l.Read(file); err != nil {
		return nil, fmt.Errorf("encode %d methods: %w", len(all), err)
	}
	return file, nil
}
