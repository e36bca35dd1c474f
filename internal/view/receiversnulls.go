package view

import (
	"cmp"
	"fmt"
	"io"
	"slices"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/figure"
	"github.com/ccmapd/ccmapd/internal/terminal"
)

// HotSpot keeps a bit for each cast, instanceof and store into an array that has met null, for all callers together,
// and counts what was not null. It tells apart which calls have passed null, but for most calls only if asked to. What
// else the counts tell:
//
//  1. A check that its method makes once a call has met null at most in the calls that are missing from its counts. No
//     branch or switch comes before such a check, and no loop ends after it. Not all of them were null: the first
//     compiler leaves out a cast that the caller makes certain, and counts the call (Canonicalizer::do_CheckCast,
//     c1/c1_Canonicalizer.cpp, JDK 17 and 25).
//  2. Nulls are divided among the callers as receivers are: each has at most its own calls and, where nulls are
//     counted, at least what the other callers cannot have made.

// nullSite is a check, or a call, that has met null.
type nullSite struct {
	ccmap.Point
	passed  bool  // by the call that is there, or returned
	calls   int64 // of its method, as the VM counted them; 0: not known
	exact   bool  // nulls are counted
	nulls   int64 // at most; −1: not known
	callers []nullCaller
	time    ccmap.Counters // of its method, with what it calls
}

// nullCaller is a caller of the method of a check.
type nullCaller struct {
	at          ccmap.Frame
	calls       int64
	passes      bool  // null, as the VM has seen
	least, most int64 // with null; most −1: not known
	only        bool  // no other caller was counted
}

// listNulls lists what has met null.
func (v *Receivers) listNulls(points []ccmap.Point, order string) {
	counts := nullCountsOf(points)
	time := make(map[ccmap.MethodID]ccmap.Counters)
	for m := range v.Methods() {
		time[m.ID()] = m.Cumulative()
	}
	var all []nullSite
	for _, q := range points {
		if q.Callers != nil || q.Nulls <= 0 && q.Nulls != ccmap.NullsSeen || v.list.Methods != nil && !v.list.Methods.Has(q.Method) {
			continue
		}
		site := counts.site(q)
		site.time = time[q.Method]
		all = append(all, site)
	}
	slices.SortFunc(all, func(a, b nullSite) int {
		names := v.Names()
		byName := cmp.Or(cmp.Compare(names.At(a.Method).Name, names.At(b.Method).Name), cmp.Compare(names.At(a.Method).Signature, names.At(b.Method).Signature), inSource(a.Point, b.Point))
		hotter := cmp.Compare(v.measure.of(b.time), v.measure.of(a.time))
		switch order {
		case ByName:
			return byName
		case ByCalls:
			return cmp.Or(cmp.Compare(b.nulls, a.nulls), hotter, byName)
		}
		return cmp.Or(hotter, byName)
	})
	v.nulls = cut(all, v.list.Limit)
	v.More = len(all) - len(v.nulls)
}

// nullCounts are a VM's counts, by method.
type nullCounts struct {
	entries  map[ccmap.MethodID]int64         // how often it was called
	branches map[ccmap.MethodID][]ccmap.Point // in it, and switches
	callers  map[ccmap.MethodID][]nullCaller  // of it
	calls    map[ccmap.Frame]bool
	passes   map[ccmap.Frame]bool // calls that have passed null
}

func nullCountsOf(points []ccmap.Point) nullCounts {
	c := nullCounts{
		entries: make(map[ccmap.MethodID]int64), branches: make(map[ccmap.MethodID][]ccmap.Point),
		callers: make(map[ccmap.MethodID][]nullCaller), calls: make(map[ccmap.Frame]bool), passes: make(map[ccmap.Frame]bool),
	}
	for _, q := range points {
		switch at := (ccmap.Frame{Method: q.Method, Offset: q.Offset}); {
		case q.Origin != ccmap.OriginVM || q.Callers != nil:
		case q.Kind == ccmap.PointBlock && q.Offset == 0:
			c.entries[q.Method] = q.Count
		case q.Kind == ccmap.PointBranch, q.Kind == ccmap.PointSwitch:
			c.branches[q.Method] = append(c.branches[q.Method], q)
		case q.Kind == ccmap.PointType:
			c.passes[at] = q.Nulls == ccmap.NullsSeen
		case q.Kind == ccmap.PointCall:
			c.calls[at] = true
			for _, to := range q.Values {
				callee := ccmap.MethodID(to.Value)
				c.callers[callee] = append(c.callers[callee], nullCaller{at: at, calls: to.Count, most: -1})
			}
		}
	}
	return c
}

