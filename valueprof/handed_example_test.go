package valueprof_test

import (
	"context"
	"fmt"
	"sync"

	"github.com/ccmapd/ccmapd/valueprof"
)

// A virtual machine has its threads count the receivers of a call, a janitor in a
// thread of its own, and a compiler that asks what the best profile of the method
// knows, from whichever source.
func ExampleHanded() {
	janitor := valueprof.NewJanitor(valueprof.JanitorOptions{})
	ctx, stop := context.WithCancel(context.Background())
	var janitors, threads sync.WaitGroup
	janitors.Go(func() { janitor.Run(ctx) })

	// A body of the method is compiled so that it profiles one call.
	const square, circle = 100, 101
	call := valueprof.Site{Method: 1, Offset: 24}
	body := valueprof.NewHanded(3, valueprof.HashAuto, call)
	info := valueprof.NewInfo(janitor, body)
	var method valueprof.History
	method.Renew(info)
	for range 2 {
		threads.Go(func() {
			receivers := body.Join(0)
			for range 750 {
				receivers.Add(square)
			}
			for range 250 {
				receivers.Add(circle)
			}
			receivers.Release()
			info.Added(1000)
		})
	}
	threads.Wait()
	stop()
	janitors.Wait()

	// The compiler uses what the body and, say, a file have recorded.
	var used valueprof.Accessed
	var sources valueprof.Sources
	sources.Set(valueprof.Instrumented, used.Best(&method).Body().(*valueprof.Handed))
	sources.Set(valueprof.Imported, valueprof.Views{{Site: call, Count: 1, Values: []valueprof.Value{{Value: circle, Count: 1}}}})
	for v := range sources.Points(valueprof.AllSources) {
		fmt.Println(v.Kind, v.Site, v.Count, v.Values)
	}

	// The body and the method are gone, but what the compiler uses is not.
	info.Release()
	method.Drop()
	fmt.Println("freed:", janitor.Look().Freed)
	used.Release()
	fmt.Println("freed:", janitor.Look().Freed)
	// Output:
	// call 1+24 2001 [{100 1500} {101 501}]
	// freed: 0
	// freed: 1
}
