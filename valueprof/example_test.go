package valueprof_test

import (
	"fmt"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/valueprof"
)

func ExampleTable() {
	t := valueprof.New(3, valueprof.HashAuto)
	for _, v := range []uint64{5, 5, 6, 5, 7, 8, 6, 9} {
		if !t.Hit(v) {
			t.Miss(v)
		}
	}
	for _, v := range t.AppendValues(nil) {
		fmt.Println(v.Value, v.Count)
	}
	fmt.Println("other", t.Other(), "of", t.Total())

	t.Decay(nil) // 8 and 9 are too many to stay unknown
	t.AddN(8, 10)
	fmt.Println(t.AppendValues(nil), t.Other(), t.Aged(), t.Total())
	// Output:
	// 5 3
	// 6 2
	// 7 1
	// other 2 of 8
	// [{8 10} {5 1} {6 1}] 1 5 18
}

// A call site in the method 1 sees two receiver types, three times the one.
func ExampleProfile() {
	const square, circle = 100, 101
	p := valueprof.NewProfile(valueprof.Options{})
	site := valueprof.Site{Method: 1, Offset: 24}
	for i := range 1000 {
		if i%4 == 0 {
			p.Call(site, circle)
		} else {
			p.Call(site, square)
		}
	}
	anywhere := func(uint32) []ccmap.Frame { return nil }
	for _, v := range p.Points(anywhere) {
		fmt.Printf("%d+%d %d %v\n", v.Method, v.Offset, v.Count, v.Values)
	}
	// Output: 1+24 1000 [{100 750} {101 250}]
}
