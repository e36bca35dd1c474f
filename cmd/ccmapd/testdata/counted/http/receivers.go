package http

import (
	"bufio"
	"encoding/json"
	"net"
	"os"
)

// init serves the counts so far at the socket.
func init() {
	path := os.Getenv("RECEIVERS")
	if path == "" {
		return
	}
	socket, err := net.Listen("unix", path)
	if err != nil {
		panic(err)
	}
	go func() {
		for {
			c, err := socket.Accept()
			if err != nil {
				panic(err)
			}
			_ = json.NewEncoder(c).Encode(bufio.Receivers()) // a client that has gone gets nothing
			c.Close()
		}
	}()
}
