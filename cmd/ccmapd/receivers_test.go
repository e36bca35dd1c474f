package main

import (
	"testing"

	"github.com/ccmapd/ccmapd/ccmap"
)

func TestSiteHints(t *testing.T) {
	t.Parallel()
	m := ccmap.New(ccmap.Options{})
	m.Add(m.Child(m.Root(), ccmap.NoOffset, m.Names().Intern(ccmap.Method{Name: "main.main"})), ccmap.Counters{Samples: 1, Time: 1e7})
	p := newProfile("test", m.Snapshot())
	for _, test := range []struct {
		callees []string
		samples int64
		offset  uint32
		want    string
	}{
		{[]string{"main.f"}, 30, 1, hintMonomorphic},
		{[]string{"main.f"}, 29, 1, hintFewSamples},
		{[]string{"main.f"}, 30, ccmap.NoOffset, hintMonomorphic},
		{[]string{"main.(*A).Do", "main.B.Do"}, 30, 1, hintBimorphic},
		{[]string{"main.(*A).Do", "main.B.Do"}, 30, ccmap.NoOffset, hintLineUnknown},
		{[]string{"main.(*A).Do", "main.B.Do"}, 29, ccmap.NoOffset, hintFewSamples},
		{[]string{"main.A.Do", "x/y.B.Do", "y.G[go.shape.int].Do"}, 90, 1, hintMegamorphic},
		{[]string{"main.A.Do", "main.B.Do", "main.f"}, 90, 1, hintMixed},
		{[]string{"main.(*A).Do", "[kernel]", "runtime.mallocgc", "main.B.Do"}, 90, 1, hintBimorphic},
		{[]string{"main.(*A).Do", "runtime.newobject"}, 90, 1, hintMonomorphic},
		{[]string{"runtime.newobject", "[kernel]"}, 90, 1, hintMixed},
		{[]string{"main.main.func1", "main.main.func2"}, 90, 1, hintMixed},
	} {
		row := siteRow{offset: test.offset, total: ccmap.Counters{Samples: test.samples}}
		for _, name := range test.callees {
			row.callees = append(row.callees, calleeRow{method: ccmap.Method{Name: name}})
		}
		row.targets = targets(row.callees)
		if got := row.hint(p); got != test.want {
			t.Errorf("%d samples of %v: %q, want %q", test.samples, test.callees, got, test.want)
		}
	}
}
