package session

import (
	"slices"
	"testing"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/manager"
)

// TestNextSteps: a report says how to go on with a profile that has not settled, and how to list by labels.
func TestNextSteps(t *testing.T) {
	t.Parallel()
	const low = "Settled: methods 97.0%, edges 92.0%, contexts 71.5%. '--until contexts:90%' samples until all can be trusted."
	for _, test := range []struct {
		name    string
		settled ccmap.Settled
		labels  []ccmap.Label
		reached bool
		written []string
		want    []string
	}{
		{"nothing to say", ccmap.Settled{}, nil, false, nil, nil},
		{"settled", ccmap.Settled{Methods: 99, Edges: 95, Contexts: 90, Samples: 4000}, nil, false, nil, nil},
		{"low", ccmap.Settled{Methods: 97, Edges: 92, Contexts: 71.5, Samples: 2000}, nil, false, nil, []string{low}},
		{"low, and as asked for", ccmap.Settled{Methods: 97, Edges: 92, Contexts: 71.5, Samples: 2000}, nil, true, nil, nil},
		{"labels", ccmap.Settled{}, []ccmap.Label{{Key: "user", Value: "7"}, {Key: "route", Value: "/a"}}, false, []string{"a.folded", "web 1.pb.gz"},
			[]string{"Labels (pprof.Do): 75.0% of the samples have route, user: see 'ccmapd top --by label 'web 1.pb.gz''."}},
		{"labels in no file", ccmap.Settled{}, []ccmap.Label{{Key: "route", Value: "/a"}}, false, nil, []string{"Labels (pprof.Do): 75.0% of the samples have route."}},
	} {
		m := ccmap.New(ccmap.Options{})
		main := m.Names().Intern(ccmap.Method{Name: "main.main"})
		m.Add(m.Child(m.Root(), ccmap.NoOffset, main), ccmap.Counters{Samples: 1, Time: 1})
		at := m.Root()
		if test.labels != nil {
			at = m.Child(at, ccmap.NoOffset, m.Names().Intern(ccmap.LabelsMethod(test.labels)))
		}
		m.Add(m.Child(at, ccmap.NoOffset, main), ccmap.Counters{Samples: 3, Time: 3})
		m.Meta().Settled = test.settled
		r := manager.Report{Snapshot: m.Snapshot(), Reached: test.reached, Written: test.written}
		if got := nextSteps(Profile(r), r); !slices.Equal(got, test.want) {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}
