package view

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/ccmap/query"
	"github.com/ccmapd/ccmapd/internal/figure"
	"github.com/ccmapd/ccmapd/internal/terminal"
)

var requestsQuestion = Question{
	Name:    "requests",
	Subject: OfMethods,
	Layout:  requestsLayout,
	IsWhole: true,
	Short:   "Tell what the requests of a Go server spend their time on",
	Long: `Requests reads a profile of goroutines (--event wall or wait). Of each function that
answers requests it lists how many are in flight on average, and their parts: what they
wait for, below which calls. With the requests counted in the same time (by hardware
breakpoints, where perf events are permitted) each part is in milliseconds a request.

  ms/request  time of the part in flight, over the requests of a second (Little's law)
  in-flight   goroutines that are there on average
  share       of the requests in flight

METHOD is a function that answers requests; by default those of net/http and gRPC, and
those of 'attach --under'. Instead of FILE, a process id or NAME samples that process
for --duration first. docs/waiting.md explains the figures.`,
	Example: `  ccmapd requests 4242                      what the server with this process id does
  ccmapd requests -d 1m --under main.work 4242
  ccmapd requests w.pb.gz                   of a profile by 'attach --event wall'
  ccmapd requests @web --json`,
	New: func() *Form {
		var l List
		depth := uint(3)
		return &Form{
			Params: listParams(&l, 10, requestsLayout,
				Param{Name: "depth", Value: &depth, Help: "tell parts apart by `N` calls, innermost, without Go's own library; 0: by all"}),
			Answer: ofMethods(&l, func(p *Profile) (View, error) { return newRequests(p, l, depth) }),
		}
	},
}

// requests tells what requests spend their time on.
type requests struct {
	entries []requestEntry // the one with most requests in flight first
	more    int            // parts that were cut
	note    string         // why there are none
	profile *Profile
}

// requestEntry is a function that answers requests.
type requestEntry struct {
	method  ccmap.MethodID
	total   ccmap.Counters // of the requests
	came    int64          // requests; 0: not known
	counted int64          // of these that were counted: the others are estimated by them
	parts   []requestPart  // those to be shown
	alike   int64          // of the counted ones, those that would tell as much if they came independently; 0: not known
	during  time.Duration
	look    time.Duration // between two looks that are independent; 0: not known
}

// requestPart is a part of the time of requests.
type requestPart struct {
	reason  string           // the innermost frame, for example "[select]"
	path    []ccmap.MethodID // the innermost calls of the program, and not of the standard library
	total   ccmap.Counters
	entry   *requestEntry
	summary bool // of all parts
}

// Notes on profiles that have no requests.
const (
	notOfWaits = "Requests are in profiles of what goroutines wait for."
	noEntry    = "No stack has a function that answers requests."
	untimed    = "It is not known for how long the profile was taken."
)

// newRequests finds the requests below the methods of a list, or below those that are known to answer requests. Parts are
// told apart by up to depth calls; by all of them if depth is 0.
func newRequests(p *Profile, l List, depth uint) (*requests, error) {
	order, err := requestsLayout.order(l)
	if err != nil {
		return nil, err
	}
	meta, v := p.Meta(), &requests{profile: p}
	switch kind := meta.Unit.Kind(); {
	case kind != "wait" && kind != "wall":
		v.note = notOfWaits
	case meta.Duration <= 0:
		v.note = untimed
	}
	if v.note != "" {
		return v, nil
	}
	counts := p.countedEntries()
	isEntry := answering(p.Names(), l.Methods, counts)
	found := make(map[ccmap.MethodID]*entryParts)
	walkRequests(p.Snapshot, isEntry, func(entry ccmap.MethodID, path []ccmap.MethodID, c ccmap.Counters) {
		e := found[entry]
		if e == nil {
			e = &entryParts{names: p.Names(), depth: depth, index: make(map[string]int)}
			e.method, e.during = entry, meta.Duration
			e.look = p.independentLooks(entry)
			e.came, e.counted = counts[entry].Count, counts[entry].Other
			e.alike = p.countedAlike(entry)
			found[entry] = e
		}
		e.add(path, c)
	})
	if len(found) == 0 {
		v.note = noEntry
	}
	for _, e := range found {
		slices.SortFunc(e.parts, func(a, b requestPart) int {
			return cmp.Or(p.measure.hotter(order, a.total, b.total), cmp.Compare(a.title(p), b.title(p)))
		})
		shown := cut(e.parts, l.Limit)
		v.more += len(e.parts) - len(shown)
		e.parts = shown
		v.entries = append(v.entries, e.requestEntry)
	}
	slices.SortFunc(v.entries, func(a, b requestEntry) int {
		return cmp.Or(cmp.Compare(b.total.Time, a.total.Time), query.Compare(p.Names(), a.method, b.method))
	})
	for i := range v.entries {
		for j := range v.entries[i].parts {
			v.entries[i].parts[j].entry = &v.entries[i]
		}
	}
	return v, nil
}

