package managed

import (
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/compilation"
)

// Cached is what an earlier run of the VM's program has left: what its compiler made of methods, and their profile. A
// VM that compiles can use it before it knows anything by itself. It never adds to what is counted now.
//
//	profile, points   written by ReadCached only
//	records … looked  under mu
type Cached struct {
	profile *ccmap.Snapshot
	points  map[compilation.Method][]int // indices of points of the profile, by the method without its code

	mu      sync.Mutex
	records *compilation.Cache
	looked  map[placeOfCall]receiversSeen // at the last look
}

// ReadCached reads the log that [Options].Records has got, and takes the profile of that run, or the best one of that
// build. What is damaged in the log is left out. The profile may be nil: then methods have levels, and no points.
func ReadCached(records io.Reader, profile *ccmap.Snapshot) (*Cached, error) {
	log, err := compilation.Read(records)
	if err != nil {
		return nil, err
	}
	c := &Cached{
		profile: profile, points: make(map[compilation.Method][]int), records: compilation.NewCache(log.Records),
		looked: make(map[placeOfCall]receiversSeen),
	}
	if profile == nil {
		return c, nil
	}
	for i, p := range profile.Points() {
		m := withoutBody(methodOf(profile.Names(), p.Method))
		c.points[m] = append(c.points[m], i)
	}
	return c, nil
}

func methodOf(names *ccmap.Names, id ccmap.MethodID) compilation.Method {
	m := names.At(id)
	return compilation.Method{Name: m.Name, Signature: m.Signature, Body: m.Body}
}

func withoutBody(m compilation.Method) compilation.Method {
	m.Body = 0
	return m
}

// Cached returns the level at which an earlier run had compiled a method, and the points of its profile, of
// [ccmap.OriginCached] and in the ids of this profiler's names. Level 0 means that there is nothing to be used: the
// method was not compiled, is another one now (its code has another hash), or its cached profile was wrong ten times.
func (p *Profiler) Cached(method ccmap.MethodID) (level int, points []ccmap.Point) {
	c := p.cached
	if c == nil {
		return 0, nil
	}
	m := methodOf(p.sink.Names, method)
	c.mu.Lock()
	level = c.records.Level(m)
	c.mu.Unlock()
	if level == 0 {
		return 0, nil
	}
	for _, i := range c.points[withoutBody(m)] {
		points = append(points, c.translate(p.sink.Names, c.profile.Points()[i], method))
	}
	return level, points
}

// translate returns a point of the cached profile in the ids of another table.
func (c *Cached) translate(to *ccmap.Names, q ccmap.Point, method ccmap.MethodID) ccmap.Point {
	id := func(m ccmap.MethodID) ccmap.MethodID {
		old := c.profile.Names().At(m)
		old.Body = 0 // of the earlier build
		return to.Intern(old)
	}
	q.Origin, q.Method = ccmap.OriginCached, method
	q.Callers = slices.Clone(q.Callers)
	for i := range q.Callers {
		q.Callers[i].Method = id(q.Callers[i].Method)
	}
	q.Values = slices.Clone(q.Values)
	for i := range q.Values {
		if q.Kind.HasMethods() {
			q.Values[i].Value = uint64(id(ccmap.MethodID(q.Values[i].Value)))
		}
	}
	return q
}

// DefaultScale is the part of the usual threshold after which a method with a cached profile should be compiled.
const DefaultScale = 0.01

// Threshold returns the part of the VM's usual threshold after which it should compile a method: 1 unless the method
// has a cached profile. Then it is what [Options].Threshold says, or [DefaultScale]. It is for [manager.Thresholds],
// too, as Scale.
func (p *Profiler) Threshold(method ccmap.MethodID) float64 {
	if p.cached == nil {
		return 1
	}
	p.cached.mu.Lock()
	level := p.cached.records.Level(methodOf(p.sink.Names, method))
	p.cached.mu.Unlock()
	switch {
	case level == 0:
		return 1
	case p.threshold != nil:
		return p.threshold(method)
	}
	return DefaultScale
}

