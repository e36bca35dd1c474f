package main

import (
	"encoding/json"
	"sort"
	"strconv"
	"strings"
	"sync/atomic"
)

type order struct {
	ID    int
	Name  string
	Lines []line
}

type line struct {
	Item  string
	Price float64
	Count int
}

// operate is one request of an ordinary service: decode, sort, recurse, encode.
func operate(seed int) {
	o := order{ID: seed, Name: "order " + strconv.Itoa(seed)}
	for i := range 20 {
		o.Lines = append(o.Lines, line{Item: strconv.Itoa((i * 7919 * seed) % 1000), Price: float64(i) / 3, Count: i})
	}
	encoded, err := json.Marshal(o)
	if err != nil {
		panic(err) // cannot be: the type is plain
	}
	var back order
	if err := json.Unmarshal(encoded, &back); err != nil {
		panic(err)
	}
	sort.Slice(back.Lines, func(i, j int) bool { return back.Lines[i].Item < back.Lines[j].Item })
	sink.Store(int64(fold(back.Lines, 16)))
}

var sink atomic.Int64

// fold halves its lines recursively, to give the stacks some depth.
func fold(lines []line, depth int) int {
	if len(lines) <= 1 || depth == 0 {
		total := 0
		for _, l := range lines {
			total += l.Count + len(strings.Repeat(l.Item, 3))
		}
		return total
	}
	half := len(lines) / 2
	return fold(lines[:half], depth-1) + fold(lines[half:], depth-1)
}
