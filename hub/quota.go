package hub

import (
	"sync"
	"time"
)

// Quotas bound what one instance, one target and all together may send to this hub.
type Quotas struct {
	Contributions int // of an instance in an hour; default 600
	Bytes         int // of an instance in an hour; default 256 MiB
	Instances     int // of a target, in an hour; default 10,000
	Builds        int // of all; default 1,000
}

func (q Quotas) withDefaults() Quotas {
	set := func(n *int, to int) {
		if *n == 0 {
			*n = to
		}
	}
	set(&q.Contributions, 600)
	set(&q.Bytes, 256<<20)
	set(&q.Instances, 10_000)
	set(&q.Builds, 1000)
	return q
}

// meter counts what has come in this hour. mu guards the rest.
type meter struct {
	Quotas
	mu      sync.Mutex
	hour    time.Time
	used    map[string]*usage          // by instance
	targets map[string]map[string]bool // instances, by target
}

type usage struct{ contributions, bytes int }

// mostSenders bounds the instances, and the targets, that a meter remembers.
const mostSenders = 100_000

// take counts a contribution. It returns what is exceeded, "" if nothing is.
func (m *meter) take(target, instance string, bytes int, now time.Time) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if hour := now.Truncate(time.Hour); hour != m.hour {
		m.hour, m.used, m.targets = hour, make(map[string]*usage), make(map[string]map[string]bool)
	}
	u := m.used[instance]
	switch {
	case u == nil && len(m.used) >= mostSenders, m.targets[target] == nil && len(m.targets) >= mostSenders:
		return "instances of this hub"
	case !m.targets[target][instance] && len(m.targets[target]) >= m.Instances:
		return "instances of this target"
	case u == nil:
		u = &usage{}
		m.used[instance] = u
	case u.contributions >= m.Contributions:
		return "contributions of this instance"
	}
	if u.bytes+bytes > m.Bytes {
		return "bytes of this instance"
	}
	if m.targets[target] == nil {
		m.targets[target] = make(map[string]bool)
	}
	m.targets[target][instance] = true
	u.contributions++
	u.bytes += bytes
	return ""
}