// countedEntries returns the points that count the calls of whole functions.
func (p *Profile) countedEntries() map[ccmap.MethodID]ccmap.Point {
	counts := make(map[ccmap.MethodID]ccmap.Point)
	for _, q := range p.Points() {
		if q.Origin == ccmap.OriginBurst && q.Offset == ccmap.NoOffset && q.Callers == nil {
			counts[q.Method] = q
		}
	}
	return counts
}

// independentLooks returns how far apart looks at requests are that are independent; 0: the profile does not say. The
// sessions of a merge may differ: the longest time counts.
func (p *Profile) independentLooks(entry ccmap.MethodID) (longest time.Duration) {
	of := ccmap.CommentRequests + p.Names().At(entry).Name + ": an independent look each "
	for _, c := range p.Meta().Comments {
		if text, is := strings.CutPrefix(c, of); is {
			each, _ := time.ParseDuration(text)
			longest = max(longest, each)
		}
	}
	return longest
}

// countedAlike returns how many independent requests would tell as much as those that were counted; 0: the profile does not
// say. The sessions of a merge may differ: the fewest count.
func (p *Profile) countedAlike(entry ccmap.MethodID) (fewest int64) {
	of := ccmap.CommentRequests + p.Names().At(entry).Name + ": counted like "
	for _, c := range p.Meta().Comments {
		if text, is := strings.CutPrefix(c, of); is {
			n, err := strconv.ParseInt(strings.TrimSuffix(text, " independent ones"), 10, 64)
			if err == nil && n > 0 && (fewest == 0 || n < fewest) {
				fewest = n
			}
		}
	}
	return fewest
}

// uncounted says why requests were not counted, as far as the profile knows.
func (p *Profile) uncounted() string {
	for _, c := range p.Meta().Comments {
		if reason, is := strings.CutPrefix(c, ccmap.CommentRequests+"not counted: "); is {
			return reason
		}
	}
	return ""
}

// answering returns which methods answer requests.
func answering(names *ccmap.Names, asked query.Methods, counts map[ccmap.MethodID]ccmap.Point) func(ccmap.MethodID) bool {
	if asked != nil {
		return asked.Has
	}
	known := query.Answering()
	return func(id ccmap.MethodID) bool {
		_, counted := counts[id]
		return counted || slices.Contains(known, names.At(id).Name)
	}
}

// walkRequests calls tell with each stack below an entry, the outermost one: the calls from there on, the innermost last.
func walkRequests(s *ccmap.Snapshot, isEntry func(ccmap.MethodID) bool, tell func(entry ccmap.MethodID, path []ccmap.MethodID, c ccmap.Counters)) {
	below := make([]ccmap.NodeID, s.Len()) // the entry's node; 0: it is below none. Parents come first
	var path []ccmap.MethodID
	for n := range s.Nodes() {
		if below[n.ID] = below[n.Parent]; below[n.ID] == 0 && n.ID != 0 && !n.IsPosition() && isEntry(n.Method) {
			below[n.ID] = n.ID
		}
		if below[n.ID] == 0 || n.Self.Time == 0 && n.Self.Samples == 0 {
			continue
		}
		path = path[:0]
		for at := n; at.ID != below[n.ID]; at = s.Node(at.Parent) {
			if !at.IsPosition() {
				path = append(path, at.Method)
			}
		}
		slices.Reverse(path)
		tell(s.Node(below[n.ID]).Method, path, n.Self)
	}
}

// entryParts makes the parts of an entry.
type entryParts struct {
	requestEntry
	names *ccmap.Names
	depth uint
	index map[string]int // of Parts, by reason and path
}

// add adds the weight of a stack below the entry.
func (e *entryParts) add(path []ccmap.MethodID, c ccmap.Counters) {
	e.total = e.total.Add(c)
	reason := ""
	if last := len(path) - 1; last >= 0 && strings.HasPrefix(e.names.At(path[last]).Name, "[") {
		reason, path = e.names.At(path[last]).Name, path[:last]
	}
	path = slices.DeleteFunc(path, func(id ccmap.MethodID) bool { return isOfLibrary(e.names.At(id).Name) })
	if e.depth > 0 {
		path = path[max(len(path)-int(e.depth), 0):]
	}
	key := []byte(reason)
	for _, id := range path {
		key = binary.NativeEndian.AppendUint32(append(key, 0), uint32(id))
	}
	i, known := e.index[string(key)]
	if !known {
		i = len(e.parts)
		e.index[string(key)] = i
		e.parts = append(e.parts, requestPart{reason: reason, path: slices.Clone(path)})
	}
	e.parts[i].total = e.parts[i].total.Add(c)
}

