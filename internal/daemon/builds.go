package daemon

import (
	"fmt"
	"strings"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/ccmap/compare"
	"github.com/ccmapd/ccmapd/internal/figure"
	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/internal/store"
)

// A target whose program was replaced by another build is compared with the best profile of the build that ran before,
// once the first file of the new build has enough samples. The verdict is an event, which names the largest changes. It
// says if the build before is a later one of the series: then the target was rolled back.

// namedChanges bounds the methods that an event names.
const namedChanges = 3

// compareBuilds compares a file of a build with the best one of the build before, until there is a verdict. The
// target's filing is locked.
func (p *periods) compareBuilds(t *target, of store.Key, s *ccmap.Snapshot) {
	if of.Build == "" || t.compared == of.Build {
		return
	}
	before, err := p.bestBefore(of)
	if err != nil {
		p.log.Error("cannot read the profile of the build before", "target", t.Name, "error", err)
		return
	}
	if before.profile == nil {
		t.compared = of.Build // it is the first one
		return
	}
	text, known, err := verdictOf(before.profile, s)
	if err != nil {
		p.log.Error("cannot compare with the build before", "target", t.Name, "error", err)
		return
	}
	if known {
		t.compared = of.Build
		p.events.raise(Event{
			Kind: EventBuild, Target: t.Name, Owner: of.Owner, OfHost: t.Match.Host,
			Text: fmt.Sprintf("build %s beside %s: %s", store.BuildName(of.Build), before, text),
		})
	}
}

// earlier is the best profile of the build that ran before another one.
type earlier struct {
	store.Build
	later   bool            // it is a later build of the series
	profile *ccmap.Snapshot // nil: no build has one
}

// String returns the build, for example "8a31b0c4f9d2, committed 2026-11-20 10:00:00, a later build: a rollback".
func (e earlier) String() string {
	if e.later {
		return e.Build.String() + ", a later build: a rollback"
	}
	return e.Build.String()
}

// bestBefore returns the best profile of the build that was seen last, other than one, among those that the same
// processes' owner has.
func (p *periods) bestBefore(of store.Key) (earlier, error) {
	owners := func(o process.Owner) bool {
		return o.Traceable == of.Owner.Traceable && (!o.Traceable || o == of.Owner)
	}
	all := p.archive.List(store.Filter{Target: of.Target, Event: store.Event(of.Unit), Visible: owners}).Entries
	series, own := store.SeriesOf(all), store.BuildName(of.Build)
	var others store.Series
	bests := make(map[string]store.Entry)
	for _, e := range all {
		if e.Kind == store.KindBest && e.Build != own {
			bests[e.Build] = e
		}
	}
	for _, b := range series {
		if _, has := bests[b.Name]; has {
			others = append(others, b)
		}
	}
	if len(others) == 0 {
		return earlier{}, nil
	}
	last := others.Present()
	m, err := p.archive.Read(bests[last.Name])
	if err != nil {
		return earlier{}, err
	}
	return earlier{last, series.Precedes(own, last.Name), m.Snapshot()}, nil
}

// verdictOf describes the changes from a profile to another in a line, if there are samples enough to tell.
func verdictOf(a, b *ccmap.Snapshot) (text string, known bool, err error) {
	r, err := compare.Compare(a, b, compare.Options{})
	if err != nil || r.Verdict == compare.TooFew {
		return "", false, err
	}
	d, err := compare.Differences(a, b, compare.DiffOptions{Limit: namedChanges})
	if err != nil {
		return "", false, err
	}
	parts := []string{r.Verdict.String()}
	for _, c := range d.Methods.List {
		parts = append(parts, fmt.Sprintf("%s %.1f → %.1f %%", c.Path[0].Method, c.ShareA, c.ShareB))
	}
	if text := changedCode(a, b); text != "" {
		parts = append(parts, text)
	}
	return strings.Join(parts, ", "), true, nil
}

// changedCode says of how much of a profile the code is another in another one, "" if of none that is known.
func changedCode(before, now *ccmap.Snapshot) string {
	_, stale := ccmap.Fit(before, sampled{now})
	changed := int64(0)
	for _, m := range stale {
		changed += m.Total.Time
	}
	if len(stale) == 0 || before.Total().Time == 0 {
		return ""
	}
	return fmt.Sprintf("other code in %s with %.1f %% of the time before",
		figure.Plural(int64(len(stale)), "method"), 100*float64(changed)/float64(before.Total().Time))
}

// sampled is a build as far as its profile tells: the methods that were sampled.
type sampled struct{ *ccmap.Snapshot }

func (s sampled) Method(name, signature string) (ccmap.Method, bool) {
	id, known := s.Names().Lookup(name, signature)
	if !known {
		return ccmap.Method{}, false
	}
	return s.Names().At(id), true
}

func (sampled) MayCall(ccmap.Method, uint32, ccmap.Method) (may, known bool) { return false, false }
