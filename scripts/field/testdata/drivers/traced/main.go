// Traced has goroutines that sleep and, if its argument is a number, as many that spin. It traces itself: after a line on
// standard input it begins, after a second one it prints for how long goroutines slept below main.sleeps, and were
// runnable there, by runtime/trace, in ns.
package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	rtrace "runtime/trace"
	"strconv"
	"time"

	"golang.org/x/exp/trace"
)

//go:noinline
func sleeps() { time.Sleep(5 * time.Millisecond) }

var sink []byte

func main() {
	spinners, _ := strconv.Atoi(os.Args[1])
	for range 6 {
		go func() {
			for {
				sleeps()
			}
		}()
	}
	for i := range spinners {
		go func() {
			for n := 0; ; n++ {
				if i == 0 && n%100 == 0 {
					sink = make([]byte, 1<<16) // for the collector
				}
				for range 10000 {
				}
			}
		}()
	}
	in := bufio.NewReader(os.Stdin)
	fmt.Println("ready")
	in.ReadString('\n')
	var recorded bytes.Buffer
	if err := rtrace.Start(&recorded); err != nil {
		panic(err)
	}
	in.ReadString('\n')
	rtrace.Stop()
	slept, ran, took := read(&recorded)
	fmt.Println("traced", slept, ran, took)
	in.ReadString('\n')
}

// read adds up the states of goroutines that sleep.
func read(from io.Reader) (slept, runnable, took int64) {
	r, err := trace.NewReader(from)
	if err != nil {
		panic(err)
	}
	type state struct {
		since  trace.Time
		is     trace.GoState
		sleeps bool
	}
	goroutines := make(map[trace.GoID]*state)
	var first, last trace.Time
	for {
		e, err := r.ReadEvent()
		if err == io.EOF {
			return slept, runnable, int64(last.Sub(first))
		}
		if err != nil {
			panic(err)
		}
		if first == 0 {
			first = e.Time()
		}
		last = e.Time()
		if e.Kind() != trace.EventStateTransition || e.StateTransition().Resource.Kind != trace.ResourceGoroutine {
			continue
		}
		t := e.StateTransition()
		id := t.Resource.Goroutine()
		_, to := t.Goroutine()
		g := goroutines[id]
		if g == nil {
			g = &state{since: e.Time()}
			goroutines[id] = g
		} else if g.sleeps {
			switch d := int64(e.Time().Sub(g.since)); g.is {
			case trace.GoWaiting:
				slept += d
			case trace.GoRunnable:
				runnable += d
			}
		}
		if to == trace.GoWaiting {
			g.sleeps = t.Reason == "sleep"
		}
		if to == trace.GoRunning {
			g.sleeps = false
		}
		g.since, g.is = e.Time(), to
	}
}
