package valueprof

import "slices"

// A spaceSaving is the peer of a [Table] with as many counters: the algorithm of
// Metwally, Agrawal and El Abbadi ("Efficient Computation of Frequent and Top-k
// Elements in Data Streams", ICDT 2005). A value without a counter takes over that
// of the least frequent one, count and all, so every count is too high by at most
// the least. The counters are in order of their counts: the least is the last, and
// a search meets the frequent ones first.
type spaceSaving struct {
	counters []Value // descending
	capacity int
}

func newSpaceSaving(capacity int) *spaceSaving {
	return &spaceSaving{counters: make([]Value, 0, capacity), capacity: capacity}
}

// Add counts v once.
func (s *spaceSaving) Add(v uint64) {
	i := 0
	for i < len(s.counters) && s.counters[i].Value != v {
		i++
	}
	switch {
	case i < len(s.counters):
	case i < s.capacity:
		s.counters = append(s.counters, Value{Value: v})
	default:
		i--
		s.counters[i].Value = v
	}
	s.counters[i].Count++
	s.rise(i)
}

// rise moves a counter before those that are now less.
func (s *spaceSaving) rise(i int) {
	c := s.counters[i]
	for ; i > 0 && s.counters[i-1].Count < c.Count; i-- {
		s.counters[i] = s.counters[i-1]
	}
	s.counters[i] = c
}

// AppendValues appends the counters to dst, highest count first, ties by value.
func (s *spaceSaving) AppendValues(dst []Value) []Value {
	values := slices.Clone(s.counters)
	sortValues(values)
	return append(dst, values...)
}
