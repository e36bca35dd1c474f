package manager_test

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/manager"
	"github.com/ccmapd/ccmapd/queue"
	"github.com/ccmapd/ccmapd/sampler"
)

// script is a source in this process that always takes the same samples.
type script struct{ sink sampler.Sink }

func newScript() script {
	return script{sampler.Sink{Queue: queue.New(queue.Options{}), Names: ccmap.NewNames()}}
}

func (s script) Info() sampler.Info   { return sampler.Info{Embedded: true, Sink: s.sink} }
func (s script) Stats() sampler.Stats { return sampler.Stats{Interval: 10 * time.Millisecond} }
func (s script) method(name string) ccmap.MethodID {
	return s.sink.Names.Intern(ccmap.Method{Name: name})
}

func (s script) Run(context.Context) (sampler.Ending, error) {
	ring := s.sink.Queue.Ring()
	defer ring.Close()
	frames := []ccmap.Frame{{Method: s.method("fib"), Offset: 12}, {Method: s.method("main"), Offset: 3}}
	for range 3 {
		ring.Push(&ccmap.Sample{Frames: frames, Thread: 1, Weight: 10e6, Fresh: ccmap.FreshUnknown})
	}
	return sampler.Ending{Reason: "script ended", Exited: true}, nil
}

// A program profiles code that it runs itself.
func ExampleStart() {
	session, err := manager.Start(context.Background(), manager.Config{Source: newScript()})
	if err != nil {
		fmt.Println(err)
		return
	}
	// Here the program works. Any goroutine may read session.Snapshot().
	<-session.Done()
	report, err := session.Stop()
	fmt.Println(report.Ending.Reason, err, session.Status().Samples, "samples")
	for m := range session.Snapshot().Methods() {
		fmt.Println(m.Method().Name, time.Duration(m.Cumulative().Time), time.Duration(m.Self().Time))
	}
	// Unordered output:
	// script ended <nil> 3 samples
	// fib 30ms 30ms
	// main 30ms 0s
}

// A compiler learns which methods are hot, by whom they are called, and where a call has one target. OnHot runs on
// the manager's goroutine: a real compiler has a queue there, and reads the snapshot elsewhere.
func ExampleThresholds() {
	onHot := func(e manager.Event) {
		m, _ := e.Snapshot.Method(e.Method)
		fmt.Println(m.Method().Name, "has reached", e.Threshold, "of CPU time")
		for caller := range m.Callers() {
			fmt.Printf("  %v of it called by %s\n", time.Duration(caller.Total().Time), e.Snapshot.Names().At(caller.Caller()).Name)
		}
		for site := range m.CallSites() {
			if targets := slices.Collect(site.Callees()); len(targets) == 1 {
				fmt.Printf("  at %+d it calls %s alone\n", site.Offset(), e.Snapshot.Names().At(targets[0].Callee()).Name)
			}
		}
	}
	hot := manager.Thresholds{Method: manager.Threshold{Time: 25 * time.Millisecond}}
	session, err := manager.Start(context.Background(), manager.Config{Source: newScript(), Hot: hot, OnHot: onHot})
	if err != nil {
		fmt.Println(err)
		return
	}
	<-session.Done()
	// Output:
	// fib has reached 25ms of CPU time
	//   30ms of it called by main
	// main has reached 25ms of CPU time
	//   at +3 it calls fib alone
}
