// Natsload makes a nats-server work: publishers and subscribers that never wait.
package main

import (
	"fmt"
	"log"
	"os"

	"github.com/nats-io/nats.go"
)

func main() {
	payload := make([]byte, 128)
	for i := range 4 {
		subject := fmt.Sprintf("s.%d", i%2)
		s, err := nats.Connect(os.Args[1])
		if err != nil {
			log.Fatal(err)
		}
		if _, err := s.Subscribe(subject, func(*nats.Msg) {}); err != nil {
			log.Fatal(err)
		}
		p, err := nats.Connect(os.Args[1])
		if err != nil {
			log.Fatal(err)
		}
		go func() {
			for {
				if err := p.Publish(subject, payload); err != nil {
					log.Fatal(err)
				}
			}
		}()
	}
	fmt.Println("loading")
	select {}
}
