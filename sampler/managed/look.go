package managed

import (
	"slices"

	"github.com/ccmapd/ccmapd/ccmap"
)

// A site of the cached profile is wrong if the receiver that had nearly all of its calls has less than half of new
// ones.
const (
	dominantShare, wrongShare = 0.9, 0.5
	fewestCalls               = 30 // new calls that say something
)

// placeOfCall is a call site.
type placeOfCall struct {
	method  ccmap.MethodID
	offset  uint32
	sampled bool // samples are counted there, and not calls
}

// receiversSeen are the calls of a site that a look has seen.
type receiversSeen struct{ all, dominant int64 }

// Look holds what is counted now against the cached profile, and counts a mismatch for each call site whose dominant
// receiver has become another one: once for each look in which the site has 30 calls more. Without records
// ([ReadCachedProfile]), samples count for sites where no calls were caught. Call it every 10 s or so, with a later
// snapshot each time. It returns the methods whose cached profiles are out of use now.
func (p *Profiler) Look(s *ccmap.Snapshot) (out []ccmap.MethodID) {
	c := p.cached
	if c == nil {
		return nil
	}
	live := receiversOf(s)
	for method, sites := range live {
		_, points := p.Cached(method)
		for _, q := range points {
			if seen, there := sites[q.Offset]; there && p.isWrong(q, seen) && p.wrong(methodOf(p.sink.Names, method)) {
				out = append(out, method)
				break
			}
		}
	}
	for m := range s.Methods() {
		if c.methods != nil && p.looksWrong(m, live[m.ID()]) && !slices.Contains(out, m.ID()) {
			out = append(out, m.ID())
		}
	}
	slices.Sort(out)
	return out
}

// looksWrong counts mismatches of a method's sites by samples, but of sites where calls were caught. It reports
// whether the cached profile is out of use with that.
func (p *Profiler) looksWrong(m ccmap.MethodProfile, caught map[uint32][]ccmap.PointValue) bool {
	if level, _ := p.Cached(m.ID()); level == 0 {
		return false
	}
	for site := range m.CallSites() {
		if _, there := caught[site.Offset()]; there {
			continue
		}
		q, known := p.cached.sampledPoint(p.sink.Names, m.ID(), site.Offset())
		if known && p.isWrong(q, sampledReceivers(site)) && p.wrong(methodOf(p.sink.Names, m.ID())) {
			return true
		}
	}
	return false
}

// sampledPoint returns the receivers of a call site in the samples of the cached profile, as a point.
func (c *Cached) sampledPoint(to *ccmap.Names, method ccmap.MethodID, offset uint32) (ccmap.Point, bool) {
	id, known := c.methods[withoutBody(methodOf(to, method))]
	if !known {
		return ccmap.Point{}, false
	}
	m, _ := c.profile.Method(id)
	for site := range m.CallSites() {
		if site.Offset() != offset {
			continue
		}
		q := ccmap.Point{Kind: ccmap.PointCall, Offset: offset, Values: sampledReceivers(site)}
		for _, v := range q.Values {
			q.Count += v.Count
		}
		q = c.translate(to, q, method)
		q.Origin = ccmap.OriginSampled
		return q, q.Count >= fewestCalls
	}
	return ccmap.Point{}, false
}

// sampledReceivers returns the samples below each callee of a site, the most first.
func sampledReceivers(site ccmap.CallSite) (all []ccmap.PointValue) {
	for callee := range site.Callees() {
		all = append(all, ccmap.PointValue{Value: uint64(callee.Callee()), Count: callee.Total().Samples})
	}
	slices.SortFunc(all, ccmap.PointValue.Compare)
	return all
}

// receiversOf returns the receivers of calls of any context, by method and offset.
func receiversOf(s *ccmap.Snapshot) map[ccmap.MethodID]map[uint32][]ccmap.PointValue {
	all := make(map[ccmap.MethodID]map[uint32][]ccmap.PointValue)
	for _, q := range ccmap.SumPhases(s.Points()) {
		if q.Kind != ccmap.PointCall || q.Callers != nil {
			continue
		}
		if all[q.Method] == nil {
			all[q.Method] = make(map[uint32][]ccmap.PointValue)
		}
		all[q.Method][q.Offset] = append(all[q.Method][q.Offset], q.Values...)
	}
	return all
}

// isWrong reports whether the calls of a site since the last look that said something are of other receivers than a
// cached point's.
func (p *Profiler) isWrong(cached ccmap.Point, live []ccmap.PointValue) bool {
	if cached.Kind != ccmap.PointCall || cached.Callers != nil || len(cached.Values) == 0 ||
		float64(cached.Values[0].Count) < dominantShare*float64(cached.Count) {
		return false
	}
	var now receiversSeen
	for _, v := range live {
		now.all += v.Count
		if v.Value == cached.Values[0].Value {
			now.dominant += v.Count
		}
	}
	c := p.cached
	c.mu.Lock()
	defer c.mu.Unlock()
	at := placeOfCall{cached.Method, cached.Offset, cached.Origin == ccmap.OriginSampled}
	before := c.looked[at]
	if now.all < before.all { // points were pruned
		before = receiversSeen{}
	}
	if now.all-before.all < fewestCalls {
		return false
	}
	c.looked[at] = now
	return float64(now.dominant-before.dominant) < wrongShare*float64(now.all-before.all)
}
