package export

import (
	"cmp"
	"fmt"
	"iter"
	"slices"

	"github.com/ccmapd/ccmapd/ccmap"
)

// The caught calls of burst points are samples of their own, which count nothing else:
// the method that was reached on top, then the call site and its callers. Calls whose
// method is not known have the call site on top. Labels tell the samples apart.
const (
	receiverLabel = "receiver" // of any sample: the receiver type of the method on top
	hitLabel      = "hit"      // of these samples: a hitKind
	contextLabel  = "context"  // of these samples: anyContext, or missing
	anyContext    = "any"      // the point counts in any context
)

// hitKind is the part of a point that a sample counts.
type hitKind string

const (
	hitTarget hitKind = "target" // one value: the method on top
	hitOther  hitKind = "other"
	hitAged   hitKind = "aged"
	hitNull   hitKind = "null"
	hitUntold hitKind = "untold" // Count, of a point that knows of no values
)

// hit is a sample that counts a part of a point.
type hit struct {
	kind   hitKind
	target ccmap.MethodID // of hitTarget; else 0
	count  int64
}

// appendHits appends the parts of a point.
func appendHits(to []hit, p *ccmap.Point) []hit {
	for _, v := range p.Values {
		to = append(to, hit{hitTarget, ccmap.MethodID(v.Value), v.Count})
	}
	for _, h := range []hit{{kind: hitOther, count: p.Other}, {kind: hitAged, count: p.Aged}, {kind: hitNull, count: p.Nulls}} {
		if h.count > 0 || h.count == 0 && h.kind == hitNull {
			to = append(to, h)
		}
	}
	if !p.KnowsValues() {
		to = append(to, hit{kind: hitUntold, count: p.Count})
	}
	return to
}

// hits returns the parts of all points. A point of any context comes before the other
// points of its site.
func (c *canonical) hits() iter.Seq2[*ccmap.Point, hit] {
	return func(yield func(*ccmap.Point, hit) bool) {
		var hits []hit
		for i := range c.points {
			p := &c.points[i]
			hits = appendHits(hits[:0], p)
			for _, h := range hits {
				if !yield(p, h) {
					return
				}
			}
		}
	}
}

// putHits writes the samples of all points. The point of any context has the calls that no
// context of the same site counts.
func (p *pprofBuilder) putHits() {
	alone := newLoneHits(p.c)
	for point, h := range p.c.hits() {
		if point.Callers == nil {
			p.putHit(point, h, alone.takeLone(point, h), h.count)
		} else {
			p.putHit(point, h, h.count, 0)
		}
	}
}

// putHit writes one sample.
func (p *pprofBuilder) putHit(point *ccmap.Point, h hit, hits, siteHits int64) {
	clear(p.values)
	p.values[len(p.values)-2], p.values[len(p.values)-1] = hits, siteHits
	p.hit = p.hit[:0]
	if h.kind == hitTarget {
		p.hit = append(p.hit, p.frameLocation(frame{int(h.target), 0}, false))
	}
	p.hit = append(p.hit, p.frameLocation(frame{int(point.Method), point.Offset}, true))
	for _, f := range point.Callers {
		p.hit = append(p.hit, p.frameLocation(frame{int(f.Method), f.Offset}, true))
	}
	p.sites.cut(mark{})
	for _, id := range slices.Backward(p.hit[1:]) {
		p.sites.put(id)
	}
	p.encoder.putSample(p.hit[0], &p.sites, p.values, p.hitLabels(h, point.Callers == nil))
}

// hitLabels returns the labels of a sample of a point.
func (p *pprofBuilder) hitLabels(h hit, inAnyContext bool) (labels []label) {
	if inAnyContext {
		labels = append(labels, label{contextLabel, anyContext})
	}
	labels = append(labels, label{hitLabel, string(h.kind)})
	if h.kind == hitTarget {
		labels = receiverLabels(labels, &p.c.methods[h.target])
	}
	return labels
}

// receiverLabels appends the label of a sample with this method on top, if it has a
// receiver.
func receiverLabels(to []label, top *ccmap.Method) []label {
	if top.Receiver == "" {
		return to
	}
	return append(to, label{receiverLabel, top.Receiver})
}

// loneHits are the calls that points of any context count beyond the contexts of
// their sites, which come after them.
type loneHits struct {
	of  map[siteHit]int64
	all map[callSite]int64 // at most so many of a site together
}

type callSite struct {
	method ccmap.MethodID
	offset uint32
}

// siteHit is a part of the points of a call site.
type siteHit struct {
	callSite
	kind   hitKind
	target ccmap.MethodID
}

func siteOf(p *ccmap.Point) callSite { return callSite{p.Method, p.Offset} }

func newLoneHits(c *canonical) loneHits {
	l := loneHits{of: make(map[siteHit]int64), all: make(map[callSite]int64)}
	for i := range c.points {
		subtract(l.all, siteOf(&c.points[i]), &c.points[i], c.points[i].Count)
	}
	for p, h := range c.hits() {
		subtract(l.of, siteHit{siteOf(p), h.kind, h.target}, p, h.count)
	}
	return l
}

// subtract takes the count of a context from the count of any context.
func subtract[K comparable](left map[K]int64, key K, p *ccmap.Point, count int64) {
	if p.Callers == nil {
		left[key] = count
	} else if left[key] > 0 {
		left[key] = max(left[key]-count, 0)
	}
}

// takeLone returns how much of a hit in any context is in no other. Points age each at
// their own time, so that a context may know of more calls to a method than the
// point of any context: then others are no more than what is left of the site.
func (l loneHits) takeLone(p *ccmap.Point, h hit) int64 {
	site := siteOf(p)
	n := min(l.of[siteHit{site, h.kind, h.target}], l.all[site])
	l.all[site] -= n
	return n
}

// sampleLabels are the values of our labels of a sample.
type sampleLabels struct {
	receiver string
	hit      hitKind // empty: the sample is not of a point
	any      bool
}

// takeLabel takes in one label, and reports whether it is ours.
func (l *sampleLabels) takeLabel(key, text string) bool {
	switch key {
	case receiverLabel:
		l.receiver = text
	case hitLabel:
		l.hit = hitKind(text)
	case contextLabel:
		l.any = text == anyContext
	default:
		return false
	}
	return true
}

// nameReceivers gives methods the receiver types that labels of any sample say.
func (r *sampleReader) nameReceivers() error {
	if !r.ours || !r.tables.strings.has(receiverLabel) {
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
		f.receiver = cmp.Or(f.receiver, r.labels.receiver)
	}
}

// pprofHit is a sample that counts a part of a burst point.
type pprofHit struct {
	kind   hitKind
	any    bool // the point counts in any context
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

// point returns the part of a point that a sample counts.
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
