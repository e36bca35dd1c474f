package bpf_test

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/queue"
	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/sampler/internal/bpf"
)

// One host samples several processes with one timer a CPU. Each process is a source with a queue
// of its own, which a manager drains.
func ExampleOpenHost() {
	host, err := bpf.OpenHost(bpf.HostOptions{MaxOverhead: 0.01})
	if err != nil {
		fmt.Println(err) // the reason, and what to do about it
		return
	}
	defer host.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var running sync.WaitGroup
	for _, pid := range []int{4711, 4712} {
		sink := sampler.Sink{Queue: queue.New(queue.Options{}), Names: ccmap.NewNames()}
		source, err := host.Open(ctx, bpf.Options{PID: pid, Interval: 10 * time.Millisecond, Sink: sink})
		if err != nil {
			fmt.Println(err)
			continue
		}
		running.Go(func() {
			ending, err := source.Run(ctx)
			fmt.Println(pid, ending.Reason, err)
		})
	}
	running.Wait()
}
