package query_test

import (
	"errors"
	"fmt"
	"log"
	"strings"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/ccmap/query"
)

// server is a snapshot of ten samples, 10 ms apart, of two handlers that call the same
// lookup:
//
//	app.serve > app.list   > app.lookup > app.hash  6 samples
//	app.serve > app.detail > app.lookup > app.hash  3 samples
//	app.serve > app.detail                          1 sample
func server() *ccmap.Snapshot {
	m := ccmap.New(ccmap.Options{})
	fold := func(times int, stack string) {
		var frames []ccmap.Frame
		for name := range strings.SplitSeq(stack, " < ") {
			frames = append(frames, ccmap.Frame{Method: m.Names().Intern(ccmap.Method{Name: "app." + name})})
		}
		for range times {
			m.Fold(&ccmap.Sample{Frames: frames, Weight: 10_000_000, Fresh: int32(len(frames))})
		}
	}
	fold(6, "hash < lookup < list < serve")
	fold(3, "hash < lookup < detail < serve")
	fold(1, "detail < serve")
	return m.Snapshot()
}

// How often is a chain of calls on the stack, whatever is above and below it, and what
// calls it?
func Example() {
	s := server()
	path, err := query.ParsePath("lookup > hash")
	if err != nil {
		log.Fatal(err)
	}
	q, err := query.New(s, path, query.Named)
	if err != nil {
		log.Fatal(err)
	}
	r := q.Count()
	fmt.Printf("%s: %d samples, %d calls\n", path, r.Total.Samples, r.Total.Activations)
	for _, n := range r.Callers {
		fmt.Printf("  from %s: %d samples\n", s.Names().At(n.Method).Name, n.Total.Samples)
	}
	// Output:
	// lookup > hash: 9 samples, 9 calls
	//   from app.detail: 3 samples
	//   from app.list: 6 samples
}

// By which chains of callers is a method reached?
func ExampleContexts() {
	s := server()
	hash, err := query.Named(s.Names(), "hash")
	if err != nil {
		log.Fatal(err)
	}
	for _, c := range query.Contexts(s, hash, 2).Contexts {
		fmt.Printf("%d samples:", c.Total.Samples)
		for _, caller := range c.Callers {
			fmt.Printf(" < %s", s.Names().At(caller.Method).Name)
		}
		fmt.Println()
	}
	// Output:
	// 3 samples: < app.lookup < app.detail
	// 6 samples: < app.lookup < app.list
}

// A name that the profile does not have comes with the names that are like it.
func ExampleNamed_unknown() {
	_, err := query.Named(server().Names(), "lokup")
	var e *query.Error
	if errors.As(err, &e) {
		fmt.Println(err)
		fmt.Println("near it:", e.Candidates)
	}
	// Output:
	// no method "lokup" in the profile
	// near it: [app.lookup]
}
