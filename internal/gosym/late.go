package gosym

import (
	"context"
	"maps"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
)

// The bounds of one part of a file that look-ups load.
const (
	maxLateRead = 1 << 28 // bytes
	maxLateWork = 1 << 27 // steps: half a second or so
)

// maxLate is the longest time that look-ups may load for without a pause.
const maxLate = 5 * time.Second

// late is the time that look-ups may spend on loading. The parts of files and the pages of
// tables have half of it each, so that neither waits for the other. A half is negative after
// a load that took longer.
type late struct {
	ctx          context.Context
	parts, pages time.Duration
}

// renew adds time. A half that is full gives its share to the other.
func (l *late) renew(more time.Duration) {
	const most = maxLate / 2
	l.parts += more / 2
	l.pages += more / 2
	over := max(l.parts-most, 0) + max(l.pages-most, 0)
	l.parts = min(min(l.parts, most)+over, most)
	l.pages = min(min(l.pages, most)+over, most)
}

// part is a part of an image that is loaded when a look-up asks for it: its symbols, or
// its call frames. Each has a budget of its own. A part that took more than that is tried
// again, after ever longer pauses: memory may be free by then, or the disk less busy.
type part struct {
	loaded bool
	missed bool // look-ups asked for it, and answered without it
	late   bool // they did so at some time
	pause  int  // calls of Renew until the next try
	last   int  // the last pause; 0: no try took too much
}

// maxPause is the longest pause between two tries, in calls of Renew.
const maxPause = 1 << 10

// Bound ends all loading by look-ups when ctx is done.
func (t *Table) Bound(ctx context.Context) { t.late.ctx = ctx }

// Renew gives look-ups more time to load for. A caller that gives a share of the time that
// passes bounds a hostile target to that share. Look-ups that lacked a file can find more
// now: stale says of an address whether they did, and is nil if no look-up did.
func (t *Table) Renew(more time.Duration) (stale func(pc uint64) bool) {
	t.late.renew(more)
	again := map[*image]bool{}
	for _, im := range t.images {
		for _, p := range []*part{&im.symbolsPart, &im.unwindPart} {
			p.pause = max(p.pause-1, 0)
			if p.missed && p.pause == 0 && t.late.parts > 0 {
				p.missed, again[im] = false, true
			}
		}
	}
	if len(again) == 0 {
		return nil
	}
	stale = func(pc uint64) bool { return again[t.image(pc)] }
	maps.DeleteFunc(t.frames, func(k frameKey, e frameEntry) bool {
		if !stale(k.pc) {
			return false
		}
		t.cached -= len(e.frames)
		return true
	})
	return stale
}

// wants says whether a part must be loaded now.
func (t *Table) wants(p *part) bool {
	if p.loaded {
		return false
	}
	p.missed = p.pause > 0 || t.late.parts <= 0
	p.late = p.late || p.missed
	return !p.missed
}

// mostLacking bounds the files that Lacks tells.
const mostLacking = 16

// Lacks says which files have no call frame information, and which ones look-ups had to do without for a
// while, as comments of a profile: see [ccmap.CommentNoFrames] and [ccmap.CommentUnread].
func (t *Table) Lacks() (comments []string) {
	for _, im := range t.images {
		if im.symbolsPart.late || im.unwindPart.late {
			comments = append(comments, ccmap.CommentUnread+im.path)
		}
		if im.unwind != nil && im.unwind.IsEmpty() {
			comments = append(comments, ccmap.CommentNoFrames+im.path)
		}
	}
	return comments[:min(len(comments), mostLacking)]
}

// loadLate loads a part of an image.
func (t *Table) loadLate(im *image, p *part, load func(*budget)) {
	free := maxHeld - t.held
	b, end := beginLoad(&budget{ctx: t.late.ctx, wait: maxWait, read: maxLateRead, hold: free, steps: maxLateWork, look: maxLateWork}, t.delay)
	watch := b.stopwatch()
	load(b)
	took := watch.took()
	end()
	t.loaded += took
	t.late.parts -= took
	switch {
	case b.spent == nil:
		p.loaded = true
		im.held += free - b.hold
		t.held += free - b.hold
		im.common += b.common
		t.common += b.common
	case !b.ended():
		if p.last == 0 {
			t.log.Warn("not all symbols", "file", im.path, "reason", b.spent)
		}
		p.last = min(max(2*p.last, 1), maxPause)
		p.pause, p.missed, p.late = p.last, true, true
	}
}
