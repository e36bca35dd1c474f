package valueprof_test

import (
	"fmt"

	"github.com/ccmapd/ccmapd/valueprof"
)

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
	for v := range p.Points() {
		fmt.Println(v.Site, v.Count, v.Values)
	}
	// Output: 1+24 1000 [{100 750} {101 250}]
}
