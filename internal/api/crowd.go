package api

import (
	"context"
	"sync"
	"time"

	"github.com/ccmapd/ccmapd/internal/process"
)

const (
	// pauseOfLooks is how many times longer no look at the tables of sockets is taken than the last one took.
	pauseOfLooks = 9

	unknownUser = "unknown"
)

// crowd bounds the connections over TCP that each user of this machine has: also idle ones, and those
// that have sent half a request. The kernel does not name the peer of a TCP connection, but its tables
// of sockets have the user of each.
//
//  1. While there are few connections in all, no user can have too many, and no table is read.
//  2. Otherwise one look at the tables names the users of all connections that have come before it. An
//     earlier look does not count: another user's socket may have had the port then.
//  3. Any user can make 100,000 sockets, and a look takes the kernel 2 µs for each. So looks take a
//     tenth of a CPU at most, and connections that come meanwhile wait.
//  4. The user of a connection is kept while it is open.
//
// No user is exempt, not even root: a table gives sockets to root that no process has open any more.
// All connections whose user is not known count as one user's: those that the kernel redirects to the
// port, for example. Any goroutine may call leave; the others are for the goroutine that accepts.
type crowd struct {
	owners func([]process.Ends) (map[process.Ends]uint32, error)
	cost   func(look func()) time.Duration // CPU time
	spans  func() []span                   // subordinate numbers of users
	next   time.Time                       // not before which a look is taken

	mu sync.Mutex
	in map[*visit]bool
}

// newCrowd returns a crowd that tells of the CPU time of its looks.
func newCrowd(spent func(cpu time.Duration)) *crowd {
	return &crowd{
		owners: process.SocketOwners, spans: readSpans, in: make(map[*visit]bool),
		cost: func(look func()) (cpu time.Duration) {
			m := meter{spent: func(d time.Duration) { cpu = d; spent(d) }}
			m.start()
			look()
			m.stop()
			return cpu
		},
	}
}

// mustLook reports whether one of the users of some new connections may have too many.
func (c *crowd) mustLook(group []*visit) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for _, v := range group {
		if v.isLocal() {
			n++
		}
	}
	return n > 0 && len(c.in)+n > mostOfOneLocal
}

// awaitLook waits until a look may be taken, or ctx is done.
func (c *crowd) awaitLook(ctx context.Context) {
	timer := time.NewTimer(time.Until(c.next))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// look names the users of all new connections, and of those that are open and have none yet.
func (c *crowd) look(group []*visit) (err error) {
	var local []*visit
	var ends []process.Ends
	for _, v := range append(c.open(), group...) {
		if v.isLocal() && v.user == "" {
			local, ends = append(local, v), append(ends, v.ends)
		}
	}
	var owners map[process.Ends]uint32
	var spans []span
	cpu := c.cost(func() {
		owners, err = c.owners(ends)
		spans = c.spans()
	})
	c.next = time.Now().Add(pauseOfLooks * cpu)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, v := range local {
		v.user = unknownUser
		if uid, ok := owners[v.ends]; ok {
			v.user = whoseIs(uid, spans)
		}
	}
	return err
}

func (c *crowd) open() (all []*visit) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for v := range c.in {
		all = append(all, v)
	}
	return all
}

// enter counts a connection, unless its user has too many. One whose user is not looked up may be
// anybody's.
func (c *crowd) enter(v *visit) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for other := range c.in {
		if v.user == "" || other.user == "" || v.user == other.user {
			n++
		}
	}
	if n >= mostOfOneLocal {
		return false
	}
	c.in[v] = true
	return true
}

func (c *crowd) leave(v *visit) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.in, v)
}
