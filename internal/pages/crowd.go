package pages

import (
	"container/list"
	"net"
	"net/http"
	"sync"
)

// crowd bounds connections: beyond the bound, the one that has waited longest for a request of its client is closed.
// So clients that open connections and do nothing keep nobody out, and a browser connects again.
//
//	mu guards all
type crowd struct {
	most int

	mu      sync.Mutex
	waiting *list.List                 // of net.Conn, the longest first
	at      map[net.Conn]*list.Element // nil for one that is busy
}

func newCrowd(most int) *crowd {
	return &crowd{most: most, waiting: list.New(), at: make(map[net.Conn]*list.Element)}
}

// note is told of each change of a connection ([http.Server.ConnState]).
func (c *crowd) note(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.at[conn]; e != nil {
		c.waiting.Remove(e)
	}
	switch state {
	case http.StateNew, http.StateIdle:
		c.at[conn] = c.waiting.PushBack(conn)
	case http.StateActive:
		c.at[conn] = nil
	default:
		delete(c.at, conn)
	}
	for len(c.at) > c.most && c.waiting.Len() > 0 {
		longest := c.waiting.Remove(c.waiting.Front()).(net.Conn)
		delete(c.at, longest)
		longest.Close()
	}
}
