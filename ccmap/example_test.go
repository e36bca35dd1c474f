package ccmap_test

import (
	"fmt"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
)

// server is a map of ten samples, 10 ms apart, of two handlers that call the
// same lookup:
//
//	serve:1 > list   > lookup > hash  6 samples
//	serve:2 > detail > lookup > hash  3 samples
//	serve:2 > detail                  1 sample
func server() *ccmap.Map {
	m := ccmap.New(ccmap.Options{})
	id := func(name string) ccmap.MethodID { return m.Names().Intern(ccmap.Method{Name: name}) }
	serve, list, detail, lookup, hash := id("serve"), id("list"), id("detail"), id("lookup"), id("hash")
	fold := func(times int, innermostFirst ...ccmap.Frame) {
		for range times {
			m.Fold(&ccmap.Sample{Frames: innermostFirst, Weight: 10_000_000, Fresh: int32(len(innermostFirst))})
		}
	}
	fold(6, ccmap.Frame{Method: hash, Offset: 3}, ccmap.Frame{Method: lookup, Offset: 4}, ccmap.Frame{Method: list, Offset: 5}, ccmap.Frame{Method: serve, Offset: 1})
	fold(3, ccmap.Frame{Method: hash, Offset: 3}, ccmap.Frame{Method: lookup, Offset: 4}, ccmap.Frame{Method: detail, Offset: 6}, ccmap.Frame{Method: serve, Offset: 2})
	fold(1, ccmap.Frame{Method: detail, Offset: 9}, ccmap.Frame{Method: serve, Offset: 2})
	return m
}

// What is hot, and on which line?
func ExampleSnapshot_Methods() {
	for p := range server().Snapshot().Methods() {
		fmt.Printf("%-6s  total %2d  self %d\n", p.Method().Name, p.Total().Samples, p.Self().Samples)
		for offset, c := range p.Lines() {
			fmt.Printf("        line +%d: %d\n", offset, c.Samples)
		}
	}
	// Output:
	// serve   total 10  self 0
	// list    total  6  self 0
	// detail  total  4  self 1
	//         line +9: 1
	// lookup  total  9  self 0
	// hash    total  9  self 9
	//         line +3: 9
}

// Which calls does a method make, and has each one target only?
func ExampleMethodProfile_CallSites() {
	s := server().Snapshot()
	serve, _ := s.Names().Lookup("serve", "")
	p, _ := s.Method(serve)
	for site := range p.CallSites() {
		fmt.Printf("serve+%d: %d\n", site.Offset(), site.Total().Samples)
		for callee := range site.Callees() {
			fmt.Printf("    %s: %d\n", s.Names().At(callee.Callee()).Name, callee.Total().Samples)
		}
	}
	// Output:
	// serve+1: 6
	//     list: 6
	// serve+2: 4
	//     detail: 4
}

// From where does lookup call hash? The edge is hot in one context and not in
// the other.
func ExampleCallee_Contexts() {
	s := server().Snapshot()
	hash, _ := s.Names().Lookup("hash", "")
	p, _ := s.Method(hash)
	for edge := range p.Callers() {
		fmt.Println("lookup > hash:", edge.Total().Samples)
		for ref := range edge.Contexts() {
			for _, f := range ref.Path() {
				fmt.Print(s.Names().At(f.Method).Name, " < ")
			}
			fmt.Println("…:", ref.Total().Samples)
		}
	}
	// Output:
	// lookup > hash: 9
	// hash < lookup < list < …: 6
	// hash < lookup < detail < …: 3
}

// How often was a sub-path seen, wherever it occurs?
func ExampleSnapshot_Ref() {
	s := server().Snapshot()
	lookup, _ := s.Names().Lookup("lookup", "")
	hash, _ := s.Names().Lookup("hash", "")
	c := s.Ref([]ccmap.PathElem{{Method: lookup, Site: ccmap.AnyOffset}, {Method: hash}})
	fmt.Println(c.Samples, "samples,", c.Time/1e6, "ms,", c.Activations, "calls")
	// Output: 9 samples, 90 ms, 9 calls
}

// Two maps of the same program, sampled apart, add up.
func ExampleMap_Merge() {
	m := server()
	if err := m.Merge(server().Snapshot()); err != nil {
		fmt.Println(err)
	}
	fmt.Println(m.Snapshot().Total().Samples, "samples in", m.Len(), "nodes")
	// Output: 20 samples in 11 nodes
}

// What is hot now, rather than ever? The window forgets by a factor of e a
// minute.
func ExampleSnapshot_Recent() {
	m := ccmap.New(ccmap.Options{Window: time.Minute})
	startup := m.Names().Intern(ccmap.Method{Name: "startup"})
	serve := m.Names().Intern(ccmap.Method{Name: "serve"})
	for second := range 600 {
		method := serve
		if second < 500 {
			method = startup
		}
		m.Fold(&ccmap.Sample{Frames: []ccmap.Frame{{Method: method, Offset: 1}}, Time: int64(second) * 1e9, Weight: 1e9})
	}
	ever := m.Snapshot()
	now, _ := ever.Recent()
	for p := range ever.Methods() {
		recent, _ := now.Method(p.ID())
		fmt.Printf("%-7s  %3d samples, %2d recent\n", p.Method().Name, p.Total().Samples, recent.Total().Samples)
	}
	// Output:
	// startup  500 samples, 11 recent
	// serve    100 samples, 49 recent
}

// Which types did an interface call meet, and does it depend on the caller?
func ExampleSnapshot_Points() {
	m := ccmap.New(ccmap.Options{})
	id := func(name, receiver string) ccmap.MethodID {
		return m.Names().Intern(ccmap.Method{Name: name, Receiver: receiver})
	}
	sum, list := id("sum", ""), id("list", "")
	square, circle := id("(*Square).Area", "*Square"), id("Circle.Area", "Circle")
	call := func(context []ccmap.Frame, squares, circles int64) ccmap.Point {
		return ccmap.Point{Method: sum, Offset: 4, Callers: context, Nulls: ccmap.NullsUnknown, Values: []ccmap.PointValue{
			{Value: uint64(square), Count: squares}, {Value: uint64(circle), Count: circles},
		}}
	}
	m.SetPoints(ccmap.OriginBurst, []ccmap.Point{
		call(nil, 48, 16),
		call([]ccmap.Frame{{Method: list, Offset: 7}}, 48, 0),
	})
	s := m.Snapshot()
	for _, p := range s.Points() {
		fmt.Printf("%v %v at +%d, %d callers known: %d\n", p.Origin, p.Kind, p.Offset, len(p.Callers), p.Count)
		for _, v := range p.Values {
			fmt.Printf("    %s: %d\n", s.Names().At(ccmap.MethodID(v.Value)).Receiver, v.Count)
		}
	}
	// Output:
	// burst call at +4, 0 callers known: 64
	//     *Square: 48
	//     Circle: 16
	// burst call at +4, 1 callers known: 48
	//     *Square: 48
}
