package memory

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
)

// spread has how much the time of requests differs from tick to tick, by the function that answers them. Requests come and
// go together, for example when a disk answers all of them at once, so the looks of one tick are not independent. The
// squares of the differences between neighbours tell the variance of the sum (stratified samples in time), and so how many
// independent looks the sum is worth.
type spread map[ccmap.MethodID]*spreadOf

// spreadOf is the spread of one function. Times are in ns, squares in ns².
type spreadOf struct {
	now, last float64 // of this tick and the one before
	sum       float64 // of all ticks
	square    float64 // half the sum of squared differences
	during    float64
	ticks     int
}

// add adds to the time of requests in this tick.
func (s spread) add(entry ccmap.MethodID, weight int64) {
	of := s[entry]
	if of == nil {
		of = new(spreadOf)
		s[entry] = of
	}
	of.now += float64(weight)
}

// tick ends a tick.
func (s spread) tick(elapsed int64) {
	for _, of := range s {
		if of.ticks > 0 {
			d := of.now - of.last
			of.square += d * d / 2
		}
		of.sum += of.now
		of.during += float64(elapsed)
		of.last, of.now = of.now, 0
		of.ticks++
	}
}

// fewTicks do not tell a spread.
const fewTicks = 10

// comments says how far apart independent looks are.
func (s spread) comments(names *ccmap.Names) (all []string) {
	for _, entry := range slices.Sorted(maps.Keys(s)) {
		of := s[entry]
		if of.ticks < fewTicks || of.sum == 0 {
			continue
		}
		each := time.Duration(of.during * of.square / (of.sum * of.sum))
		all = append(all, fmt.Sprintf("%s%s: an independent look each %v", ccmap.CommentRequests, names.At(entry).Name, max(each, 1)))
	}
	return all
}
