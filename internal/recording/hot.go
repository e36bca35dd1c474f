package recording

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/ccmap/query"
	"github.com/ccmapd/ccmapd/internal/figure"
	"github.com/ccmapd/ccmapd/manager"
)

// Hot describes a method, edge or path that has become hot, for a compiler or a person to act on. As JSON it has the
// schema "hot" of docs/commands.schema.json, which is made from the tags here. Names are foreign: terminal.LineJSON
// writes them.
type Hot struct {
	Kind      string   `json:"kind" doc:"what is hot: method, edge or path"`
	Method    Place    `json:"method" doc:"the hot method, the callee of the edge, or the last method of the path"`
	Caller    *Place   `json:"caller,omitempty" doc:"of the edge, at its call"`
	Path      string   `json:"path,omitempty" doc:"the path as it was asked for: A > B > C"`
	Threshold string   `json:"threshold" doc:"that was crossed: a CPU time, 10s, or a share of the recent CPU time, 1%/10m"`
	Ever      Amount   `json:"ever" doc:"since the profile began; an edge counts for each of its occurrences in a sample"`
	Recent    *Recent  `json:"recent,omitempty" doc:"in the window of the threshold, or in that of the profile if the threshold is a time"`
	Callers   []Caller `json:"callers" doc:"calls that lead to the method or to the first method of the edge or path, the hottest first: at most 8"`
	Others    *Others  `json:"other_callers,omitempty" doc:"all further callers"`
	NoCaller  float64  `json:"no_caller_percent,omitempty" doc:"share of stacks that begin there, or whose callers were pruned (%)"`
	Calls     []Call   `json:"calls" doc:"call sites in the method, the hottest first: at most 8; of an edge its own site alone"`
	Points    []Point  `json:"points" doc:"profile points of the method, in any context, the most frequent first: at most 8"`
}

// Place is a method, or a call in it.
type Place struct {
	Method    string `json:"method" doc:"name of the method"`
	Signature string `json:"signature,omitempty" doc:"tells methods of one name apart"`
	File      string `json:"file,omitempty" doc:"file of the source"`
	Line      int32  `json:"line,omitempty" doc:"line of the declaration or, in a call, of the call"`
	Position  string `json:"position,omitempty" doc:"of a call whose line is unknown, or may have several calls: +0x3c"`
}

// Amount has counters.
type Amount struct {
	Samples     int64 `json:"samples" doc:"samples taken there"`
	Time        int64 `json:"time_ns" doc:"weight, CPU time for example (the profile's unit)"`
	Activations int64 `json:"activations" doc:"calls that samples have seen (calls)"`
}

// Recent is a part of the recent time.
type Recent struct {
	Window  int64   `json:"window_ns" doc:"time constant of what is recent"`
	Time    int64   `json:"time_ns" doc:"weight in the window (the profile's unit)"`
	Percent float64 `json:"percent" doc:"of all recent time (%)"`
}

// Caller is a call of what is hot, with its share of all calls.
type Caller struct {
	Place
	Percent float64 `json:"percent" doc:"share of what is hot (%)"`
}

// Others are callers that are not listed.
type Others struct {
	Callers int     `json:"callers" doc:"how many"`
	Percent float64 `json:"percent" doc:"their share of what is hot (%)"`
}

// Call is a call site.
type Call struct {
	Line     int32   `json:"line,omitempty" doc:"line of the call"`
	Position string  `json:"position,omitempty" doc:"of a call whose line is unknown, or may have several calls: +0x3c"`
	Percent  float64 `json:"percent" doc:"share of the calls of the method (%)"`
	Targets  int     `json:"targets" doc:"methods called there, by samples and points; more may come"`
	Target   string  `json:"target,omitempty" doc:"the single method called there, if there is one"`
}

