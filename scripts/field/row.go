package main

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/ccmap/compare"
	"github.com/ccmapd/ccmapd/scripts/report"
)

// row is what was seen of one program. A figure that there is not is NaN.
type row struct {
	name    string
	about   string
	runtime string // version of Go, or the VM
	samples int64

	truncated   float64 // percent of the time, with no known outermost frame
	unknown     float64 // percent of the time, with a frame that has no name
	unaccounted float64 // percent of the clock's time that no sample stands for; negative: samples stand for more

	agreement *compare.Result // with the peer; nil: there is none
	pprof     string          // what go tool pprof makes of the export
	pgo       string          // what the compiler's reader makes of it
	wrong     string          // anything else that misses; empty: nothing does
	remarks   []string
}

// The reach of each figure.
const (
	mostTruncated   = 2.0 // percent
	mostUnknown     = 1.0 // percent
	mostUnaccounted = 2.0 // percent
	mostShort       = 2.0 // points that an overlap falls short of what is expected
	gross           = 10.0
)

// emptyRow has no figures.
func emptyRow(name, about string) row {
	return row{name: name, about: about, truncated: math.NaN(), unknown: math.NaN(), unaccounted: math.NaN()}
}

// newRow takes the figures of a window.
func newRow(name, about string, w window) (row, error) {
	r := emptyRow(name, about)
	s, err := readProfile(w.file)
	if err != nil {
		return r, err
	}
	r.runtime, r.samples = s.Meta().Target.Runtime, s.Total().Samples
	r.truncated, r.unknown = shareBelow(s, ccmap.TruncatedName), shareBelow(s, ccmap.UnknownName)
	r.explain(s)
	if w.clock > 0 {
		r.unaccounted = 100 * (1 - float64(s.Total().Time)/float64(w.clock))
	}
	if w.peer == "" {
		return r, nil
	}
	peer, err := readProfile(w.peer)
	if err != nil {
		return r, err
	}
	return r, r.compare(s, peer, absorbed)
}

// explain says where the stacks are cut, and which frames have no name.
func (r *row) explain(s *ccmap.Snapshot) {
	if r.truncated > mostTruncated {
		r.remarks = append(r.remarks, "cut above "+heaviest(s, func(n, parent string) string {
			if strings.HasPrefix(parent, ccmap.TruncatedName) {
				return "`" + n + "`"
			}
			return ""
		}))
	}
	if r.unknown > mostUnknown {
		r.remarks = append(r.remarks, "no name under "+heaviest(s, func(n, parent string) string {
			if strings.HasPrefix(n, ccmap.UnknownName) {
				return "`" + parent + "`"
			}
			return ""
		}))
	}
}

// heaviest names the two things with the most time, of those that a function finds in
// methods and their callers, each with its percentage of the profile.
func heaviest(s *ccmap.Snapshot, find func(name, caller string) string) string {
	time := make(map[string]int64)
	for n := range s.Nodes() {
		if n.Method == ccmap.NoMethod {
			continue
		}
		caller := ""
		if m := s.Node(n.Parent).Method; n.Parent != 0 && m != ccmap.NoMethod {
			caller = s.Names().At(m).Name
		}
		if thing := find(s.Names().At(n.Method).Name, caller); thing != "" {
			time[thing] += s.Inclusive(n.ID).Time
		}
	}
	things := slices.SortedFunc(maps.Keys(time), func(a, b string) int {
		return cmp.Or(cmp.Compare(time[b], time[a]), cmp.Compare(a, b))
	})
	for i, thing := range things {
		things[i] = fmt.Sprintf("%s (%.1f %%)", thing, 100*float64(time[thing])/float64(s.Total().Time))
	}
	return strings.Join(things[:min(2, len(things))], ", ")
}

// compare holds the profile against its peer.
func (r *row) compare(s, peer *ccmap.Snapshot, absorb func(ccmap.Method) bool) error {
	result, err := compare.Compare(s, peer, compare.Options{Seed: 1, Absorb: absorb})
	if err != nil {
		return fmt.Errorf("compare %s with its peer: %w", r.name, err)
	}
	r.agreement = &result
	return nil
}

