// Program counted counts by itself what its coverage counters count, and prints that
// as JSON. Tests find the lines by the comments there: what follows "branch", "switch"
// or "case" is the name under which it is counted here.
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
