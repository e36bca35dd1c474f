package compare_test

import (
	"fmt"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/ccmap/compare"
)

func ExampleCompare() {
	profile := func(parse, serve int64) *ccmap.Snapshot {
		m := ccmap.New(ccmap.Options{})
		for name, samples := range map[string]int64{"parse": parse, "serve": serve} {
			main := m.Child(m.Root(), ccmap.NoOffset, m.Names().Intern(ccmap.Method{Name: "main"}))
			callee := m.Child(main, 3, m.Names().Intern(ccmap.Method{Name: name}))
			m.Add(callee, ccmap.Counters{Samples: samples, Time: samples * 10_000_000})
		}
		return m.Snapshot()
	}
	r, err := compare.Compare(profile(250, 750), profile(500, 500), compare.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("methods  %.1f %%\n", r.Methods.Percent)
	fmt.Printf("edges    %.1f %%\n", r.Edges.Percent)
	fmt.Printf("contexts %.1f %% of %d counters\n", r.Contexts.Percent, r.Contexts.Counters)
	fmt.Println("a difference:", r.Contexts.Percent < r.Contexts.Floor)
	// Output:
	// methods  87.5 %
	// edges    75.0 %
	// contexts 83.3 % of 5 counters
	// a difference: true
}