// Point is a profile point in short.
type Point struct {
	Kind     string  `json:"kind" doc:"call, block, branch, switch, type or thrown"`
	Origin   string  `json:"origin" doc:"who counted it"`
	Line     int32   `json:"line,omitempty" doc:"line of the point"`
	Position string  `json:"position,omitempty" doc:"of a point whose line is unknown, or may have several points: +0x3c"`
	Count    int64   `json:"count" doc:"executions counted"`
	Values   int     `json:"values" doc:"different values that are known"`
	Top      string  `json:"top,omitempty" doc:"the most frequent value: a method or a number"`
	Percent  float64 `json:"top_percent,omitempty" doc:"its share of the executions (%)"`
}

const (
	// mostListed bounds each list of an event. The daemon keeps hundreds of events.
	mostListed = 8
	// longestName bounds each name of an event, bytes.
	longestName = 512
)

// Kinds of what is hot.
const (
	hotMethod = "method"
	hotEdge   = "edge"
	hotPath   = "path"
)

// HotOf describes an event. It takes time in proportion to the call sites that it is about, of a path to the nodes of
// the map. It keeps nothing of the snapshot.
func HotOf(e manager.Event) Hot {
	h := describer{e.Snapshot, e.Snapshot.Names()}
	hot := Hot{
		Kind: hotMethod, Method: h.declared(e.Method), Threshold: e.Threshold.String(), Recent: h.recent(e),
		Ever:  Amount{e.Counters.Samples, e.Counters.Time, e.Counters.Activations},
		Calls: h.calls(e), Points: h.points(e.Method),
	}
	switch {
	case e.Path != nil:
		hot.Kind, hot.Path = hotPath, clip(e.Path.String())
	case e.Caller != ccmap.NoMethod:
		caller := h.called(ccmap.Frame{Method: e.Caller, Offset: e.Offset})
		hot.Kind, hot.Caller = hotEdge, &caller
	}
	hot.Callers, hot.Others, hot.NoCaller = h.callers(e)
	return hot
}

// Text returns the event in a line. Its names are foreign.
func (h Hot) Text() string {
	what := h.Method.Method
	switch h.Kind {
	case hotPath:
		what = h.Path
	case hotEdge:
		what = h.Caller.Method + h.Caller.at() + " > " + what
	}
	text := fmt.Sprintf("%s has reached %v of CPU time", what, roundly(time.Duration(h.Ever.Time)))
	if strings.Contains(h.Threshold, "%") {
		text = fmt.Sprintf("%s has %s of the recent CPU time, over %s", what, figure.Percent(h.Recent.Percent), h.Threshold)
	}
	if len(h.Callers) > 0 {
		text += fmt.Sprintf("; %s by %s", figure.Percent(h.Callers[0].Percent), h.Callers[0].Method+h.Callers[0].at())
	}
	return text
}

// at returns where a call is in its method: ":12", "+0x3c", or nothing.
func (p Place) at() string {
	if p.Line != 0 {
		return ":" + strconv.Itoa(int(p.Line))
	}
	return p.Position
}

func roundly(t time.Duration) time.Duration {
	if t < 10*time.Second {
		return t.Round(time.Millisecond)
	}
	return t.Round(time.Second)
}

// describer describes parts of a snapshot.
type describer struct {
	s     *ccmap.Snapshot
	names *ccmap.Names
}

func (d describer) declared(id ccmap.MethodID) Place {
	m := d.names.At(id)
	return Place{Method: clip(m.Title()), Signature: clip(m.Signature), File: clip(m.File), Line: m.StartLine}
}

// called returns the place of a call in its caller.
func (d describer) called(f ccmap.Frame) Place {
	p := d.declared(f.Method)
	p.Line, p.Position = d.position(f)
	return p
}

// position returns the line of a call, and its offset where the line does not tell all.
func (d describer) position(f ccmap.Frame) (line int32, position string) {
	c := d.names.At(f.Method).Coordinate
	if line = d.names.Line(f); line == 0 || c != ccmap.CoordinateLine {
		position = c.Format(f.Offset)
	}
	return line, position
}