// isOfLibrary reports whether a function is of Go's standard library: the first element of its package's path has no dot, and
// is not main.
func isOfLibrary(name string) bool {
	first, _, isLong := strings.Cut(name, "/")
	if isLong && !strings.ContainsAny(first, "([") {
		return !strings.Contains(first, ".")
	}
	return !strings.HasPrefix(name, "main.") && !strings.HasPrefix(name, "[")
}

// inFlight returns how many goroutines are there on average.
func (e *requestEntry) inFlight(c ccmap.Counters) float64 { return float64(c.Time) / float64(e.during) }

// each returns the part of a request's time, ns; 0: requests were not counted.
func (e *requestEntry) each(c ccmap.Counters) int64 {
	if e.came == 0 {
		return 0
	}
	return c.Time / e.came
}

// perSecond returns the requests of a second.
func (e *requestEntry) perSecond() float64 { return float64(e.came) / e.during.Seconds() }

// normal95 bounds 95 % of a normal distribution, in standard deviations.
const normal95 = 1.96

// within returns by which part the time of a request is uncertain, at 95 %; 0: not known. Where a profile does not say how
// many independent looks it has, each sample counts as one. Requests that were in flight at the beginning or the end have a part
// of their time outside: twice as many as are in flight, for a time like that of a request each. And where only
// some requests were counted, their number is uncertain by chance.
func (e *requestEntry) within() float64 {
	if e.came == 0 || e.total.Samples == 0 {
		return 0
	}
	n := float64(e.came)
	looks := float64(e.total.Samples)
	if e.look > 0 {
		looks = float64(e.during) / float64(e.look)
	}
	variance := 1/looks + 4*e.inFlight(e.total)/(n*n)
	if e.counted > 0 && e.counted < e.came {
		variance += 1 / float64(min(e.counted, cmp.Or(e.alike, e.counted)))
	}
	return normal95 * math.Sqrt(variance)
}

// wanted is the uncertainty that Entry.enough is for.
const wanted = 0.02

// enough returns how long to sample for an uncertainty of 2 %.
func (e *requestEntry) enough() time.Duration {
	of := e.within() / wanted
	return time.Duration(of * of * float64(e.during))
}

var requestsColumns = columns[*requests]{
	profileMember(func(v *requests) *Profile { return v.profile }),
	array("entries", "the functions that answer requests, the one with most in flight first", entryColumns, func(_ *Profile, v *requests) []*requestEntry {
		rows := make([]*requestEntry, len(v.entries))
		for i := range v.entries {
			rows[i] = &v.entries[i]
		}
		return rows
	}),
	col("", "hidden_parts", "parts that the limit left out", func(v *requests) count { return count(v.more) }),
	col("", "not_counted,omitempty", "why requests were not counted", (*requests).uncounted),
}

var entryColumns = columns[*requestEntry]{
	object("method", "the function", placeColumns, func(p *Profile, e *requestEntry) *place { return declaredAt(p.Names().At(e.method)) }),
	counted("total", "goroutines in the function", func(e *requestEntry) *ccmap.Counters { return &e.total }),
	col("", "in_flight", "requests in flight on average", func(e *requestEntry) float64 { return e.inFlight(e.total) }),
	col("", "requests,omitempty", "requests that came; estimated, if not all were counted", func(e *requestEntry) count { return count(e.came) }),
	col("", "counted,omitempty", "of these, those that were counted", func(e *requestEntry) count { return count(e.counted) }),
	col("", "per_second,omitempty", "requests of a second", func(e *requestEntry) float64 { return e.perSecond() }),
	col("", "request_ns,omitempty", "time of a request on average, ns", func(e *requestEntry) int64 { return e.each(e.total) }),
	col("", "within_percent,omitempty", "by which part of it that is uncertain, at 95 %", func(e *requestEntry) percent { return percent(100 * e.within()) }),
	col("", "enough_ns,omitempty", "how long to sample for an uncertainty of 2 %, ns", func(e *requestEntry) int64 { return int64(e.enough()) }),
	array("parts", "what the requests do, most time first", partsColumns, func(_ *Profile, e *requestEntry) []requestPart { return e.parts }),
}

