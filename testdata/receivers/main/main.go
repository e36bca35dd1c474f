// Command main is the program of package receivers.
package main

import (
	"os"

	"github.com/ccmapd/ccmapd/testdata/receivers"
)

func main() { os.Exit(receivers.Main(os.Args[1:], os.Stdout, os.Stderr)) }
