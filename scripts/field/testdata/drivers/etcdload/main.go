// Etcdload makes an etcd work: clients that put a key, and wait for it.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

func main() {
	for i := range 8 {
		c, err := clientv3.New(clientv3.Config{Endpoints: []string{os.Args[1]}, DialTimeout: 10 * time.Second})
		if err != nil {
			log.Fatal(err)
		}
		go func() {
			for n := 0; ; n++ {
				ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
				if _, err := c.Put(ctx, fmt.Sprintf("key-%d-%d", i, n%1000), "value"); err != nil {
					time.Sleep(10 * time.Millisecond)
				}
				cancel()
			}
		}()
	}
	fmt.Println("loading")
	select {}
}
