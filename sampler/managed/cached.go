package managed

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/compilation"
	"github.com/ccmapd/ccmapd/internal/fanin"
)

// Cached is what an earlier run of the VM's program has left: what its compiler made of methods, and their profile. A
// VM that compiles can use it before it knows anything by itself. It never adds to what is counted now.
//
//	profile … fanIn   written once
//	records … spared  under mu
type Cached struct {
	profile *ccmap.Snapshot
	points  map[compilation.Method][]int          // indices of points of the profile, by the method without its code
	methods map[compilation.Method]ccmap.MethodID // likewise, of a profile alone; nil: there are records
	end     int64                                 // of a profile alone, ns since 1970
	calls   map[siteOfCall]bool                   // sites that are known well
	fanIn   func() fanin.List                     // of all methods, made once

	mu      sync.Mutex
	records *compilation.Cache
	looked  map[placeOfCall]receiversSeen // at the last look
	spared  int                           // calls that were left to other sites
}

// siteOfCall is a call site of the cached profile, whatever the code.
type siteOfCall struct {
	method compilation.Method
	offset uint32
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
		looked: make(map[placeOfCall]receiversSeen), calls: make(map[siteOfCall]bool), fanIn: func() fanin.List { return nil },
	}
	if profile == nil {
		return c, nil
	}
	c.fanIn = sync.OnceValue(func() fanin.List { return fanin.Of(profile) })
	for i, p := range profile.Points() {
		m := withoutBody(methodOf(profile.Names(), p.Method))
		c.points[m] = append(c.points[m], i)
		if p.Kind == ccmap.PointCall && p.Count >= knownCalls {
			c.calls[siteOfCall{m, p.Offset}] = true
		}
	}
	return c, nil
}

// ReadCachedProfile takes the profile of an earlier run of a VM whose compiler leaves no records: a method is cached,
// at level 3, if 30 samples have met it. Records is the log of mismatches of earlier runs, or nil: those of another
// profile, which has another end, do not count.
func ReadCachedProfile(records io.Reader, profile *ccmap.Snapshot) (*Cached, error) {
	c, err := ReadCached(strings.NewReader(""), profile)
	if err != nil {
		return nil, err
	}
	c.end = profile.Meta().Start.Add(profile.Meta().Duration).UnixNano()
	c.methods = make(map[compilation.Method]ccmap.MethodID)
	for m := range profile.Methods() {
		c.methods[withoutBody(methodOf(profile.Names(), m.ID()))] = m.ID()
		if m.Cumulative().Samples >= fewestCalls {
			c.records.Add(compilation.Record{Method: methodOf(profile.Names(), m.ID()), Time: c.end, Level: compilation.LevelProfiled, OSR: compilation.NoOSR})
		}
	}
	if records == nil {
		return c, nil
	}
	log, err := compilation.Read(records)
	for _, r := range log.Records {
		if r.Level == 0 && r.Time == c.end {
			c.records.Add(r)
		}
	}
	return c, err
}

// Profile returns the earlier run's profile, or nil.
func (c *Cached) Profile() *ccmap.Snapshot { return c.profile }

// FanIn is for a VM's inliner: from how many places the earlier run has called a method, 21 if from more than 20, and in
// how many samples. It is not known of a method that the run has not met, or that has other code now.
func (c *Cached) FanIn(m ccmap.Method) (places int, samples int64, known bool) {
	e, known := c.fanIn().Find(fanin.KeyOf(m))
	return int(e.Callers), int64(e.Samples), known
}

// Level returns the level at which an earlier run had compiled a method; 0 as for [Profiler.Cached].
func (c *Cached) Level(m ccmap.Method) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.records.Level(compilation.Method{Name: m.Name, Signature: m.Signature, Body: m.Body})
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

// A site whose receivers the cached profile has from knownCalls calls is known well. Of its calls one of sparedOf is
// caught, and the budget goes to the other sites.
const (
	knownCalls = 128
	sparedOf   = 8
)

// spares reports whether a call at a place is left to sites that are less well known.
func (p *Profiler) spares(at ccmap.Frame) bool {
	c := p.cached
	if c == nil || len(c.calls) == 0 {
		return false
	}
	m := methodOf(p.sink.Names, at.Method)
	if !c.calls[siteOfCall{withoutBody(m), at.Offset}] {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.records.Level(m) == 0 {
		return false
	}
	c.spared++
	return c.spared%sparedOf != 0
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
	at := p.cached.end // whose profile was wrong: a better one begins anew
	if p.cached.methods == nil {
		at = time.Now().UnixNano()
	}
	p.cached.mu.Lock()
	r, out := p.cached.records.Wrong(m, at)
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