// isOnce reports whether a method makes a check once each time that it is called. A loop that ends after the check has
// a branch there that was decided more often than the method was called.
func (c nullCounts) isOnce(q ccmap.Point) bool {
	entries := c.entries[q.Method]
	return entries > 0 && !slices.ContainsFunc(c.branches[q.Method], func(b ccmap.Point) bool {
		return int32(b.Offset) <= int32(q.Offset) || b.Count > entries && !nearlyEqual(b.Count, entries)
	})
}

// nearlyEqual reports whether two counts of the same differ by a tenth at most: a VM does not read them at one moment.
func nearlyEqual(a, b int64) bool { return 10*max(a-b, b-a) <= max(a, b) }

// site finds out what is known of a check.
func (c nullCounts) site(q ccmap.Point) nullSite {
	s := nullSite{Point: q, calls: c.entries[q.Method], nulls: -1}
	s.passed = q.Kind == ccmap.PointType && c.calls[s.place()]
	switch {
	case q.Nulls > 0:
		s.exact, s.nulls = true, q.Nulls
	case q.Kind == ccmap.PointType && !s.passed && c.isOnce(q):
		s.nulls = max(s.calls-q.Count, 1)
	}
	if s.passed {
		return s // where the null comes from is said
	}
	s.callers = slices.Clone(c.callers[q.Method])
	slices.SortFunc(s.callers, func(a, b nullCaller) int {
		return cmp.Or(cmp.Compare(b.calls, a.calls), cmp.Compare(a.at.Method, b.at.Method), cmp.Compare(a.at.Offset, b.at.Offset))
	})
	for i := range s.callers {
		s.callers[i].passes = c.passes[s.callers[i].at]
	}
	s.divide()
	return s
}

// divide tells how many nulls each caller has passed at least and at most, if the counts of the callers go with the
// count of the method. The VM reads them at different moments. A caller that has made all calls is the only one.
func (s *nullSite) divide() {
	sum := int64(0)
	for _, c := range s.callers {
		sum += c.calls
	}
	same := s.calls > 0 && nearlyEqual(sum, s.calls)
	for i := range s.callers {
		c := &s.callers[i]
		c.only = len(s.callers) == 1 && s.calls > 0 && (same || sum > s.calls)
		if s.nulls < 0 || !same {
			continue
		}
		c.most = min(c.calls, s.nulls)
		if others := max(sum, s.calls) - c.calls; s.exact {
			c.least = min(max(s.nulls-others, 0), c.calls)
		}
	}
}

// words say how often a check has met null.
func (s nullSite) words() string {
	kind := "check"
	if s.passed || s.Kind == ccmap.PointCall {
		kind = "call"
	}
	if s.Frozen {
		kind += ", frozen"
	}
	switch {
	case s.passed:
		return kind + ": null passed or returned"
	case s.exact:
		return fmt.Sprintf("%s: %s null", kind, figure.Percent(figure.Share(s.nulls, s.Count)))
	case s.nulls >= 0:
		return fmt.Sprintf("%s: null, at most %s", kind, figure.Percent(figure.Share(s.nulls, s.calls)))
	}
	return kind + ": null seen, not counted"
}

// words say how often a caller has passed null.
func (c nullCaller) words() string {
	percent := func(n int64) string { return figure.Percent(figure.Share(n, c.calls)) }
	switch {
	case c.passes:
		return "passes null"
	case c.only:
		return "all nulls: the only caller"
	case c.least > 0 && c.least == c.calls:
		return "always null, proven"
	case c.least > 0:
		return "null, at least " + percent(c.least)
	case c.most >= 0 && c.most < c.calls:
		return "null, at most " + percent(c.most)
	}
	return "not known"
}

