package hub

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/ccmap/compare"
	"github.com/ccmapd/ccmapd/internal/fleet"
)

// Classes are instances of a build that behave alike, so that a canary, a replica with other traffic, or one that lies
// does not spoil the best profile. Once an hour an instance is looked at: its next contribution, the window, is
// compared with the largest class.
//
//  1. The same within noise: it joins that one. So a class that chance has made loses its instances in an hour.
//  2. Else it stays in its own class, if it agrees with that or has too few samples to tell.
//  3. Else it joins the class that it agrees with.
//  4. Else, if it is far from all, it founds a class. There are at most four.
//  5. Else it joins the nearest one.
//
// An outlier is an instance that is odd three looks running: its window differs from the largest class, or the share of
// a method in it does. The members of a class of more than a tenth of the instances are not odd. Chance makes a window
// odd at 3 looks of 200 at most, so it makes three of an instance odd 3 times in a million: of 10,000 instances, which
// are looked at 24 times a day, less than once a day.
const (
	mostClasses  = 4
	lookEvery    = time.Hour
	far          = 6.0 // deviations beyond what the tolerance explains
	oddLooks     = 3
	oddLevel     = 0.005 // chance that the shares of methods differ for sure, and do not
	fewOf        = 10    // an outlier's class has at most one instance of so many
	mostOutliers = 64    // that a manifest remembers
	growth       = 5     // a class is compared as it was until it has grown by a part of so many
)

// looks says which differences count for windows: those that two runs of one program do not have.
var looks = compare.Options{Weight: compare.ByTime, Tolerance: compare.DefaultTolerance}

// event is what a commit has found out about an instance.
type event struct {
	fleet.Outlier
	ended bool // it agrees with the others again
}

// classOf returns the class that a contribution counts in, and looks at its instance if it is time to.
func (s *sums) classOf(ctx context.Context, c arrived) (int, error) {
	i := s.m.Instances[c.Key.Instance]
	hour := s.now.Unix() / int64(lookEvery/time.Second)
	if i.Look == hour {
		return i.Class, nil
	}
	main := s.largest()
	class := i.Class
	if i.Look == 0 {
		class = main
	} else {
		s.members[class]--
	}
	beside, err := s.compare(ctx, main, c.profile)
	switch {
	case err != nil:
		return 0, err
	case beside.Verdict == compare.Same:
		class = main
	default:
		if class, err = s.find(ctx, class, c.profile); err != nil {
			return 0, err
		}
	}
	s.members[class]++
	i.Class, i.Look = class, hour
	return class, s.judge(c, i, main, beside)
}

// largest returns the class with the most instances.
func (s *sums) largest() int { return largest(s.members) }

func largest(members []int) int { return slices.Index(members, slices.Max(members)) }

// members returns the number of instances of each class.
func (m *manifest) members() []int {
	n := make([]int, mostClasses)
	for _, i := range m.Instances {
		if i.Look != 0 {
			n[i.Class]++
		}
	}
	return n
}

// find returns the class of a window that is not the same as the largest one.
func (s *sums) find(ctx context.Context, class int, window *ccmap.Snapshot) (int, error) {
	own, err := s.compare(ctx, class, window)
	if err != nil || own.Verdict != compare.Differs {
		return class, err
	}
	nearest, best, unused := class, own.Decisive(), -1
	for other := range mostClasses {
		switch k := (partKey{Level: levelBuild, Class: other}); {
		case other == class:
			continue
		case s.open[k] == nil && s.m.part(k) == nil, s.members[other] == 0:
			if unused < 0 {
				unused = other
			}
			continue
		}
		r, err := s.compare(ctx, other, window)
		if err != nil {
			return 0, err
		}
		if r.Verdict == compare.Same {
			return other, nil
		}
		if r.Verdict == compare.Differs && r.Decisive().Unexplained < best.Unexplained {
			nearest, best = other, r.Decisive()
		}
	}
	if unused >= 0 && best.Expected-best.Percent > looks.Tolerance+far*best.Deviation {
		return unused, nil
	}
	return nearest, nil
}

