package gocover_test

import (
	"fmt"

	"github.com/ccmapd/ccmapd/cmd/ccmapd/internal/gocover"
)

// ReadDir returns a function as blocks with their counts. The source explains the
// blocks.
func ExampleSource_Split() {
	source, err := gocover.ParseSource([]byte(`package p

func sign(n int) string {
	if n < 0 {
		return "negative"
	}
	return ""
}
`))
	if err != nil {
		panic(err)
	}
	sign := gocover.Function{Name: "sign", File: "example.com/p/p.go", Blocks: []gocover.Block{
		{Start: gocover.Position{Line: 3, Column: 25}, End: gocover.Position{Line: 4, Column: 11}, Count: 100},
		{Start: gocover.Position{Line: 7, Column: 2}, End: gocover.Position{Line: 7, Column: 11}, Count: 70},
		{Start: gocover.Position{Line: 4, Column: 11}, End: gocover.Position{Line: 6, Column: 3}, Count: 30},
	}}
	functions, ok := source.Split(sign, gocover.ModeAtomic)
	fmt.Println(ok, functions[0].Blocks[0].Count, "calls")
	for _, b := range functions[0].Branches {
		fmt.Printf("line %d: %d taken, %d untaken\n", b.Start.Line, b.Taken, b.Untaken)
	}
	// Output:
	// true 100 calls
	// line 4: 30 taken, 70 untaken
}
