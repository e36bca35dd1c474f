package main

import (
	"fmt"
	"log"
	"os"
	"os/signal"
	"runtime/pprof"
	"strconv"
)

// serve calls work as often as the argument says. Without one it calls work over and over
// from two goroutines until it is interrupted, and writes a profile to standard output.
// It replaces the serve with a server, and leaves little to build.
func serve(work func()) {
	if len(os.Args) == 1 {
		profiled(work)
		return
	}
	calls, err := strconv.Atoi(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	for i := 0; i < calls; i++ {
		work()
	}
}

func profiled(work func()) {
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt)
	if err := pprof.StartCPUProfile(os.Stdout); err != nil {
		log.Fatal(err)
	}
	for i := 0; i < 2; i++ {
		go func() {
			for {
				work()
			}
		}()
	}
	fmt.Fprintln(os.Stderr, "ready")
	<-interrupted
	pprof.StopCPUProfile()
}