// compare compares a window with a class as it was a moment ago. There is nothing to tell of an empty one.
func (s *sums) compare(ctx context.Context, class int, window *ccmap.Snapshot) (compare.Result, error) {
	is, err := s.get(ctx, partKey{Level: levelBuild, Class: class})
	if err != nil {
		return compare.Result{}, err
	}
	seen := s.seen[class]
	if seen == nil || is.added > seen.Total().Samples/growth {
		seen, is.added = is.Snapshot(), 0
		s.seen[class] = seen
	}
	r, err := compare.Compare(seen, window, looks)
	if errors.Is(err, compare.ErrEmpty) {
		return compare.Result{Verdict: compare.TooFew}, nil
	}
	return r, err
}

// judge notes what a look at an instance has found, beside the largest class.
func (s *sums) judge(c arrived, i *instance, main int, r compare.Result) error {
	o := fleet.Outlier{
		Instance: c.Key.Instance, Since: s.now.UTC(), Last: s.now.UTC(), Class: i.Class, Others: s.members[main],
		Overlap: r.Decisive().Percent, Expected: r.Decisive().Expected,
	}
	if i.Class == main {
		o.Others--
	}
	isFew := s.members[i.Class]*fewOf <= len(s.m.Instances)
	isOdd := false
	if i.Class == main || isFew {
		sure, err := explain(&o, s.seen[main], c.profile)
		if err != nil {
			return err
		}
		isOdd = sure || r.Verdict == compare.Differs
	}
	if !isOdd && r.Verdict == compare.TooFew {
		return nil // nothing was learnt
	}
	was, known := s.m.forgive(c.Key.Instance)
	if !isOdd {
		i.Odd = 0
		if known {
			s.events = append(s.events, event{was, true})
		}
		return nil
	}
	if i.Odd = min(i.Odd+1, oddLooks); i.Odd < oddLooks {
		return nil
	}
	if known {
		o.Since = was.Since
	} else {
		s.events = append(s.events, event{o, false})
	}
	s.m.Outliers = append([]fleet.Outlier{o}, s.m.Outliers[:min(len(s.m.Outliers), mostOutliers-1)]...)
	return nil
}

// forgive takes an instance from the outliers.
func (m *manifest) forgive(instance string) (was fleet.Outlier, known bool) {
	at := slices.IndexFunc(m.Outliers, func(o fleet.Outlier) bool { return o.Instance == instance })
	if at < 0 {
		return was, false
	}
	was = m.Outliers[at]
	m.Outliers = slices.Delete(m.Outliers, at, at+1)
	return was, true
}

// explain names the method whose share differs most for sure, and reports whether there is one.
func explain(o *fleet.Outlier, others, window *ccmap.Snapshot) (bool, error) {
	d, err := compare.Differences(others, window, compare.DiffOptions{Level: oddLevel, Least: looks.Tolerance})
	if errors.Is(err, compare.ErrEmpty) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("compare instance: %w", err)
	}
	for _, change := range d.Methods.List {
		if change.Significant {
			o.Method, o.Points = change.Path[0].Method, change.Points
			o.Error = math.Hypot(shareError(change.ShareA, d.A.Independent), shareError(change.ShareB, d.B.Independent))
			return true, nil
		}
	}
	return false, nil
}

// shareError returns the standard deviation of a share, in percent, of so many independent samples.
func shareError(percent float64, samples int64) float64 {
	return math.Sqrt(percent * (100 - percent) / float64(max(samples, 1)))
}

// tell logs and counts what a commit has found out.
func (a *aggregator) tell(m *manifest, events []event) {
	for _, e := range events {
		text := "an instance differs from the others"
		if e.ended {
			text = "an instance agrees with the others again"
		} else {
			a.count.outliers.Inc()
		}
		a.log.Warn(text, "target", m.Target, "build", m.Build, "outlier", e.Outlier.String())
	}
}

// settledEdges is the overlap of halves, in percent, from which on a profile has settled: that of the store.
const settledEdges = 95