// recent returns the recent time of what is hot, in the window of its threshold if that has one; nil: it is not known.
func (d describer) recent(e manager.Event) *Recent {
	if w := e.Threshold.Window; w > 0 {
		return &Recent{int64(w), int64(e.Recent), e.Percent}
	}
	recent, ok := d.s.Recent()
	if !ok {
		return nil
	}
	now := countersIn(recent, e)
	return &Recent{int64(d.s.Meta().Window), now.Time, figure.Share(weight(now), weight(recent.Total()))}
}

// countersIn returns the counters of an event's method, edge or path in a snapshot.
func countersIn(s *ccmap.Snapshot, e manager.Event) ccmap.Counters {
	if e.Path != nil {
		return countPath(s, e.Path).Distinct
	}
	if e.Caller != ccmap.NoMethod {
		return s.Ref([]ccmap.PathElem{{Method: e.Caller, Site: e.Offset}, {Method: e.Method}})
	}
	m, _ := s.Method(e.Method)
	return m.Cumulative()
}

// countPath counts a path that had methods when the event was raised. A name may have become ambiguous since: then
// nothing is known.
func countPath(s *ccmap.Snapshot, p query.Path) query.Result {
	q, err := query.New(s, p, query.Named)
	if err != nil {
		return query.Result{}
	}
	return q.Count()
}

func weight(c ccmap.Counters) int64 { return cmp.Or(c.Time, c.Samples) }

// above is a call that leads to what is hot.
type above struct {
	call   ccmap.Frame
	weight int64
}

// callers returns the calls that lead to what is hot.
func (d describer) callers(e manager.Event) (first []Caller, others *Others, none float64) {
	all, whole := d.above(e)
	slices.SortFunc(all, func(a, b above) int {
		return cmp.Or(cmp.Compare(a.call.Method, b.call.Method), cmp.Compare(a.call.Offset, b.call.Offset))
	})
	first = listed(all, func(a above) int64 { return a.weight }, func(a above) Caller {
		return Caller{d.called(a.call), figure.Share(a.weight, whole)}
	})
	var known, rest int64
	for i, a := range all {
		if known += a.weight; i >= mostListed {
			rest += a.weight
		}
	}
	if n := len(all) - len(first); n > 0 {
		others = &Others{n, figure.Share(rest, whole)}
	}
	return first, others, figure.Share(max(whole-known, 0), whole)
}

// above returns the calls one step above what is hot, and the weight of all occurrences.
func (d describer) above(e manager.Event) (all []above, whole int64) {
	add := func(call ccmap.Frame, c ccmap.Counters) {
		if call.Method >= ccmap.FirstID && call.Method != ccmap.NoMethod && !c.IsZero() {
			all = append(all, above{call, weight(c)})
		}
	}
	switch {
	case e.Path != nil:
		r := countPath(d.s, e.Path)
		for _, n := range r.Callers {
			add(n.Call, n.Total)
		}
		return all, weight(r.Total)
	case e.Caller != ccmap.NoMethod:
		edge, ok := d.edge(e)
		if !ok {
			return nil, 0
		}
		for ref := range edge.Contexts() {
			path := ref.Path()
			add(path[len(path)-1], ref.Total())
		}
		return all, weight(edge.Total())
	}
	m, _ := d.s.Method(e.Method)
	for edge := range m.Callers() {
		add(ccmap.Frame{Method: edge.Caller(), Offset: edge.Offset()}, edge.Total())
	}
	return all, weight(m.Total())
}

// edge returns the hot edge.
func (d describer) edge(e manager.Event) (ccmap.Callee, bool) {
	m, _ := d.s.Method(e.Method)
	for edge := range m.Callers() {
		if edge.Caller() == e.Caller && edge.Offset() == e.Offset {
			return edge, true
		}
	}
	return ccmap.Callee{}, false
}

