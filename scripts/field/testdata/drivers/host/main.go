// Command host loads a plugin and calls it, over and over.
package main

import (
	"log"
	"os"
	"plugin"
)

func main() {
	p, err := plugin.Open(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	work, err := p.Lookup("Work")
	if err != nil {
		log.Fatal(err)
	}
	serve(work.(func()))
}
