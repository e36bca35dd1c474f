// Served uses CPU time in main.spin, and serves its profiles at the address that it prints.
// It ends with its standard input.
package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	_ "net/http/pprof"
	"os"
)

func main() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println(l.Addr())
	go http.Serve(l, nil)
	go func() {
		io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	for {
		spin()
	}
}

var sink int

//go:noinline
func spin() {
	for i := range 1 << 20 {
		sink += i
	}
}
