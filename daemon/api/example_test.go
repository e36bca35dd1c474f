package api_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/daemon/api"
	"github.com/ccmapd/ccmapd/daemon/client"
	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/manager"
	"github.com/ccmapd/ccmapd/sampler/managed"
)

// machine is a VM with a stack that never changes, innermost first.
type machine []managed.Frame

// Walk implements managed.Walker.
func (m machine) Walk(visit func(managed.Frame) bool) {
	for _, f := range m {
		if !visit(f) {
			return
		}
	}
}

// A program that hosts a VM answers questions about it beside its own routes. This one asks
// itself; 'ccmapd top http://HOST/v1/p/live:scripts/map' would do the same. Its VM is sampled at each
// safe point; without Interval it would be every 10 ms.
func ExampleHandler() {
	profiler := managed.New(managed.Options{Interval: -1})
	session, err := manager.Start(context.Background(), manager.Config{Source: profiler})
	if err != nil {
		fmt.Println(err)
		return
	}
	mux := http.NewServeMux()
	mux.Handle("/v1/", api.Handler(map[string]api.Session{"scripts": session}))
	server := httptest.NewServer(mux)
	defer server.Close()

	var vm machine
	for _, name := range []string{"draw", "main"} {
		vm = append(vm, managed.Frame{Method: profiler.Sink().Names.Intern(ccmap.Method{Name: name}), Mark: new(managed.Mark)})
	}
	thread := profiler.Attach(managed.ThreadOptions{})
	for range 3 {
		profiler.Mark(10)
		thread.Safepoint(vm)
	}
	thread.Detach()
	profiler.Finish("program ended")
	<-session.Done()

	profile, err := client.Read(context.Background(), server.URL+"/v1/p/live:scripts/map", export.ReadOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for m := range profile.Snapshot().Methods() {
		fmt.Println(m.Method().Name, m.Cumulative().Samples)
	}
	// Output:
	// draw 3
	// main 3
}