// foreign are the frames that only one of the witnesses names as such: the kernel's,
// those of C, which have no package, and what runtime/pprof puts in their place. Where
// the signal to preempt a goroutine comes together with the one to take a sample, the
// kernel delivers it first, so runtime/pprof finds runtime.asyncPreempt on top.
var foreign = regexp.MustCompile(`^\[|^[^.]*$|^runtime\.(_System|_ExternalCode|_VDSO|_GC|asyncPreempt)$`)

// absorbed reports whether a method counts for its caller in a comparison.
func absorbed(m ccmap.Method) bool { return foreign.MatchString(m.Name) }

// shareBelow returns the percentage of a profile's time whose stacks have a frame
// with a name that begins so.
func shareBelow(s *ccmap.Snapshot, name string) float64 {
	below := make(map[ccmap.NodeID]bool, s.Len())
	var time int64
	for n := range s.Nodes() { // callers come before their callees
		named := n.Method != ccmap.NoMethod && strings.HasPrefix(s.Names().At(n.Method).Name, name)
		if below[n.ID] = named || below[n.Parent]; below[n.ID] {
			time += n.Self.Time
		}
	}
	return 100 * float64(time) / float64(max(s.Total().Time, 1))
}

// overlaps returns the overlaps that are judged, with their names.
func (r row) overlaps() []namedOverlap {
	if r.agreement == nil {
		return nil
	}
	return []namedOverlap{{"methods", r.agreement.Methods}, {"edges", r.agreement.Edges}, {"contexts", r.agreement.Contexts}}
}

type namedOverlap struct {
	name string
	compare.Overlap
}

// short is by how many points an overlap falls short of what is expected.
func (o namedOverlap) short() float64 { return o.Expected - o.Percent }

// String gives the overlap beside what is expected of it.
func (o namedOverlap) String() string {
	return fmt.Sprintf("%s (%s ± %s)", report.Percent(o.Percent), report.Percent(o.Expected), report.Percent(o.Deviation))
}

// misses names the figures that are out of reach by more than a factor.
func (r row) misses() []string {
	var out []string
	for _, figure := range []struct {
		name        string
		value, most float64
	}{
		{"truncated", r.truncated, mostTruncated},
		{"unknown", r.unknown, mostUnknown},
		{"unaccounted", math.Abs(r.unaccounted), mostUnaccounted},
	} {
		if figure.value > figure.most {
			out = append(out, figure.name)
		}
	}
	for _, o := range r.overlaps() {
		if o.short() > mostShort {
			out = append(out, o.name)
		}
	}
	if r.wrong != "" {
		out = append(out, r.wrong)
	}
	return out
}

// missesGrossly names the figures that chance cannot explain.
func (r row) missesGrossly() []string {
	var out []string
	if r.truncated > gross {
		out = append(out, fmt.Sprintf("%.1f %% are truncated", r.truncated))
	}
	if r.unknown > gross {
		out = append(out, fmt.Sprintf("%.1f %% are unknown", r.unknown))
	}
	if math.Abs(r.unaccounted) > gross {
		out = append(out, fmt.Sprintf("%.1f %% are unaccounted for", r.unaccounted))
	}
	if r.wrong != "" {
		out = append(out, r.wrong)
	}
	for _, o := range r.overlaps() {
		if o.Unexplained > gross {
			out = append(out, fmt.Sprintf("%s overlap by %v", o.name, o))
		}
	}
	return out
}

var rowHead = []string{"program", "Go", "samples", "truncated %", "unknown %", "unaccounted %",
	"methods, % (expected)", "edges", "contexts", "`go tool pprof`", "edges for PGO", "reach"}

func (r row) cells() []string {
	overlaps := []string{"–", "–", "–"}
	for i, o := range r.overlaps() {
		overlaps[i] = o.String()
	}
	reach := "all"
	if misses := r.misses(); len(misses) > 0 {
		reach = "all but " + strings.Join(misses, ", ")
	}
	if len(r.remarks) > 0 {
		reach += "; " + strings.Join(r.remarks, "; ")
	}
	return append(append([]string{r.about, r.runtime, report.Number(float64(r.samples), 0), report.Percent(r.truncated),
		report.Percent(r.unknown), report.Percent(r.unaccounted)}, overlaps...), dash(r.pprof), dash(r.pgo), reach)
}

func dash(s string) string {
	if s == "" {
		return "–"
	}
	return s
}
