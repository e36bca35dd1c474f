package pollution_test

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/testrun"
	"github.com/ccmapd/ccmapd/valueprof/pollution"
)

// stack is a stack in the text form of mapOf, with its count.
type stack struct {
	frames []string // outermost first, each with "+offset" but the last
	count  int64
}

func (s stack) String() string { return fmt.Sprintf("%s %d", strings.Join(s.frames, ";"), s.count) }

// randomStacks draws stacks of few methods, so that sites recur and recurse.
func randomStacks(t *rapid.T, label string, most int64) []stack {
	caller := rapid.SampledFrom([]string{"f+1", "f+2", "a+1", "b+1", "b+2", "c+1"})
	target := rapid.SampledFrom([]string{"X.Do", "Y.Do", "Z.Do", "f", "g"})
	one := rapid.Custom(func(t *rapid.T) stack {
		frames := rapid.SliceOfN(caller, 1, 6).Draw(t, "callers")
		return stack{append(frames, target.Draw(t, "target")), rapid.Int64Range(1, most).Draw(t, "count")}
	})
	return rapid.SliceOfN(one, 0, 25).Draw(t, label)
}

// occurrence is a call that was seen count times, below callers, the innermost first.
type occurrence struct {
	callers []string
	target  string
	count   int64
}

// allCalls returns every call on the stacks, by its site.
func allCalls(stacks []stack) map[string][]occurrence {
	sites := make(map[string][]occurrence)
	for _, s := range stacks {
		for i := range len(s.frames) - 1 {
			sites[s.frames[i]] = append(sites[s.frames[i]], s.occurrence(i))
		}
	}
	return sites
}

// lastCalls returns the innermost call of each stack, by its site, with the callers that
// a profile point has room for.
func lastCalls(stacks []stack) map[string][]occurrence {
	sites := make(map[string][]occurrence)
	for _, s := range stacks {
		i := len(s.frames) - 2
		o := s.occurrence(i)
		o.callers = o.callers[:min(len(o.callers), ccmap.MaxPointCallers)]
		sites[s.frames[i]] = append(sites[s.frames[i]], o)
	}
	return sites
}

// occurrence returns the call that frame i makes.
func (s stack) occurrence(i int) occurrence {
	target, _, _ := strings.Cut(s.frames[i+1], "+")
	callers := slices.Clone(s.frames[:i])
	slices.Reverse(callers)
	return occurrence{callers, target, s.count}
}

// counts returns the calls of each target.
func counts(calls []occurrence) map[string]int64 {
	m := make(map[string]int64)
	for _, c := range calls {
		m[c.target] += c.count
	}
	return m
}

func total(calls []occurrence) int64 {
	n := int64(0)
	for _, c := range calls {
		n += c.count
	}
	return n
}

// divide splits a list of calls: it groups them by the caller at a level, and each group
// by the next level.
func divide(calls []occurrence, level, depth int, least int64) map[string]map[string]int64 {
	name := strings.Join(calls[0].callers[:level], "←")
	whole := map[string]map[string]int64{name: counts(calls)}
	if level == depth || len(counts(calls)) == 1 {
		return whole
	}
	groups := make(map[string][]occurrence)
	var rest []occurrence
	for _, c := range calls {
		if len(c.callers) > level {
			groups[c.callers[level]] = append(groups[c.callers[level]], c)
		} else {
			rest = append(rest, c)
		}
	}
	divided := make(map[string]map[string]int64)
	for _, group := range groups {
		if total(group) < least {
			rest = append(rest, group...)
			continue
		}
		maps.Copy(divided, divide(group, level+1, depth, least))
	}
	switch {
	case len(divided) == 0:
		return whole
	case len(rest) > 0:
		divided[name+"…"] = counts(rest)
	}
	return divided
}

// contextsOf returns the contexts of a split in the form of divide.
func contextsOf(names *ccmap.Names, s pollution.Split) map[string]map[string]int64 {
	all := make(map[string]map[string]int64)
	for _, c := range s.Contexts {
		var chain []string
		for _, f := range c.Callers {
			chain = append(chain, fmt.Sprintf("%s+%d", names.At(f.Method).Name, f.Offset))
		}
		name := strings.Join(chain, "←")
		if c.Rest {
			name += "…"
		}
		all[name] = countsOf(names, c.Mix)
	}
	return all
}

func countsOf(names *ccmap.Names, m pollution.Mix) map[string]int64 {
	all := make(map[string]int64)
	for _, t := range m.Targets {
		all[names.At(t.Method).Name] = t.Seen
	}
	return all
}

// bits returns the entropy of counts by its definition.
func bits(counts map[string]int64) float64 {
	total, h := 0.0, 0.0
	for _, n := range counts {
		total += float64(n)
	}
	for _, n := range counts {
		h -= float64(n) / total * math.Log2(float64(n)/total)
	}
	return h
}

// randomMap returns a map of sampled stacks and caught calls.
func randomMap(t *rapid.T) (m *ccmap.Map, sampled, caught []stack) {
	sampled, caught = randomStacks(t, "samples", 60), randomStacks(t, "calls", 300)
	m = ccmap.New(ccmap.Options{})
	m.Names().Intern(ccmap.Method{Name: "f"})
	for _, s := range sampled {
		addStack(t, m, s.String())
	}
	for _, s := range caught {
		addCalls(t, m, s.String())
	}
	return m, sampled, caught
}