// Inlined is a call that the VM's compiler came to: Callee at Offset of Caller, the compiled method or one that was
// inlined into it. Why may say why it was inlined or not.
type Inlined struct {
	Caller, Callee ccmap.MethodID
	Offset         uint32
	Inlined        bool
	Why            string
}

// Compiled reports that the VM has compiled a method. Levels below 3 have no profile worth keeping, and leave no
// record; the optimizing compiler's is 4. The record goes to [Options].Records. In the next run, a method whose cached
// profile was out of use has one again.
func (t *Thread) Compiled(method ccmap.MethodID, level int, calls []Inlined) {
	p := t.profiler
	if level < compilation.LevelProfiled {
		return
	}
	names := p.sink.Names
	r := compilation.Record{Method: methodOf(names, method), Time: time.Now().UnixNano(), Level: level, OSR: compilation.NoOSR}
	for _, c := range calls[:min(len(calls), compilation.MostCalls)] {
		r.Calls = append(r.Calls, compilation.Call{
			Caller: textOf(names, c.Caller), Callee: textOf(names, c.Callee), Offset: int(c.Offset), Inlined: c.Inlined, Words: c.Why,
		})
	}
	p.note(r)
}

func textOf(names *ccmap.Names, id ccmap.MethodID) string {
	m := names.At(id)
	return m.Name + m.Signature
}

// Deoptimized reports that compiled code of a method was thrown away, because what its compiler had taken for granted
// did not hold. It counts against the method's cached profile. It reports whether that is out of use now.
func (t *Thread) Deoptimized(method ccmap.MethodID) (out bool) {
	return t.profiler.wrong(methodOf(t.profiler.sink.Names, method))
}

// wrong counts a mismatch of a method's cached profile.
func (p *Profiler) wrong(m compilation.Method) (out bool) {
	if p.cached == nil {
		return false
	}
	p.cached.mu.Lock()
	r, out := p.cached.records.Wrong(m, time.Now().UnixNano())
	p.cached.mu.Unlock()
	if r.Wrong > 0 {
		p.note(r)
	}
	return out
}

// note appends a record to the log. If it cannot be written, later ones are not tried: the log may end within a line.
func (p *Profiler) note(r compilation.Record) {
	p.recording.Lock()
	defer p.recording.Unlock()
	if p.records == nil {
		return
	}
	text, err := compilation.Append(nil, r)
	if err == nil {
		_, err = p.records.Write(text)
	}
	if err != nil {
		p.logger.Warn("compile records end", "error", fmt.Errorf("append compile record: %w", err))
		p.records = nil
	}
}

// A site of the cached profile is wrong if the receiver that had nearly all of its calls has less than half of new ones.
const (
	dominantShare, wrongShare = 0.9, 0.5
	fewestCalls               = 30 // new calls that say something
)

// placeOfCall is a call site.
type placeOfCall struct {
	method ccmap.MethodID
	offset uint32
}

// receiversSeen are the calls of a site that a look has seen.
type receiversSeen struct{ all, dominant int64 }

// Look holds what is counted now against the cached profile, and counts a mismatch for each call site whose dominant
// receiver has become another one: once for each look in which the site has 30 calls more. Call it every 10 s or so,
// with a later snapshot each time. It returns the methods whose cached profiles are out of use now.
func (p *Profiler) Look(s *ccmap.Snapshot) (out []ccmap.MethodID) {
	c := p.cached
	if c == nil {
		return nil
	}
	live := receiversOf(s)
	for method, sites := range live {
		level, points := p.Cached(method)
		if level == 0 {
			continue
		}
		for _, q := range points {
			if seen, there := sites[q.Offset]; there && p.isWrong(q, seen) && p.wrong(methodOf(p.sink.Names, method)) {
				out = append(out, method)
				break
			}
		}
	}
	slices.Sort(out)
	return out
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
	at := placeOfCall{cached.Method, cached.Offset}
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
