package pages

import (
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"sync"
	"time"
)

// TokenKept is how long the token may be exchanged.
const TokenKept = time.Minute

// Why a gate is shut for good.
var (
	ErrUsedTwice = errors.New("the secret address was opened twice: somebody else may have it")
	ErrNotOpened = errors.New("nobody has opened the page within a minute")
)

// errNoEntry is the refusal of a token.
var errNoEntry = errors.New("the address of the page is used, too old or wrong")

// Gate lets one page in: a token is exchanged once, soon, for the secret of a session. A second use of the token ends
// the session, because either of the two may be somebody else's. Any goroutine may call it.
type Gate struct {
	now   func() time.Time
	token string
	until time.Time

	mu      sync.Mutex
	session string // "": nobody is in
	shut    chan struct{}
	why     error // is set before shut is closed; nil: it is open
}

// NewGate returns a gate whose token holds from now on. Nil is [time.Now].
func NewGate(now func() time.Time) *Gate {
	if now == nil {
		now = time.Now
	}
	return &Gate{now: now, token: rand.Text(), until: now().Add(TokenKept), shut: make(chan struct{})}
}

// Token is the secret to exchange.
func (g *Gate) Token() string { return g.token }

// Exchange returns the session for the token.
func (g *Gate) Exchange(token string) (session string, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case subtle.ConstantTimeCompare([]byte(token), []byte(g.token)) == 0, g.why != nil:
		return "", errNoEntry
	case g.session != "":
		g.close(ErrUsedTwice)
		return "", errNoEntry
	case !g.now().Before(g.until):
		g.close(ErrNotOpened)
		return "", errNoEntry
	}
	g.session = rand.Text()
	return g.session, nil
}

// Allows reports whether a secret is the session's.
func (g *Gate) Allows(session string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.session != "" && subtle.ConstantTimeCompare([]byte(session), []byte(g.session)) == 1
}

// Expire shuts the gate if nobody has come in time.
func (g *Gate) Expire() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.session == "" && g.why == nil && !g.now().Before(g.until) {
		g.close(ErrNotOpened)
	}
}

// close shuts the gate, under mu.
func (g *Gate) close(why error) {
	g.session, g.why = "", why
	close(g.shut)
}

// Shut is closed when nobody can get in or go on any more; Why says why.
func (g *Gate) Shut() <-chan struct{} { return g.shut }

// Why returns why the gate is shut; nil while it is open.
func (g *Gate) Why() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.why
}
