package valueprof_test

import (
	"fmt"

	"github.com/ccmapd/ccmapd/valueprof"
)

// An interpreter records all that it executes of the method 1: a loop that calls,
// mostly on an object, and a condition in it.
func ExampleProfile_kinds() {
	const loop, object, empty, circle = 0, 8, 16, 101
	p := valueprof.NewProfile(valueprof.Options{}) // warm after 8 executions
	at := func(offset uint32) valueprof.Site { return valueprof.Site{Method: 1, Offset: offset} }
	for i := range 30 {
		p.Block(at(loop), 1)
		if i%10 == 0 {
			p.Null(at(object))
		} else {
			p.Call(at(object), circle)
		}
		p.Branch(at(empty), i%2 == 0)
	}
	for v := range p.Points() {
		fmt.Println(v.Kind, v.Site, v.Count, v.Values, v.Nulls)
	}
	fmt.Println("before it was warm:", p.Stats().Cold)
	fmt.Println("under 1 KB:", p.MethodBytes(1) < 1000)
	// Output:
	// call 1+8 28 [{101 26}] 2
	// branch 1+16 28 [{0 14} {1 14}] -1
	// block 1+0 27 [] -1
	// before it was warm: 7
	// under 1 KB: true
}

// A call site in the method 1 sees two receiver types, three times the one.
func ExampleProfile() {
	const square, circle = 100, 101
	p := valueprof.NewProfile(valueprof.Options{Warm: 1})
	site := valueprof.Site{Method: 1, Offset: 24}
	for i := range 1000 {
		if i%4 == 0 {
			p.Call(site, circle)
		} else {
			p.Call(site, square)
		}
	}
	for v := range p.Points() {
		fmt.Println(v.Kind, v.Site, v.Count, v.Values)
	}
	// Output: call 1+24 1000 [{100 750} {101 250}]
}
