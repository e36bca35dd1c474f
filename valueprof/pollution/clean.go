package pollution

import (
	"cmp"
	"math"
	"slices"

	"github.com/ccmapd/ccmapd/ccmap"
)

// Basis says how it is known that a context has one receiver.
type Basis uint8

const (
	Sampled   Basis = iota // the samples of the context have it, and that is no chance
	Estimated              // so says a table whose margins agree, too
	Proven                 // so say the counts alone
)

var basisNames = [...]string{"sampled", "estimated", "proven"}

// String returns the basis in a word, for example "proven".
func (b Basis) String() string { return basisNames[b] }

// Clean is a context of a polluted site that has one receiver, or one that has nine tenths
// of the calls. An optimizer that compiles the site into the context may call it directly.
type Clean struct {
	Callers []ccmap.Frame // innermost first, each at its call; at least one
	Target  ccmap.MethodID
	Basis   Basis
	// Share is the part of the context's calls that reach Target, 0 to 1: at least so much
	// if Proven, about so much if Estimated; of the samples if Sampled.
	Share   float64
	Calls   int64  // that the VM counted in the context; −1: not known
	Samples Amount // of the context
}

// Polluted is a call site with several receivers.
type Polluted struct {
	Site
	Clean []Clean // its contexts with one receiver, the most samples first
}

// Polluted returns the sites of the wanted callers that are known to have several receivers, the most
// samples first, and the contexts of each, of up to depth callers, that have one. None of
// the contexts is part of another one. With nil it returns the sites of all callers. Calls
// that a VM counts without their receivers are not known to be of others: there may be no others.
func (a *Analysis) Polluted(wanted func(caller ccmap.MethodID) bool, depth int) []Polluted {
	var list []Polluted
	for _, site := range a.Sites(wanted) {
		if v := site.Decisive().Verdict; (v == Bimorphic || v == Megamorphic) && len(site.Receivers()) > 1 {
			list = append(list, Polluted{site, a.Cleaners(site, depth)})
		}
	}
	slices.SortStableFunc(list, func(a, b Polluted) int {
		x, y := a.Samples.Total(), b.Samples.Total()
		return cmp.Or(cmp.Compare(y.Weight, x.Weight), cmp.Compare(b.Calls.Total().Seen, a.Calls.Total().Seen))
	})
	return list
}

// MostCallers is how many callers are worth to be told apart: compilers inline few levels of calls.
const MostCallers = 8

// Cleaners returns the contexts of a site, of up to depth callers, that have one receiver,
// the most samples first. None is part of another one. It looks at one caller more as long as there are contexts
// that have several receivers, and known callers.
func (a *Analysis) Cleaners(s Site, depth int) []Clean {
	var found []Clean
	isKnown := func(callers []ccmap.Frame) bool {
		return slices.ContainsFunc(found, func(f Clean) bool { return f.has(callers) })
	}
	for d := 1; d <= depth; d++ {
		clean, all := a.cleaners(s, d)
		for _, c := range clean {
			if !isKnown(c.Callers) {
				found = append(found, c)
			}
		}
		isOpen := func(callers []ccmap.Frame) bool { return len(callers) == d && !isKnown(callers) }
		if !slices.ContainsFunc(all, isOpen) {
			break
		}
	}
	slices.SortStableFunc(found, func(a, b Clean) int {
		return cmp.Or(cmp.Compare(b.Samples.Weight, a.Samples.Weight), cmp.Compare(b.Calls, a.Calls))
	})
	return found
}

// has reports whether a chain of callers is part of the context: the same, or a longer one.
func (c Clean) has(callers []ccmap.Frame) bool {
	return len(callers) >= len(c.Callers) && slices.Equal(callers[:len(c.Callers)], c.Callers)
}

// cleaners returns the clean contexts of one depth, and the callers of all: of a table, or else of the samples or
// caught calls.
func (a *Analysis) cleaners(s Site, depth int) (found []Clean, all [][]ccmap.Frame) {
	t, ok := a.Table(s, depth)
	if !ok {
		for _, c := range s.contexts(depth) {
			all = append(all, c.Callers)
			if c.Verdict == Monomorphic && len(c.Callers) > 0 {
				found = append(found, Clean{c.Callers, c.Targets[0].Method, Sampled, 1, -1, c.Total()})
			}
		}
		return found, all
	}
	for _, row := range t.Rows {
		all = append(all, row.Callers)
		if c, ok := s.clean(&t, row); ok {
			found = append(found, c)
		}
	}
	return found, all
}

