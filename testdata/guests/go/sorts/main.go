// Command sorts sorts numbers through an interface and with a closure, and counts
// the comparisons: calls through a table from inside Go's library.
package main

import (
	"fmt"
	"os"
	"slices"
	"sort"

	"github.com/ccmapd/ccmapd/testdata/guests/go/rounds"
)

// counted is a sort.Interface that counts the calls of Less.
type counted struct {
	values []uint32
	less   int
}

func (c *counted) Len() int      { return len(c.values) }
func (c *counted) Swap(i, j int) { c.values[i], c.values[j] = c.values[j], c.values[i] }
func (c *counted) Less(i, j int) bool {
	c.less++
	return c.values[i] < c.values[j]
}

func numbers(n int) []uint32 {
	values := make([]uint32, n)
	state := uint32(1)
	for i := range values {
		state = state*1664525 + 1013904223
		values[i] = state
	}
	return values
}

func main() {
	values := numbers(5000)
	byInterface, compared := counted{}, 0
	rounds.Repeat(func() {
		byInterface.values = slices.Clone(values)
		sort.Sort(&byInterface)
		byClosure := slices.Clone(values)
		slices.SortFunc(byClosure, func(a, b uint32) int {
			compared++
			return int(a>>1) - int(b>>1)
		})
		if !slices.IsSorted(byInterface.values) {
			fmt.Fprintln(os.Stderr, "not sorted")
			os.Exit(1)
		}
	})
	fmt.Println("main.(*counted).Less", byInterface.less)
	fmt.Println("main.main.func1.1", compared)
}
