// Command json encodes a document, decodes it and compares: reflection, maps,
// allocation and the garbage collector of Go's library in WebAssembly.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"

	"github.com/ccmapd/ccmapd/testdata/guests/go/rounds"
)

type item struct {
	ID     int
	Name   string
	Tags   []string
	Prices map[string]float64
	Parent *item `json:",omitempty"`
}

func document(n int) []item {
	items := make([]item, n)
	for i := range items {
		items[i] = item{
			ID:     i,
			Name:   fmt.Sprintf("item %d \"quoted\"", i),
			Tags:   []string{"a", "bb", "ccc"},
			Prices: map[string]float64{"net": float64(i) / 4, "gross": float64(i) / 2},
			Parent: &item{ID: -i, Name: "parent"},
		}
	}
	return items
}

// roundTrip returns the length of the encoded document.
func roundTrip(items []item) int {
	text, err := json.Marshal(items)
	if err != nil {
		fail(err)
	}
	var back []item
	if err := json.Unmarshal(text, &back); err != nil {
		fail(err)
	}
	if !reflect.DeepEqual(items, back) {
		fail("the decoded document differs")
	}
	return len(text)
}

func fail(reason any) {
	fmt.Fprintln(os.Stderr, reason)
	os.Exit(1)
}

func main() {
	items := document(60)
	length := 0
	rounds.Repeat(func() { length += roundTrip(items) })
	fmt.Println("bytes", length)
}
