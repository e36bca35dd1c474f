package http

import (
	"bufio"
	"encoding/json"
	"net"
	"os"
)

// init gives all that was counted so far to who connects to the socket.
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
			_ = json.NewEncoder(c).Encode(bufio.Receivers()) // who has gone gets nothing
			c.Close()
		}
	}()
}
