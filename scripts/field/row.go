package main

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/ccmap/compare"
	"github.com/ccmapd/ccmapd/scripts/campaign"
	"github.com/ccmapd/ccmapd/scripts/report"
)

// row is the results for one program. A missing figure is NaN.
type row struct {
	name    string
	about   string
	runtime string // version of Go, or the VM
	samples int64

	truncated   float64 // percent of the time, with no known outermost frame
	unknown     float64 // percent of the time, with a frame of code outside all files
	unnamed     float64 // percent of the time, with a frame without a symbol in its file: its C is stripped
	unaccounted float64 // percent of the clock's time that no sample stands for; negative: samples stand for more

	agreement *compare.Result // with the peer; nil: no peer
	pprof     string          // go tool pprof's view of the export
	pgo       string          // the compiler's reader's view
	wrong     string          // any other miss, or empty
	remarks   []string
}

// The reach of each figure.
const (
	mostTruncated   = 2.0 // percent
	mostUnknown     = 1.0 // percent
	mostUnaccounted = 2.0 // percent
	mostShort       = 2.0 // points below the expected overlap

	// Gross misses, for few samples on a machine that others keep busy.
	gross            = 10.0 // percent or points
	grossUnaccounted = 25.0 // percent: many thread switches cost time, too
)

// emptyRow has no figures.
func emptyRow(name, about string) row {
	return row{name: name, about: about, truncated: math.NaN(), unknown: math.NaN(), unaccounted: math.NaN()}
}

// newRow computes the figures of a window.
func newRow(name, about string, w window) (row, error) {
	r := emptyRow(name, about)
	s, err := campaign.ReadProfile(w.file)
	if err != nil {
		return r, err
	}
	r.runtime, r.samples = s.Meta().Target.Runtime, s.Total().Samples
	r.truncated, r.unknown, r.unnamed = shareOf(s, isTruncated), shareOf(s, isUnknown), shareOf(s, isUnnamed)
	if w.clock > 0 {
		r.unaccounted = 100 * (1 - float64(s.Total().Time)/float64(w.clock))
	}
	r.explain(s, w)
	if w.peer == "" {
		return r, nil
	}
	peer, err := campaign.ReadProfile(w.peer)
	if err != nil {
		return r, err
	}
	return r, r.compare(s, peer, absorbed)
}

// explain notes where the stacks are cut, which frames have no name, and where time is lost.
func (r *row) explain(s *ccmap.Snapshot, w window) {
	for _, miss := range []struct {
		text        string
		value, most float64
		is          func(m, caller ccmap.Method) bool
		name        func(m, caller ccmap.Method) string
	}{
		{"cut above", r.truncated, mostTruncated, func(_, caller ccmap.Method) bool { return isTruncated(caller) },
			func(m, _ ccmap.Method) string { return m.Name }},
		{"unknown code called by", r.unknown, mostUnknown, func(m, _ ccmap.Method) bool { return isUnknown(m) },
			func(_, caller ccmap.Method) string { return caller.Name }},
		{"no symbols in", r.unnamed, mostUnknown, func(m, _ ccmap.Method) bool { return isUnnamed(m) },
			func(m, _ ccmap.Method) string { return path.Base(m.Signature) }},
	} {
		if miss.value <= miss.most {
			continue
		}
		r.remarks = append(r.remarks, miss.text+" "+heaviest(s, func(m, caller ccmap.Method) string {
			if miss.is(m, caller) {
				return "`" + miss.name(m, caller) + "`"
			}
			return ""
		}))
	}
	if math.Abs(r.unaccounted) > mostUnaccounted {
		r.remarks = append(r.remarks, lostAt(s, w))
	}
}

// lostAt gives the unaccounted share by ccmapd's own figures, and divides the time by the
// number of thread switches: the kernel stops and starts a thread's events at each.
func lostAt(s *ccmap.Snapshot, w window) string {
	said, known := s.Meta().Loss.UnaccountedShare()
	if !known {
		return "ccmapd does not say what is unaccounted for"
	}
	text := fmt.Sprintf("ccmapd says that %.1f %% are unaccounted for", 100*said)
	if lost := w.clock - time.Duration(s.Total().Time); w.switches > 0 && lost > 0 {
		text += fmt.Sprintf(", %.1f µs for each of %s thread switches", float64(lost.Microseconds())/float64(w.switches),
			report.Count(float64(w.switches)))
	}
	return text
}