// printNulls prints what has met null, and the callers below each.
func (t receiversTable) printNulls(w io.Writer) error {
	t.sheet.title("verdict", "nulls")
	for _, s := range t.nulls {
		beside := cells{"call-site": t.title(t.Names().At(s.Method)) + formatCall(t.Names(), s.place()), "verdict": s.words(), "location": formatLocation(t.Names(), s.place())}
		if s.calls > 0 {
			beside["calls"] = figure.Count(s.calls)
		}
		if s.time.IsZero() {
			t.sheet.add(beside)
		} else {
			t.sheet.addPart(s.time, s.time, beside)
		}
		t.addNullCallers(s)
	}
	return t.sheet.print(w, t.More, t.nullNotes()...)
}

func (s nullSite) place() ccmap.Frame { return ccmap.Frame{Method: s.Method, Offset: s.Offset} }

func (t receiversTable) addNullCallers(s nullSite) {
	shown := cut(s.callers, t.list.Contexts)
	for _, c := range shown {
		t.sheet.add(cells{
			"call-site": "  " + t.chain([]ccmap.Frame{c.at}), "calls": figure.Count(c.calls),
			"of-calls": figure.Percent(figure.Share(c.calls, max(s.calls, c.calls))), "verdict": c.words(),
		})
	}
	if rest := len(s.callers) - len(shown); rest > 0 {
		t.sheet.add(cells{"call-site": fmt.Sprintf("  ← %s %d more", terminal.Ellipsis, rest)})
	}
}

// nullNotes say what the nulls mean, or why there are none.
func (t receiversTable) nullNotes() []string {
	switch {
	case !slices.ContainsFunc(t.countedPoints(), func(q ccmap.Point) bool { return q.Origin == ccmap.OriginVM }):
		return []string{"No nulls are known: the profile lacks the counts of a VM."}
	case len(t.nulls) == 0:
		return []string{"No check has met null, of those that the VM has counted."}
	case slices.ContainsFunc(t.nulls, func(s nullSite) bool { return s.Nulls == ccmap.NullsSeen }):
		return []string{"A JVM has one bit for each check, for all callers together, and counts no nulls. Null is at\n" +
			"most what the counts of the check lack, where its method makes it once a call."}
	}
	return nil
}

var nullSiteColumns = append(
	inline(placeColumns, func(p *Profile, s nullSite) *place { return calledAt(p.Names(), s.place()) }),
	col("", "kind", "type: a check, or what a call passes and returns; else as of points", func(s nullSite) string { return s.Kind.String() }),
	col("", "origin", "where the counts come from", func(s nullSite) string { return s.Origin.String() }),
	col("", "frozen,omitempty", "compiled code counts no more", func(s nullSite) bool { return s.Frozen }),
	col("", "passed,omitempty", "an argument or the result of the call was null", func(s nullSite) bool { return s.passed }),
	col("", "calls,omitempty", "of the method, as the VM counted them", func(s nullSite) count { return count(s.calls) }),
	col("", "nulls,omitempty", "how often, if nulls are counted", func(s nullSite) *int64 { return given(s.nulls, s.exact) }),
	col("", "nulls_most,omitempty", "how often at most, by the other counts", func(s nullSite) *int64 { return given(s.nulls, s.nulls >= 0 && !s.exact) }),
	array("callers,omitempty", "of the method, as the VM counted their calls", nullCallerColumns, func(_ *Profile, s nullSite) []nullCaller { return s.callers }),
)

var nullCallerColumns = append(
	inline(placeColumns, func(p *Profile, c nullCaller) *place { return calledAt(p.Names(), c.at) }),
	col("", "calls", "that the VM counted", func(c nullCaller) count { return count(c.calls) }),
	col("", "passes,omitempty", "null, as the VM has seen", func(c nullCaller) bool { return c.passes }),
	col("", "only,omitempty", "no other caller was counted: all nulls are of this one", func(c nullCaller) bool { return c.only }),
	col("", "nulls_least,omitempty", "by the counts", func(c nullCaller) *int64 { return given(c.least, c.least > 0) }),
	col("", "nulls_most,omitempty", "by the counts", func(c nullCaller) *int64 { return given(c.most, c.most >= 0) }),
)
