package api

import (
	"container/heap"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// visits are when pages ask next.
type visits []time.Time

func (v visits) Len() int           { return len(v) }
func (v visits) Less(i, j int) bool { return v[i].Before(v[j]) }
func (v visits) Swap(i, j int)      { v[i], v[j] = v[j], v[i] }
func (v *visits) Push(x any)        { *v = append(*v, x.(time.Time)) }
func (v *visits) Pop() any          { old := *v; x := old[len(old)-1]; *v = old[:len(old)-1]; return x }

// TestPace: however many pages ask when they are told to, and whatever answers cost, these take a share of a core, but
// for the first answer of each page. Where they cost little, pages ask as often as they may.
func TestPace(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		pages, cost := rapid.IntRange(1, 100).Draw(t, "pages"), time.Duration(rapid.IntRange(0, 50_000).Draw(t, "µs"))*time.Microsecond
		now := time.Now()
		p := &pace{now: func() time.Time { return now }}
		begin, used, asked := now, time.Duration(0), 0
		next := make(visits, pages)
		for i := range next {
			next[i] = begin
		}
		const while = time.Hour
		for {
			at := heap.Pop(&next).(time.Time)
			if at.Sub(begin) > while {
				break
			}
			now = at
			p.charge(cost)
			used, asked = used+cost, asked+1
			heap.Push(&next, now.Add(p.after()))
		}
		if most := time.Duration(liveShare*float64(while)) + time.Duration(2*pages)*cost; used > most {
			t.Errorf("%d pages at %v: %v of CPU time in %v, more than %v", pages, cost, used, while, most)
		}
		if often := int(while / leastAsk); cost == 0 && asked < pages*often {
			t.Errorf("%d pages asked %d times", pages, asked)
		}
	})
}
