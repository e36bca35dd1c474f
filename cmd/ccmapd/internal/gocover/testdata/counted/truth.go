// Program counted counts its own branches, switches and calls, and prints the counts as
// JSON. Tests compare them with the coverage counters. The words after "branch", "switch"
// or "case" in a comment are the name of the count of that line.
package main

import (
	"encoding/json"
	"os"
	"strconv"
)

var truth = map[string]int{}

func count(what string) { truth[what]++ }

func main() {
	count("call main.main")
	rounds := 1
	if len(os.Args) > 1 { // branch args
		count("taken args")
		rounds, _ = strconv.Atoi(os.Args[1])
	} else {
		count("untaken args")
	}
	for i := range rounds {
		work(i)
	}
	json.NewEncoder(os.Stdout).Encode(truth)
}