// TestAgainstLists: a walk through all stacks finds the same targets, contexts and
// entropies.
func TestAgainstLists(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m, sampled, caught := randomMap(t)
		bySamples, byCalls := allCalls(sampled), lastCalls(caught)
		known := make(map[string]bool)
		for _, site := range pollution.New(m.Snapshot(), pollution.Options{}).Sites(nil) {
			name := fmt.Sprintf("%s+%d", m.Names().At(site.Caller).Name, site.Offset)
			known[name] = true
			calls := bySamples[name]
			if site.Calls.Verdict != pollution.Unknown && areMethods(byCalls[name]) {
				calls = slices.DeleteFunc(calls, func(c occurrence) bool { return !haveName(byCalls[name], c.target) })
			}
			checkEvidence(t, name+" by samples", m.Names(), site.Samples, calls, pollution.MinSamples)
			checkEvidence(t, name+" by calls", m.Names(), site.Calls, byCalls[name], pollution.MinCalls)
		}
		for name := range bySamples {
			if !known[name] {
				t.Errorf("no site %s", name)
			}
		}
	})
}

// areMethods reports whether calls reach only methods.
func areMethods(calls []occurrence) bool {
	return !slices.ContainsFunc(calls, func(c occurrence) bool { return !strings.HasSuffix(c.target, ".Do") })
}

// haveName reports whether one of the calls reaches a method of that name.
func haveName(calls []occurrence, name string) bool {
	base := func(s string) string { return s[strings.LastIndexByte(s, '.')+1:] }
	return slices.ContainsFunc(calls, func(c occurrence) bool { return base(c.target) == base(name) })
}

func checkEvidence(t *rapid.T, name string, names *ccmap.Names, e pollution.Evidence, calls []occurrence, least int64) {
	if diff := cmp.Diff(counts(calls), countsOf(names, e.Mix)); diff != "" {
		t.Fatalf("%s (-want +got):\n%s", name, diff)
	}
	splits := e.Splits(4)
	if len(e.Targets) < 2 {
		if splits != nil {
			t.Errorf("%s: one target is split", name)
		}
		return
	}
	before := e.Entropy()
	for i, s := range splits {
		want := divide(calls, 0, i+1, least)
		if diff := cmp.Diff(want, contextsOf(names, s)); diff != "" {
			t.Errorf("%s, contexts of depth %d (-want +got):\n%s", name, i+1, diff)
		}
		left := 0.0
		for _, mix := range want {
			n := int64(0)
			for _, count := range mix {
				n += count
			}
			left += float64(n) / float64(total(calls)) * bits(mix)
		}
		if math.Abs(s.Entropy-left) > 1e-9 {
			t.Errorf("%s: %v bits are left at depth %d, want %v", name, s.Entropy, i+1, left)
		}
		if s.Entropy > before+1e-9 {
			t.Errorf("%s: entropy grows from %v to %v at depth %d", name, before, s.Entropy, i+1)
		}
		before = s.Entropy
	}
}

// TestVerdictsAreCertain: a mix with a verdict has as many targets as the verdict says,
// and a split with a verdict has enough such contexts.
func TestVerdictsAreCertain(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m, _, _ := randomMap(t)
		for _, site := range pollution.New(m.Snapshot(), pollution.Options{}).Sites(nil) {
			for _, e := range []pollution.Evidence{site.Samples, site.Calls} {
				for _, s := range e.Splits(3) {
					checkVerdicts(t, e, s)
				}
			}
		}
	})
}

func checkVerdicts(t *rapid.T, e pollution.Evidence, s pollution.Split) {
	var settled int64
	for _, c := range s.Contexts {
		if c.Rest && c.Verdict != pollution.Unknown {
			t.Errorf("a rest is %v", c.Verdict)
		}
		if c.Verdict == pollution.Monomorphic && len(c.Targets) != 1 || c.Verdict == pollution.Bimorphic && len(c.Targets) != 2 {
			t.Errorf("%v with %d targets", c.Verdict, len(c.Targets))
		}
		if c.Verdict >= pollution.Monomorphic && c.Verdict <= s.Verdict {
			settled += c.Total().Weight
		}
	}
	isSettled := s.Verdict == pollution.Monomorphic || s.Verdict == pollution.Bimorphic
	if isSettled && settled*10 < 9*e.Total().Weight {
		t.Errorf("%v has %d of %d", s.Verdict, settled, e.Total().Weight)
	}
}

// TestPruned: the targets of a site are exact, and its remaining contexts add up to
// them.
func TestPruned(t *testing.T) {
	t.Parallel()
	testrun.Full(t, testrun.Minutes)
	rapid.Check(t, func(t *rapid.T) {
		m, _, _ := randomMap(t)
		for i := range 3000 { // less is not pruned
			addDeep(m, i)
		}
		full := pollution.New(m.Snapshot(), pollution.Options{}).Sites(nil)
		m.Prune(0)
		pruned := pollution.New(m.Snapshot(), pollution.Options{}).Sites(nil)
		if !m.Snapshot().Pruned() || len(pruned) != len(full) {
			t.Fatalf("pruned: %t, %d sites, want %d", m.Snapshot().Pruned(), len(pruned), len(full))
		}
		for i, site := range pruned {
			if diff := cmp.Diff(full[i].Samples.Mix, site.Samples.Mix); diff != "" {
				t.Errorf("targets (-full +pruned):\n%s", diff)
			}
			for _, s := range site.Samples.Splits(3) {
				var sum pollution.Amount
				for _, c := range s.Contexts {
					sum = sum.Plus(c.Total())
				}
				if sum != site.Samples.Total() {
					t.Errorf("contexts of depth %d have %+v of %+v", s.Depth, sum, site.Samples.Total())
				}
			}
		}
	})
}

// addDeep adds one sample in a context of its own.
func addDeep(m *ccmap.Map, i int) {
	z := m.Names().Intern(ccmap.Method{Name: "z"})
	n := m.Child(m.Root(), ccmap.NoOffset, z)
	n = m.Child(n, uint32(i), z)
	m.Add(n, ccmap.Counters{Samples: 1, Time: 10})
}
