// Plugged loads the plugin that its argument names, and has a goroutine of it and one of its own wait. After a line on
// standard input it prints for how long each has waited, ns, and ends after another.
package main

import (
	"bufio"
	"fmt"
	"os"
	"plugin"
	"time"
)

//go:noinline
func sleeps() {
	for {
		time.Sleep(3 * time.Millisecond)
	}
}

func main() {
	p, err := plugin.Open(os.Args[1])
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	rests, err := p.Lookup("Rests")
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	go rests.(func())()
	go sleeps()
	begin := time.Now()
	fmt.Println("ready")
	in := bufio.NewReader(os.Stdin)
	in.ReadString('\n')
	fmt.Println(1, int64(time.Since(begin)))
	in.ReadString('\n')
}
