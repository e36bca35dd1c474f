package gosym

import (
	"context"
	"time"
)

// The bounds of one part of a file that look-ups load.
const (
	maxLateRead = 1 << 28 // bytes
	maxLateWork = 1 << 27 // steps: half a second or so
)

// maxLate is the longest time that look-ups may load for without a pause.
const maxLate = 5 * time.Second

// late is the time that look-ups may spend on loading symbols and call frames of C.
type late struct {
	ctx    context.Context
	left   time.Duration // negative after a load that took longer
	putOff bool          // something waits until time is left
}

// part is a part of an image that is loaded when a look-up asks for it: its symbols, or
// its call frames. Each has a budget of its own. A part that took more than that is tried
// again, after ever longer pauses: memory may be free by then, or the disk less busy.
type part struct {
	loaded bool
	pause  int // calls of Renew until the next try
	last   int // the last pause; 0: no try took too much
}

// maxPause is the longest pause between two tries, in calls of Renew.
const maxPause = 1 << 10

// Bound ends all loading by look-ups when ctx is done.
func (t *Table) Bound(ctx context.Context) { t.late.ctx = ctx }

// Renew gives look-ups more time to load for. It says whether files can be loaded now that
// could not before. Then it forgets all answers to look-ups. A caller that gives a share of
// the time that passes bounds a hostile target to that share.
func (t *Table) Renew(more time.Duration) (again bool) {
	t.late.left = min(t.late.left+more, maxLate)
	for _, im := range t.images {
		for _, p := range []*part{&im.symbolsPart, &im.unwindPart} {
			if p.pause > 0 {
				p.pause--
				t.late.putOff = t.late.putOff || p.pause == 0
			}
		}
	}
	if again = t.late.putOff && t.late.left > 0; again {
		t.late.putOff = false
		t.forget()
	}
	return again
}

// wants says whether a part must be loaded now.
func (t *Table) wants(p *part) bool {
	if p.loaded || p.pause > 0 {
		return false
	}
	t.late.putOff = t.late.putOff || t.late.left <= 0
	return t.late.left > 0
}

// loadLate loads a part of an image.
func (t *Table) loadLate(im *image, p *part, load func(*budget)) {
	start, free := time.Now(), maxHeld-t.held
	b := &budget{ctx: t.late.ctx, wait: maxWait, read: maxLateRead, hold: free, steps: maxLateWork, look: maxLateWork}
	load(b)
	t.clock(start)
	t.late.left -= time.Since(start)
	switch {
	case b.spent == nil:
		p.loaded = true
		im.held += free - b.hold
		t.held += free - b.hold
	case !b.ended():
		if p.last == 0 {
			t.log.Warn("not all symbols", "file", im.path, "reason", b.spent)
		}
		p.last = min(max(2*p.last, 1), maxPause)
		p.pause = p.last
	}
}