var partsColumns = append(
	inline(amountColumns, func(_ *Profile, r requestPart) *ccmap.Counters { return &r.total }),
	colIn("share", "share_percent", "share of the requests in flight", func(p *Profile, r requestPart) percent {
		return percent(figure.Share(p.measure.of(r.total), p.measure.of(r.entry.total)))
	}),
	col("in-flight", "in_flight", "goroutines that are there on average", func(r requestPart) float64 { return r.entry.inFlight(r.total) }).
		printed(func(_ *Profile, r requestPart) string { return mean(r.entry.inFlight(r.total)) }),
	col("ms/request", "request_ns,omitempty", "time of a request, ns", func(r requestPart) int64 { return r.entry.each(r.total) }).
		printed(func(_ *Profile, r requestPart) string {
			if r.entry.came == 0 {
				return terminal.Unknown
			}
			return strconv.FormatFloat(float64(r.entry.each(r.total))/1e6, 'f', 2, 64)
		}),
	col("part", "reason", "the innermost frame: what the goroutine waits for, or [running]", func(r requestPart) string { return r.reason }).
		printed(func(p *Profile, r requestPart) string { return r.title(p) }),
	array("path", "the innermost calls below the function, without those of Go's standard library, the outermost first", placeColumns, func(p *Profile, r requestPart) []place {
		path := make([]place, len(r.path))
		for i, id := range r.path {
			path[i] = *declaredAt(p.Names().At(id))
		}
		return path
	}),
)

var requestsLayout = layout("ms/request share in-flight part",
	"ms/request share of-all in-flight cum samples part", requestsColumns.list(""), ByTime, BySamples)

// mean prints a mean number of goroutines.
func mean(n float64) string { return strconv.FormatFloat(n, 'f', 3, 64) }

// title prints a part: "[select] main.backend > net/http.Get".
func (r *requestPart) title(p *Profile) string {
	if r.summary {
		return p.title(p.Names().At(r.entry.method))
	}
	path := make([]string, len(r.path))
	for i, id := range r.path {
		path[i] = withoutFolders(p.title(p.Names().At(id)))
	}
	return strings.TrimRight("  "+cmp.Or(r.reason, "(itself)")+" "+strings.Join(path, " > "), " ")
}

// withoutFolders cuts the path of a function's package to its last element.
func withoutFolders(name string) string {
	end := len(name)
	if i := strings.IndexAny(name, "(["); i >= 0 {
		end = i
	}
	return name[strings.LastIndexByte(name[:end], '/')+1:]
}

// Text prints a line about each function, and a table of the parts.
func (v *requests) Text(w io.Writer, o TextOptions) error {
	s := newSheet(v.profile, requestsLayout, o)
	var notes []string
	if v.note != "" {
		notes = append(notes, v.note)
	}
	for i := range v.entries {
		e := &v.entries[i]
		notes = append(notes, v.profile.title(v.profile.Names().At(e.method))+": "+e.figures())
		addRow(s, partsColumns, requestPart{total: e.total, entry: e, summary: true})
		for _, part := range e.parts {
			addRow(s, partsColumns, part)
		}
	}
	if why := v.uncounted(); why != "" {
		notes = append(notes, "Requests were not counted: "+terminal.Printable(why)+".")
	}
	return s.print(w, v.more, notes...)
}

// uncounted says why requests of a listed function were not counted; "": all were, or the profile does not know why.
func (v *requests) uncounted() string {
	if slices.ContainsFunc(v.entries, func(e requestEntry) bool { return e.came == 0 }) {
		return v.profile.uncounted()
	}
	return ""
}

// figures says how many requests there are, and how long they take.
func (e *requestEntry) figures() string {
	text := mean(e.inFlight(e.total)) + " in flight"
	if e.came == 0 {
		return text + "; requests were not counted"
	}
	text += fmt.Sprintf("; %.1f requests a second, %s counted", e.perSecond(), figure.Count(e.counted))
	each, within := float64(e.each(e.total))/1e6, e.within()
	text += fmt.Sprintf("; %.2f ms a request", each)
	if within >= 1 {
		return text + ", very roughly: sample for longer"
	}
	text += fmt.Sprintf(", %.2f to %.2f (95 %%)", each*(1-within), each*(1+within))
	if within > wanted {
		text += fmt.Sprintf("; ±2 %% takes %s", figure.Time(int64(e.enough())))
	}
	return text
}

// JSON describes the profile, and lists the functions with their parts.
func (v *requests) JSON() any { return requestsColumns.json(v.profile, v) }
