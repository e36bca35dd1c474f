package export

import (
	"fmt"

	"github.com/ccmapd/ccmapd/ccmap"
)

// sampleLabels are what our labels say of a sample.
type sampleLabels struct {
	receiver string
	hit      hitKind // empty: it is none
	any      bool
}

// take takes in one label. Others than ours are dropped.
func (l *sampleLabels) take(key, text string) {
	switch key {
	case receiverLabel:
		l.receiver = text
	case hitLabel:
		l.hit = hitKind(text)
	case contextLabel:
		l.any = text == anyContext
	}
}

// nameReceivers gives methods the receiver types that labels of any sample say.
func (r *sampleReader) nameReceivers() error {
	if !r.ours {
		return nil
	}
	return r.tables.each(sampleField, func(m message) error {
		locations, err := r.fields(m)
		if err == nil && r.labels.receiver != "" {
			r.nameReceiver(locations)
		}
		return err
	})
}

// nameReceiver gives the method on top the receiver type that a label says. The
// first one counts.
func (r *sampleReader) nameReceiver(locations message) {
	id, _ := varint(locations)
	index, found := r.tables.locations.find(id)
	if !found {
		return
	}
	if l := &r.tables.locations.entries[index]; l.lo < l.hi {
		f := &r.tables.functions.entries[r.tables.lines[l.lo].function]
		f.receiver = firstNonEmpty(f.receiver, r.labels.receiver)
	}
}

// pprofHit is a sample that counts what a burst point does.
type pprofHit struct {
	kind   hitKind
	any    bool // the point is that of any context
	count  int64
	lo, hi uint32 // in the list of the reader: its locations, innermost first
}

// hit takes in a sample of a burst point, so that nothing can be wrong with it
// any more.
func (r *sampleReader) hit(locations message) (err error) {
	h := pprofHit{kind: r.labels.hit, any: r.labels.any, lo: uint32(len(r.hits.locations))}
	least, err := h.kind.frames()
	if err != nil {
		return err
	}
	most := least
	if h.count = valueAt(r.row, r.values.siteHits); !h.any {
		h.count, most = valueAt(r.row, r.values.hits), least+ccmap.MaxPointCallers
	}
	if n := countNumbers(locations); n < least || n > most || h.count < 0 {
		return fmt.Errorf("hit of the kind %q with %d frames, counted %d times", h.kind, n, h.count)
	}
	if r.hits.locations, err = r.appendLocations(r.hits.locations, locations); err != nil {
		return err
	}
	h.hi = uint32(len(r.hits.locations))
	for _, l := range r.hits.locations[h.lo:h.hi] {
		if n := r.tables.locations.entries[l].frames(); n != 1 {
			return fmt.Errorf("hit at a location of %d frames", n)
		}
	}
	r.hits.list, err = keep(r.memory(), r.hits.list, h)
	return err
}

// frames returns how many frames a sample has at least.
func (k hitKind) frames() (int, error) {
	switch k {
	case hitTarget:
		return 2, nil
	case hitOther, hitAged, hitNull, hitUntold:
		return 1, nil
	}
	return 0, fmt.Errorf("hit of the unknown kind %q", clip(string(k)))
}

// addPoints adds all burst points to the builder's map.
func (p *pprofFile) addPoints(b *builder) error {
	if len(p.stacks.hits.list) == 0 {
		return nil
	}
	a, err := p.newAdder(b, once)
	if err != nil {
		return err
	}
	for i := range p.stacks.hits.list {
		point, err := a.point(&p.stacks.hits.list[i])
		if err == nil {
			err = b.countPoint(point)
		}
		if err != nil {
			return fmt.Errorf("hit %d: %w", i, err)
		}
	}
	return nil
}

// point returns what a sample says of its point.
func (a *pprofAdder) point(h *pprofHit) (ccmap.Point, error) {
	p := ccmap.Point{Origin: ccmap.OriginBurst, Kind: ccmap.PointCall, Nulls: ccmap.NullsUnknown}
	frames, err := a.framesOf(a.stacks.hits.locations[h.lo:h.hi])
	if err != nil {
		return p, err
	}
	switch h.kind {
	case hitTarget:
		p.Values = []ccmap.PointValue{{Value: uint64(frames[0].Method), Count: h.count}}
		frames = frames[1:]
	case hitOther:
		p.Other = h.count
	case hitAged:
		p.Aged = h.count
	case hitNull:
		p.Nulls = h.count
	case hitUntold:
		p.Count = h.count
	}
	p.Method, p.Offset, p.End = frames[0].Method, frames[0].Offset, frames[0].Offset
	if !h.any {
		p.Callers = frames[1:]
	}
	return p, nil
}

// framesOf returns the frames of locations that have one each.
func (a *pprofAdder) framesOf(locations []uint32) ([]ccmap.Frame, error) {
	frames := make([]ccmap.Frame, len(locations))
	for i, l := range locations {
		if a.spots[l].hi == 0 {
			if err := a.lookUp(l); err != nil {
				return nil, err
			}
		}
		frames[i] = a.frames[a.spots[l].lo]
	}
	return frames, nil
}