// Kinds of frames that are not functions with names.
func isTruncated(m ccmap.Method) bool { return m.Name == ccmap.TruncatedName }
func isUnknown(m ccmap.Method) bool {
	return m.Name == ccmap.UnknownName && m.Signature == ""
}
func isUnnamed(m ccmap.Method) bool {
	return strings.HasPrefix(m.Name, ccmap.UnknownName) && !isUnknown(m)
}

// heaviest names the two elements with the most time, among those that find returns for
// methods and their callers, each with its percentage of the profile. Time that is in an
// element twice counts once.
func heaviest(s *ccmap.Snapshot, find func(m, caller ccmap.Method) string) string {
	within := make(map[ccmap.NodeID]string, s.Len()) // elements on the path to a node
	time := make(map[string]int64)
	for n := range s.Nodes() { // callers come before their callees
		within[n.ID] = within[n.Parent]
		if n.Method != ccmap.NoMethod && within[n.ID] == "" {
			within[n.ID] = find(s.Names().At(n.Method), methodOf(s, n.Parent))
		}
		if thing := within[n.ID]; thing != "" {
			time[thing] += n.Self.Time
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

// compare compares the profile with its peer.
func (r *row) compare(s, peer *ccmap.Snapshot, absorb func(ccmap.Method) bool) error {
	result, err := compare.Compare(s, peer, compare.Options{Seed: 1, Absorb: absorb, AnyUnit: true}) // a guest's exact profile counts instructions
	if err != nil {
		return fmt.Errorf("compare %s with its peer: %w", r.name, err)
	}
	r.agreement = &result
	return nil
}

// foreign matches frames that only one of the witnesses names in this way: the kernel's,
// C's, which have no package, and runtime/pprof's replacements for them. If the signal to
// preempt a goroutine comes together with the signal to take a sample, the kernel
// delivers it first, so runtime/pprof finds runtime.asyncPreempt on top. It leaves out
// runtime.asmcgocall, where Go changes to the stack of C. Names of files must not match:
// go tool pprof matches them, too.
var foreign = regexp.MustCompile(`^\[|^[^./<]*$|^runtime\.(_System|_ExternalCode|_VDSO|_GC|asyncPreempt|asmcgocall)(\.abi0)?$`)

// absorbed reports whether a method counts for its caller in a comparison.
func absorbed(m ccmap.Method) bool { return foreign.MatchString(m.Name) }

// methodOf returns a node's method, or the root's zero Method.
func methodOf(s *ccmap.Snapshot, id ccmap.NodeID) ccmap.Method {
	if m := s.Node(id).Method; m != ccmap.NoMethod {
		return s.Names().At(m)
	}
	return ccmap.Method{}
}

// shareOf returns the percentage of a profile's time in stacks with such a frame.
func shareOf(s *ccmap.Snapshot, is func(ccmap.Method) bool) float64 {
	below := make(map[ccmap.NodeID]bool, s.Len())
	var time int64
	for n := range s.Nodes() { // callers come before their callees
		below[n.ID] = below[n.Parent] || n.Method != ccmap.NoMethod && is(methodOf(s, n.ID))
		if below[n.ID] {
			time += n.Self.Time
		}
	}
	return 100 * float64(time) / float64(max(s.Total().Time, 1))
}

// overlaps returns the judged overlaps, with their names.
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

// short is the number of points below the expected overlap.
func (o namedOverlap) short() float64 { return o.Expected - o.Percent }

// String gives the overlap beside the expected one.
func (o namedOverlap) String() string {
	return fmt.Sprintf("%s (%s ± %s)", report.Percent(o.Percent), report.Percent(o.Expected), report.Percent(o.Deviation))
}

// misses names the figures that miss their reach.
func (r row) misses() []string {
	var out []string
	for _, f := range r.shares() {
		if f.value > f.most {
			out = append(out, f.name)
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
	for _, f := range r.shares() {
		if f.value > f.gross {
			out = append(out, fmt.Sprintf("%.1f %% are %s", f.value, f.name))
		}
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

// share is a percentage of the time, with the most that is in reach and the most that
// chance explains.
type share struct {
	name               string
	value, most, gross float64
}

func (r row) shares() []share {
	return []share{
		{"truncated", r.truncated, mostTruncated, gross},
		{"unknown", r.unknown, mostUnknown, gross},
		{"unaccounted", math.Abs(r.unaccounted), mostUnaccounted, grossUnaccounted},
	}
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
