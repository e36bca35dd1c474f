// Command main is the workload alone, for tests that build it in other ways, for example
// stripped, as PIE or with a profile: go build -pgo=demo.pb.gz .
package main

import (
	"os"

	"github.com/ccmapd/ccmapd/cmd/ccmapd/internal/demo"
)

func main() { os.Exit(demo.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }
