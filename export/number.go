package export

import "github.com/ccmapd/ccmapd/ccmap"

// recentPrefix begins the names of the window's counters.
const recentPrefix = "recent_"

// number is an attribute of XML and a member of JSON. Nodes, of which there are
// the most by far, and points are lists of them: the encoders of the standard
// library take many times as long.
type number struct {
	name  string
	value int64
}

// numbers appends what is not left out of a node.
func (e *entry) numbers(to []number) []number {
	to = append(to, number{"parent", int64(e.parent)})
	if e.Offset != ccmap.NoOffset {
		to = append(to, number{"offset", int64(int32(e.Offset))})
	}
	if e.method != noMethod {
		to = append(to, number{"method", int64(e.method)})
	}
	return appendCounts(to, e.Self, e.recent)
}

func appendCounts(to []number, self, recent ccmap.Counters) []number {
	return appendPresent(to,
		number{"samples", self.Samples}, number{"time_ns", self.Time}, number{"activations", self.Activations},
		number{"recent_samples", recent.Samples}, number{"recent_time_ns", recent.Time})
}

// appendPresent appends the numbers that are not 0.
func appendPresent(to []number, numbers ...number) []number {
	for _, n := range numbers {
		if n.value != 0 {
			to = append(to, n)
		}
	}
	return to
}