// leaveOneOut compares each witness with its class without it. It is nil if no two instances are known.
func leaveOneOut(all *ccmap.Snapshot, w witnesses) (*fleet.LeftOut, error) {
	var overlaps []float64
	for instance, one := range w {
		if err := one.decode(); err != nil {
			return nil, fmt.Errorf("instance %.8s: %w", instance, err)
		}
		own := one.Snapshot()
		r, err := compare.Compare(minus(all, own), own, compare.Options{})
		if errors.Is(err, compare.ErrEmpty) {
			continue // there is no other
		}
		if err != nil {
			return nil, err
		}
		overlaps = append(overlaps, r.Edges.Percent)
	}
	if len(overlaps) == 0 {
		return nil, nil
	}
	mean, deviation := meanOf(overlaps)
	return &fleet.LeftOut{Instances: len(overlaps), Overlap: mean, Error: deviation / math.Sqrt(float64(len(overlaps)))}, nil
}

func meanOf(all []float64) (mean, deviation float64) {
	slices.Sort(all) // so that the order of a map changes no bit
	for _, x := range all {
		mean += x / float64(len(all))
	}
	squares := 0.0
	for _, x := range all {
		squares += (x - mean) * (x - mean)
	}
	return mean, math.Sqrt(squares / float64(max(len(all)-1, 1)))
}

// minus returns a profile without the counts of one that is part of it. What was pruned in one of them stays.
func minus(all, one *ccmap.Snapshot) *ccmap.Snapshot {
	m := ccmap.New(ccmap.Options{Names: all.Names()})
	*m.Meta() = all.Meta()
	m.SetExact(all.ActivationsExact())
	nodes := make([]ccmap.NodeID, all.Len())
	counts := make(map[ccmap.NodeID]ccmap.Counters, all.Len())
	for n := range all.Nodes() {
		if n.ID != 0 {
			nodes[n.ID] = m.Child(nodes[n.Parent], n.Offset, n.Method)
			counts[nodes[n.ID]] = n.Self
		}
	}
	own := make([]ccmap.NodeID, one.Len())
	for n := range one.Nodes() {
		if n.ID == 0 {
			continue
		}
		method := n.Method
		if !n.IsPosition() {
			method = m.Names().Intern(one.Names().At(method))
		}
		own[n.ID] = m.Child(own[n.Parent], n.Offset, method)
		c := counts[own[n.ID]]
		for i := range ccmap.NumCounters {
			*i.Of(&c) -= min(*i.Of(&n.Self), *i.Of(&c))
		}
		counts[own[n.ID]] = c
	}
	for n, c := range counts {
		m.Add(n, c)
	}
	return m.Snapshot()
}

// classesOf describes the classes of a build, the largest first.
func classesOf(ctx context.Context, c *catalog, m *manifest) ([]fleet.Class, error) {
	list := []fleet.Class{}
	members := m.members()
	sums := make(map[int]*ccmap.Snapshot)
	for _, p := range m.classes() {
		is, err := readPart(ctx, c.bucket, p)
		if err != nil {
			return nil, err
		}
		sums[p.Class] = is.Snapshot()
		k := fleet.Class{
			Class: p.Class, Instances: members[p.Class], Samples: p.Samples, Independent: p.Independent,
			Settled: p.Settled, IsSettled: p.Settled >= settledEdges,
		}
		if k.LeftOut, err = leaveOneOut(sums[p.Class], is.witnesses); err != nil {
			return nil, err
		}
		list = append(list, k)
	}
	for i := range list {
		for j := range list {
			if i == j {
				continue
			}
			r, err := compare.Compare(sums[list[i].Class], sums[list[j].Class], looks)
			if errors.Is(err, compare.ErrEmpty) {
				continue
			}
			if err != nil {
				return nil, err
			}
			list[i].Overlaps = append(list[i].Overlaps, fleet.Overlap{
				Class: list[j].Class, Overlap: r.Edges.Percent, Expected: r.Edges.Expected, Verdict: r.Verdict.String(),
			})
		}
	}
	slices.SortFunc(list, func(a, b fleet.Class) int {
		return cmp.Or(cmp.Compare(b.Instances, a.Instances), cmp.Compare(a.Class, b.Class))
	})
	return list, nil
}
