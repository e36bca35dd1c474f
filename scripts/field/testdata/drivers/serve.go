package main

import (
	"fmt"
	"log"
	"net"
	"net/http"
	_ "net/http/pprof"
)

// serve calls work over and over from two goroutines, unless it is nil, and serves
// /debug/pprof at an address that it prints.
func serve(work func()) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	for i := 0; i < 2 && work != nil; i++ {
		go func() {
			for {
				work()
			}
		}()
	}
	fmt.Printf("serving %s\n", listener.Addr())
	log.Fatal(http.Serve(listener, nil))
}
