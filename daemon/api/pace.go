package api

import (
	"context"
	"math"
	"net/http"
	"strconv"
	"sync"
	"time"
)

const (
	// liveShare is the part of a core that answers to all pages that follow something may take together.
	liveShare = 0.02
	// leastAsk and mostAsk bound how long a page waits until it asks again: mostAsk is enough for 1,000 pages with
	// answers of 72 ms.
	leastAsk = 2 * time.Second
	mostAsk  = time.Hour
	// askHeader says how many seconds a page should wait until it asks again.
	askHeader = "Ask-After"
)

// pace tells pages when to ask again, so that their answers take a share of a core at most. Answers that have cost CPU
// time are paid for by the time that passes, one after another, so pages come one after another, too. A client that asks
// without pause delays others by mostAsk at most. Any goroutine may call it.
type pace struct {
	now func() time.Time

	mu   sync.Mutex
	paid time.Time // when all answers of before are paid for
}

// charge tells of the CPU time of an answer.
func (p *pace) charge(cpu time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := p.now(); p.paid.Before(now) {
		p.paid = now
	}
	p.paid = p.paid.Add(time.Duration(float64(cpu) / liveShare))
	if latest := p.now().Add(mostAsk); p.paid.After(latest) {
		p.paid = latest
	}
}

// after returns how long a page should wait.
func (p *pace) after() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return min(max(p.paid.Sub(p.now()), leastAsk), mostAsk)
}

type followerKey struct{}

// withFollower notes in a request whether a page sends it that follows something: it has the answer of before. Only such
// requests are paced, and so are only their answers charged: other clients ask when they want to.
func withFollower(r *http.Request) *http.Request {
	if r.Header.Get("If-None-Match") == "" {
		return r
	}
	return r.WithContext(context.WithValue(r.Context(), followerKey{}, true))
}

func follows(ctx context.Context) bool { return ctx.Value(followerKey{}) != nil }

// askAfter returns a time for the header, in seconds, rounded up.
func askAfter(d time.Duration) string { return strconv.Itoa(int(math.Ceil(d.Seconds()))) }
