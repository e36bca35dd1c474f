package compare_test

import (
	"fmt"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/ccmap/compare"
)

// profile has main, which calls parse and serve.
func profile(parse, serve int64) *ccmap.Snapshot {
	m := ccmap.New(ccmap.Options{})
	for name, samples := range map[string]int64{"parse": parse, "serve": serve} {
		main := m.Child(m.Root(), ccmap.NoOffset, m.Names().Intern(ccmap.Method{Name: "main"}))
		callee := m.Child(main, 3, m.Names().Intern(ccmap.Method{Name: name}))
		m.Add(callee, ccmap.Counters{Samples: samples, Time: samples * 10_000_000})
	}
	return m.Snapshot()
}

func ExampleCompare() {
	r, err := compare.Compare(profile(250, 750), profile(500, 500), compare.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("methods  %.1f %%\n", r.Methods.Percent)
	fmt.Printf("edges    %.1f %%\n", r.Edges.Percent)
	fmt.Printf("contexts %.1f %% of %d counters\n", r.Contexts.Percent, r.Contexts.Counters)
	fmt.Println("verdict ", r.Verdict)
	// Output:
	// methods  87.5 %
	// edges    75.0 %
	// contexts 83.3 % of 5 counters
	// verdict  differs
}

func ExampleDifferences() {
	d, err := compare.Differences(profile(250, 750), profile(500, 500), compare.DiffOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, c := range d.Edges.List {
		fmt.Printf("%s < %s: %+.0f points, %d and %d samples, significant: %v\n",
			c.Path[0].Method, c.Path[1].Method, c.Points, c.SamplesA, c.SamplesB, c.Significant)
	}
	// Output:
	// parse < main: +25 points, 250 and 500 samples, significant: true
	// serve < main: -25 points, 750 and 500 samples, significant: true
}

func ExampleFloors() {
	f, err := compare.Floors(profile(250, 750), compare.Options{Seed: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("two halves of %d samples overlap by over 90 %%: %v\n", f.Samples, f.Contexts > 90)
	// Output: two halves of 1000 samples overlap by over 90 %: true
}
