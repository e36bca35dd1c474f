package export

import (
	"iter"

	"github.com/ccmapd/ccmapd/ccmap"
)

// The calls of burst points are samples of their own, which count nothing else:
// the method that was reached on top, then the call site and its callers. What is
// known of no method has the call site on top. Labels say what a sample is.
const (
	receiverLabel = "receiver" // of any sample: the receiver type of the method on top
	hitLabel      = "hit"      // of these samples: a hitKind
	contextLabel  = "context"  // of these samples: anyContext, or missing
	anyContext    = "any"      // the point is that of all contexts
)

// hitKind says what of a point a sample counts.
type hitKind string

const (
	hitTarget hitKind = "target" // one value: the method on top
	hitOther  hitKind = "other"
	hitAged   hitKind = "aged"
	hitNull   hitKind = "null"
	hitUntold hitKind = "untold" // Count, of a point that knows of no values
)

// hit is a sample that counts what a point does.
type hit struct {
	kind   hitKind
	target ccmap.MethodID // of hitTarget; else 0
	count  int64
}

// appendHits appends what a point consists of.
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

// hits returns what all points consist of. Those of any context come before
// others of their site.
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

// putHits writes the samples of all points. What the point of any context counts,
// and no context of the same site does, it alone has.
func (p *pprofBuilder) putHits() {
	alone := newLoneHits(p.c)
	for point, h := range p.c.hits() {
		if point.Callers == nil {
			p.putHit(point, h, alone.take(point, h), h.count)
		} else {
			p.putHit(point, h, h.count, 0)
		}
	}
}

// putHit writes one sample.
func (p *pprofBuilder) putHit(point *ccmap.Point, h hit, hits, siteHits int64) {
	clear(p.values)
	p.values[len(p.values)-2], p.values[len(p.values)-1] = hits, siteHits
	p.locations = p.locations[:0]
	if h.kind == hitTarget {
		p.locations = append(p.locations, p.frameLocation(frame{int(h.target), 0}, false))
	}
	p.locations = append(p.locations, p.frameLocation(frame{int(point.Method), point.Offset}, true))
	for _, f := range point.Callers {
		p.locations = append(p.locations, p.frameLocation(frame{int(f.Method), f.Offset}, true))
	}
	p.encoder.putSample(p.locations, p.values, p.hitLabels(h, point.Callers == nil))
}

// hitLabels returns the labels of a sample of a point.
func (p *pprofBuilder) hitLabels(h hit, inAnyContext bool) (labels []label) {
	if inAnyContext {
		labels = append(labels, label{contextLabel, anyContext})
	}
	labels = append(labels, label{hitLabel, string(h.kind)})
	if h.kind == hitTarget {
		labels = receiverLabels(labels, p.c.methods[h.target])
	}
	return labels
}

// receiverLabels appends the label of a sample with this method on top, if it has a
// receiver.
func receiverLabels(to []label, top ccmap.Method) []label {
	if top.Receiver == "" {
		return to
	}
	return append(to, label{receiverLabel, top.Receiver})
}
