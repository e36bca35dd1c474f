// Idlers has goroutines that wait for ever, as many as its argument says, and 50 that sleep for some ms again and again.
package main

import (
	"fmt"
	"os"
	"strconv"
	"time"
)

func main() {
	n, err := strconv.Atoi(os.Args[1])
	if err != nil {
		panic(err)
	}
	for range n {
		go idle()
	}
	for i := range 50 {
		go func() {
			for {
				time.Sleep(time.Duration(3+i%9) * time.Millisecond)
			}
		}()
	}
	time.Sleep(2 * time.Second)
	fmt.Println("waiting")
	select {}
}

func idle() { <-make(chan int) }
