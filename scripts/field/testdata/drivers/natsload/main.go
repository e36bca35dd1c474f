// Natsload makes a nats-server work: publishers that wait for the server once in 1,000 messages, and
// subscribers. A connection that the server has closed is opened again.
package main

import (
	"fmt"
	"log"
	"os"
	"time"

	"github.com/nats-io/nats.go"
)

func main() {
	for i := range 4 {
		subject := fmt.Sprintf("s.%d", i%2)
		if _, err := connect().Subscribe(subject, func(*nats.Msg) {}); err != nil {
			log.Fatal(err)
		}
		go publish(connect(), subject)
	}
	fmt.Println("loading")
	select {}
}

func connect() *nats.Conn {
	c, err := nats.Connect(os.Args[1], nats.MaxReconnects(-1))
	if err != nil {
		log.Fatal(err)
	}
	return c
}

func publish(c *nats.Conn, subject string) {
	payload := make([]byte, 128)
	for {
		for range 1000 {
			if c.Publish(subject, payload) != nil {
				time.Sleep(10 * time.Millisecond) // it connects again
			}
		}
		c.Flush()
	}
}