// calls returns the hottest call sites of the hot method, or the site of the hot edge.
func (d describer) calls(e manager.Event) []Call {
	of := e.Method
	if e.Caller != ccmap.NoMethod {
		of = e.Caller
	}
	m, _ := d.s.Method(of)
	points := d.pointsOf(of)
	var sites []ccmap.CallSite
	var whole int64
	for site := range m.CallSites() {
		whole += weight(site.Total())
		if e.Caller == ccmap.NoMethod || site.Offset() == e.Offset {
			sites = append(sites, site)
		}
	}
	return listed(sites, func(s ccmap.CallSite) int64 { return weight(s.Total()) }, func(s ccmap.CallSite) Call {
		return d.call(s, points, whole)
	})
}

// listed describes as many things as an event lists, the hottest first. The list is never nil.
func listed[T, Described any](things []T, heat func(T) int64, describe func(T) Described) []Described {
	slices.SortStableFunc(things, func(a, b T) int { return cmp.Compare(heat(b), heat(a)) })
	all := []Described{}
	for _, t := range things[:min(len(things), mostListed)] {
		all = append(all, describe(t))
	}
	return all
}

// call describes a call site by the samples, and by the points of its method.
func (d describer) call(site ccmap.CallSite, points []ccmap.Point, whole int64) Call {
	c := Call{Percent: figure.Share(weight(site.Total()), whole)}
	c.Line, c.Position = d.position(ccmap.Frame{Method: site.Caller(), Offset: site.Offset()})
	targets := make(map[ccmap.MethodID]bool)
	for callee := range site.Callees() {
		if callee.Callee() >= ccmap.FirstID && !callee.Total().IsZero() {
			targets[callee.Callee()] = true
		}
	}
	more := 0 // receivers that are known not to be among the targets
	for _, p := range points {
		if p.Kind != ccmap.PointCall || p.Callers != nil || p.Offset != site.Offset() {
			continue
		}
		for _, v := range p.Values {
			targets[ccmap.MethodID(v.Value)] = true
		}
		if p.Other > 0 {
			more = 1
		}
	}
	if c.Targets = len(targets) + more; c.Targets == 1 {
		for id := range targets {
			c.Target = clip(d.names.At(id).Title())
		}
	}
	return c
}

// points returns the most frequent points of a method.
func (d describer) points(of ccmap.MethodID) []Point {
	var own []ccmap.Point
	for _, p := range ccmap.SumPhases(d.pointsOf(of)) {
		if p.Callers == nil {
			own = append(own, p)
		}
	}
	return listed(own, func(p ccmap.Point) int64 { return p.Count }, d.point)
}

func (d describer) pointsOf(of ccmap.MethodID) (own []ccmap.Point) {
	for _, p := range d.s.Points() {
		if p.Method == of {
			own = append(own, p)
		}
	}
	return own
}

func (d describer) point(p ccmap.Point) Point {
	out := Point{Kind: p.Kind.String(), Origin: p.Origin.String(), Count: p.Count, Values: len(p.Values)}
	out.Line, out.Position = d.position(ccmap.Frame{Method: p.Method, Offset: p.Offset})
	if len(p.Values) == 0 {
		return out
	}
	top := slices.MaxFunc(p.Values, func(a, b ccmap.PointValue) int { return cmp.Compare(a.Count, b.Count) })
	out.Top, out.Percent = strconv.FormatUint(top.Value, 10), figure.Share(top.Count, p.Count)
	if p.Kind.HasMethods() {
		out.Top = clip(d.names.At(ccmap.MethodID(top.Value)).Title())
	}
	return out
}

// clip cuts a name that is too long for an event.
func clip(name string) string {
	const cut = "…"
	if len(name) <= longestName {
		return name
	}
	end := longestName - len(cut)
	for end > 0 && !utf8.RuneStart(name[end]) {
		end--
	}
	return name[:end] + cut
}