// contexts returns the contexts that the decisive evidence tells apart.
func (s Site) contexts(depth int) []Context {
	splits := s.Decisive().Splits(depth)
	if len(splits) == 0 {
		return nil
	}
	return splits[len(splits)-1].Contexts
}

// clean returns the receiver of a row, if it is clean.
func (s Site) clean(t *Table, row Row) (Clean, bool) {
	c := Clean{Callers: row.Callers, Calls: row.Calls, Samples: row.Samples.Total()}
	if row.Rest {
		return c, false
	}
	for k, column := range t.Columns {
		if column.Method == ccmap.NoMethod {
			continue
		}
		if share := float64(row.Cells[k].Least) / float64(row.Calls); row.Calls >= MinCalls && share >= major {
			c.Target, c.Basis, c.Share = column.Method, Proven, share
			return c, true
		}
	}
	var share float64
	c.Target, share = s.sampled(row.Samples)
	if t.Estimated {
		c.Basis, c.Share = Estimated, row.Share(t.column(c.Target))
		return c, share > 0 && c.Share >= major
	}
	c.Basis, c.Share = Sampled, share
	return c, share >= leastSampled && s.samplesSuffice()
}

// leastSampled is the share of a receiver in samples that makes a context clean. It is not
// all: inlined code is seen at a safepoint near by, which may be of another receiver.
const leastSampled = 0.99

// sampled returns the most frequent receiver in the samples of a context, and its share. The
// share is 0 if there are few samples, or if the site's mix may look so by chance.
func (s Site) sampled(context Mix) (ccmap.MethodID, float64) {
	var most Target
	for _, t := range context.Targets {
		if t.Seen > most.Seen {
			most = t
		}
	}
	n, all := context.Total().Seen, s.Samples.Total().Seen
	if n < MinSamples {
		return most.Method, 0
	}
	share, usual := float64(most.Seen)/float64(n), float64(s.Samples.find(most.Method).Seen)/float64(all)
	if chanceOf(share, n, usual) > 1-confidence {
		return most.Method, 0
	}
	return most.Method, share
}

// chanceOf returns a bound of the probability that n independent observations have a target
// in a share or more, if it usually has another share (Chernoff's bound, in the form of
// relative entropy).
func chanceOf(share float64, n int64, usual float64) float64 {
	if share <= usual {
		return 1
	}
	entropy := share * math.Log(share/usual)
	if share < 1 {
		entropy += (1 - share) * math.Log((1-share)/(1-usual))
	}
	return math.Exp(-float64(n) * entropy)
}

// mostHidden is the share of calls whose receivers samples may miss, and still say which
// contexts are clean.
const mostHidden = 0.05

// samplesSuffice reports whether samples have seen all receivers that matter: others, too
// short to be sampled, may come in any context.
func (s Site) samplesSuffice() bool {
	hidden, calls, samples := int64(0), int64(0), int64(0)
	for _, t := range s.Calls.Targets {
		n := s.Samples.find(t.Method).Seen
		if n == 0 {
			hidden = addSaturated(hidden, t.Seen)
			continue
		}
		calls, samples = addSaturated(calls, t.Seen), addSaturated(samples, n)
	}
	rest := float64(s.Calls.Unnamed)
	if samples > 0 {
		rest = max(rest-s.mostUnnamed()*float64(calls)/float64(samples), 0)
	}
	return float64(hidden)+rest <= mostHidden*float64(s.Calls.Total().Seen)
}

// mostUnnamed returns the samples of receivers that the VM has no row for, as many as there may be in
// the long run: those receivers are among the calls that it counts together.
func (s Site) mostUnnamed() float64 {
	n := 0.0
	for _, t := range s.Samples.Targets {
		if s.Calls.find(t.Method) == (Amount{}) {
			n += float64(t.Seen)
		}
	}
	return n + 2*math.Sqrt(n)
}
