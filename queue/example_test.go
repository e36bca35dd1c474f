package queue_test

import (
	"fmt"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/queue"
)

func Example() {
	q := queue.New(queue.Options{})

	go func() { // a thread that takes samples
		ring := q.Ring()
		defer ring.Close()
		frames := []ccmap.Frame{{Method: 7, Offset: 3}, {Method: 2, Offset: 40}}
		ring.Push(&ccmap.Sample{Frames: frames, Thread: 1, Weight: 10e6})
	}()

	<-q.Ready()
	q.Drain(func(s *ccmap.Sample) {
		fmt.Println("thread", s.Thread, "was in method", s.Frames[0].Method)
	})
	fmt.Printf("%+v\n", q.Stats())
	// Output:
	// thread 1 was in method 7
	// {Pushed:1 Delivered:1 Dropped:0 Oversized:0 Rings:1}
}
