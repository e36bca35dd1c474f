package api

import (
	"container/heap"
	"strconv"
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
		p := newPace(func() time.Time { return now })
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
			p.charge("a", cost)
			used, asked = used+cost, asked+1
			heap.Push(&next, now.Add(p.after("a")))
		}
		if most := time.Duration(liveShare*float64(while)) + time.Duration(2*pages)*cost; used > most {
			t.Errorf("%d pages at %v: %v of CPU time in %v, more than %v", pages, cost, used, while, most)
		}
		if often := int(while / leastAsk); cost == 0 && asked < pages*often {
			t.Errorf("%d pages asked %d times", pages, asked)
		}
	})
}

// TestPaceOfUsers: a user who asks without pause, or many such, make the page of another one wait for its own answers
// alone, as long as the equal part of a user needs. Together they have one share.
func TestPaceOfUsers(t *testing.T) {
	t.Parallel()
	const cost = 20 * time.Millisecond
	for _, others := range []int{1, 5, mostPayers - 1, 10 * mostPayers} {
		now := time.Now()
		p := newPace(func() time.Time { return now })
		for range 100 {
			for i := range others {
				p.charge(strconv.Itoa(i), cost)
			}
		}
		p.charge("page", cost)
		users := min(others, mostPayers) + 1
		if got, most := p.after("page"), time.Duration(float64(cost)*float64(users)/liveShare); others < mostPayers && got > max(most, leastAsk) {
			t.Errorf("beside %d others a page waits for %v, more than %v", others, got, most)
		}
		if got := p.after("0"); got < time.Duration(100*float64(cost)/liveShare)-time.Second {
			t.Errorf("who asks without pause waits for %v", got)
		}
		if len(p.paid) > mostPayers+1 {
			t.Errorf("%d accounts", len(p.paid))
		}
		now = now.Add(2 * mostAsk)
		p.charge("page", cost)
		if got := p.after("page"); got != leastAsk || len(p.paid) != 1 {
			t.Errorf("when all have paid a page waits for %v, beside %d accounts", got, len(p.paid))
		}
	}
}
