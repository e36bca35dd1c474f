package bpf

import (
	"cmp"
	"math"
	"time"
)

// footprint is the memory of a program of the whole host: of its symbols, its caches and the records that wait.
type footprint struct {
	own    int64  // bytes that no other program holds
	common int64  // bytes that all programs of the same build hold together
	build  string // "": unknown
}

// measure notes the memory that the source takes. The source's goroutine calls it, or Open.
func (s *Source) measure() {
	own, common := s.t.Runtime.Bytes()
	own += int64(cap(s.records)) + s.inbox.Size()
	s.takes.Store(&footprint{own, common, s.t.Target().BuildID})
}

// bytes returns the memory that all members take. The caller holds mu.
func (p *programs) bytes() (all int64) {
	type build struct {
		name   string
		common int64
	}
	counted := make(map[build]bool)
	for _, one := range p.known {
		if one.member == nil || one.closing {
			continue
		}
		f := one.member.takes.Load()
		all += f.own
		if of := (build{f.build, f.common}); f.build == "" || !counted[of] {
			counted[of] = true
			all += f.common
		}
	}
	return all
}

// hasRoom reports whether the members leave room for another one, after those were closed that had no sample for a
// while.
func (p *programs) hasRoom(now time.Time) bool {
	most := p.mostBytes()
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.bytes() >= most {
		one := p.leastUseful(now)
		if one == nil || !one.isIdle(now) {
			return false
		}
		one.close()
	}
	return true
}

// fit closes members until the others fit into their memory. One that had samples lately counts as a program that
// found no memory. It is opened again after a while, if there is room then.
func (p *programs) fit(now time.Time) {
	most := p.mostBytes()
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.bytes() > most {
		one := p.leastUseful(now)
		if one == nil {
			return
		}
		if one.close(); !one.isIdle(now) {
			p.poor++
		}
	}
}

// mostBytes returns the memory that all members may take.
func (p *programs) mostBytes() int64 {
	if p.options.MaxBytes == nil {
		return math.MaxInt64
	}
	return cmp.Or(p.options.MaxBytes(), math.MaxInt64)
}

// close ends the member. The caller holds mu.
func (one *program) close() {
	one.closing = true
	one.stop()
}

// leastUseful returns the member to close: the one that had no sample for the longest or, where all had some
// lately, the one that was opened last. Otherwise programs that do not fit together would take turns, and each
// turn is a load. The caller holds mu.
func (p *programs) leastUseful(now time.Time) (least *program) {
	for _, one := range p.known {
		if one.member == nil || one.closing {
			continue
		}
		if least == nil || one.isLess(least, now) {
			least = one
		}
	}
	return least
}

// isLess reports whether a member is to be closed before another one. The caller holds mu.
func (one *program) isLess(other *program, now time.Time) bool {
	switch idle := one.isIdle(now); {
	case idle != other.isIdle(now):
		return idle
	case idle:
		return one.lastSample().Before(other.lastSample())
	}
	return one.opened.After(other.opened)
}

// isIdle reports whether a member had no sample for a while. The caller holds mu.
func (one *program) isIdle(now time.Time) bool { return now.Sub(one.lastSample()) >= knownFor }

// lastSample returns when the member had its last sample, or was opened. The caller holds mu.
func (one *program) lastSample() time.Time {
	if at := one.member.sampled.Load(); at != 0 {
		return time.Unix(0, at)
	}
	return one.opened
}
