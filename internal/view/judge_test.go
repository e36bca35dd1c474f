package view

import (
	"strings"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/profiletest"
)

func TestJudgement(t *testing.T) {
	t.Parallel()
	whole := func(samples int64, methods, edges, contexts float64) ccmap.Settled {
		return ccmap.Settled{Methods: methods, Edges: edges, Contexts: contexts, Samples: samples}
	}
	for _, test := range []struct {
		settled  ccmap.Settled
		duration time.Duration
		want     string
	}{
		{whole(5000, 99, 98, 97), time.Minute, "Enough samples to trust methods, call sites and contexts."},
		{whole(5000, 95, 92, 80), time.Minute, "Enough samples to trust methods and call sites, not contexts: 3 minutes more."},
		{whole(5000, 95, 80, 70), time.Minute, "Enough samples to trust methods, not call sites or contexts: 8 minutes more."},
		{whole(5000, 80, 70, 60), time.Minute, "Too few samples to trust methods, call sites or contexts: 3 minutes more for methods, 15 minutes for all."},
		{whole(500, 99, 98, 97), time.Minute, "Too few samples to trust methods, call sites or contexts: 1 minute more."},
		{whole(5000, 95, 92, 80), 0, "Enough samples to trust methods and call sites, not contexts: 15,000 samples more."},
		{whole(5000, 95, 92, 0), time.Minute, "Enough samples to trust methods and call sites, not contexts."},
		{whole(5000, 95, 92, 80), 10 * time.Hour, "Enough samples to trust methods and call sites, not contexts: 30 hours more."},
	} {
		p := withMeta(t, profileOf("a.json", 1000, time.Millisecond), func(m *ccmap.Meta) {
			m.Settled, m.Duration = test.settled, test.duration
		})
		if got := p.judgement(); got != test.want {
			t.Errorf("%+v in %v: %q, want %q", test.settled, test.duration, got, test.want)
		}
	}
}

// TestHeld: the last sentence names the budget that has kept a session from more samples.
func TestHeld(t *testing.T) {
	t.Parallel()
	const sentence = "--max-overhead holds the interval at 53.4ms, where 10ms was wanted: a larger budget gives more samples."
	for want, comments := range map[string][]string{
		"contexts.":             {"overhead 4.0 % of the target: 4.0 samples"},
		"contexts. " + sentence: {ccmap.CommentHeld + sentence, "other"},
		"contexts. Budgets have kept 2 sessions or more from more samples.": {ccmap.CommentHeld + "a", ccmap.CommentHeld + "b"},
		"contexts. \uFFFD[2J": {ccmap.CommentHeld + "\x1b[2J"},
	} {
		p := withMeta(t, profileOf("a.json", 5000, time.Millisecond), func(m *ccmap.Meta) { m.Comments = comments })
		top, err := NewTop(p, List{})
		if err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		if err := top.Text(&out, TextOptions{}); err != nil || !strings.HasSuffix(out.String(), want+"\n") {
			t.Errorf("%v\n%s\nwant …%s", err, &out, want)
		}
	}
}

// TestJudgementOfOthers: profiles that do not say how settled they are.
func TestJudgementOfOthers(t *testing.T) {
	t.Parallel()
	of := func(change func(*ccmap.Meta)) *Profile {
		return withMeta(t, profileOf("a.json", 5000, time.Millisecond), change)
	}
	drawn, _ := drawing(t)
	recent, err := drawn.RecentOnly()
	if err != nil {
		t.Fatal(err)
	}
	folded := ccmap.New(ccmap.Options{})
	folded.Add(folded.Child(folded.Root(), ccmap.NoOffset, folded.Names().Intern(ccmap.Method{Name: "f"})), ccmap.Counters{Time: 5})
	for name, test := range map[string]struct {
		p    *Profile
		want string
	}{
		"halved":    {of(func(*ccmap.Meta) {}), "Enough samples to trust methods, call sites and contexts."},
		"exact":     {of(func(m *ccmap.Meta) { m.Engine = engineWasmExact }), "Every call was counted: the figures are exact."},
		"heap":      {of(func(m *ccmap.Meta) { m.Unit = ccmap.NewUnit("alloc_space", "bytes") }), ""},
		"empty":     {New("", ccmap.New(ccmap.Options{}).Snapshot()), ""},
		"window":    {recent, "Too few samples to trust methods, call sites or contexts."},
		"unknown":   {New("", profiletest.Blind("go1.26.8", 200, ccmap.Method{Name: ccmap.UnknownName}).Snapshot()), "Do not trust these figures: "},
		"uncounted": {New("", folded.Snapshot()), "How far to trust these figures is not known: "},
	} {
		if got := test.p.judgement(); !strings.HasPrefix(got, test.want) || test.want == "" && got != "" {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}
