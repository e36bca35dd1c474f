package export

import (
	"iter"

	"github.com/google/pprof/profile"

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

// addHits adds the samples of all points. What the point of any context counts,
// and no context of the same site does, it alone has.
func (p *pprofBuilder) addHits() {
	alone := newLoneHits(p.c)
	for point, h := range p.c.hits() {
		if point.Callers == nil {
			p.addHit(point, h, alone.take(point, h), h.count)
		} else {
			p.addHit(point, h, h.count, 0)
		}
	}
}

// addHit adds one sample.
func (p *pprofBuilder) addHit(point *ccmap.Point, h hit, hits, siteHits int64) {
	s := &profile.Sample{
		Location: make([]*profile.Location, 0, 2+len(point.Callers)),
		Value:    make([]int64, len(p.SampleType)),
		Label:    p.hitLabels(h, point.Callers == nil),
	}
	s.Value[len(s.Value)-2], s.Value[len(s.Value)-1] = hits, siteHits
	if h.kind == hitTarget {
		s.Location = append(s.Location, p.frameLocation(frame{int(h.target), 0}, false))
	}
	s.Location = append(s.Location, p.frameLocation(frame{int(point.Method), point.Offset}, true))
	for _, f := range point.Callers {
		s.Location = append(s.Location, p.frameLocation(frame{int(f.Method), f.Offset}, true))
	}
	p.Sample = append(p.Sample, s)
}

// hitLabelled is what the labels of a sample of a point depend on.
type hitLabelled struct {
	kind     hitKind
	any      bool
	receiver string // of hitTarget
}

// hitLabels returns the labels of samples, which are shared: there are far fewer
// of them.
func (p *pprofBuilder) hitLabels(h hit, inAnyContext bool) map[string][]string {
	key := hitLabelled{kind: h.kind, any: inAnyContext}
	if h.kind == hitTarget {
		key.receiver = p.c.methods[h.target].Receiver
	}
	if labels := p.labelsOfHits[key]; labels != nil {
		return labels
	}
	labels := map[string][]string{hitLabel: {string(h.kind)}}
	if inAnyContext {
		labels[contextLabel] = []string{anyContext}
	}
	if key.receiver != "" {
		labels[receiverLabel] = []string{key.receiver}
	}
	p.labelsOfHits[key] = labels
	return labels
}

// receiverLabels returns the labels of samples, by the method on top; nil where it
// has no receiver.
func receiverLabels(methods []ccmap.Method) []map[string][]string {
	labels := make([]map[string][]string, len(methods))
	for i, m := range methods {
		if m.Receiver != "" {
			labels[i] = map[string][]string{receiverLabel: {m.Receiver}}
		}
	}
	return labels
}
