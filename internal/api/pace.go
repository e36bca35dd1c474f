package api

import (
	"context"
	"maps"
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
// time are paid for by the time that passes, one after another, so pages come one after another, too. Users pay each for
// their own, with equal parts of the share: one who asks without pause makes others' pages wait longer by their number, and
// not for what it asks. Any goroutine may call it.
type pace struct {
	now func() time.Time

	mu   sync.Mutex
	paid map[string]time.Time // when all answers of a user are paid for: of those who have not yet
}

func newPace(now func() time.Time) *pace { return &pace{now: now, paid: make(map[string]time.Time)} }

// mostPayers bounds the users that have accounts: all others have one together.
const mostPayers = 100

// charge tells of the CPU time of an answer to a user.
func (p *pace) charge(user string, cpu time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	maps.DeleteFunc(p.paid, func(_ string, at time.Time) bool { return !at.After(now) })
	user = p.account(user)
	from, waits := p.paid[user]
	users := len(p.paid)
	if !waits {
		from, users = now, users+1
	}
	until := from.Add(time.Duration(float64(cpu) * float64(users) / liveShare))
	if latest := now.Add(mostAsk); until.After(latest) {
		until = latest
	}
	p.paid[user] = until
}

// account returns whose account a user's is.
func (p *pace) account(user string) string {
	if _, has := p.paid[user]; has || len(p.paid) < mostPayers {
		return user
	}
	return ""
}

// after returns how long a page of a user should wait.
func (p *pace) after(user string) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return min(max(p.paid[p.account(user)].Sub(p.now()), leastAsk), mostAsk)
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
