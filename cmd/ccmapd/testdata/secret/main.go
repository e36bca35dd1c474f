// Command secret computes with the contents of a file as a label, as a program does that labels work by tenant or
// token.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"runtime/pprof"
)

func main() {
	secret, err := os.ReadFile(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	pprof.Do(context.Background(), pprof.Labels("token", string(secret)), func(context.Context) {
		fmt.Println("running")
		for n := 0; ; n++ {
			if spin(n) < 0 {
				return
			}
		}
	})
}

//go:noinline
func spin(n int) int { return n & 1 }
