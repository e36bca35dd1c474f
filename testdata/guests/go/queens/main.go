// Command queens counts the ways to place eight queens, and the necessary calls.
package main

import (
	"fmt"

	"github.com/ccmapd/ccmapd/testdata/guests/go/rounds"
)

const size = 8

type board struct {
	columns          [size]bool
	rising, falling  [2*size - 1]bool
	solutions, calls int
}

// place puts a queen into each row from row on, in every way. It calls itself once for
// each free field of a row.
//
//go:noinline
func (b *board) place(row int) {
	b.calls++
	if row == size {
		b.solutions++
		return
	}
	for column := range size {
		if b.free(row, column) {
			b.set(row, column, true)
			b.place(row + 1)
			b.set(row, column, false)
		}
	}
}

//go:noinline
func (b *board) free(row, column int) bool {
	return !b.columns[column] && !b.rising[row+column] && !b.falling[row-column+size-1]
}

//go:noinline
func (b *board) set(row, column int, taken bool) {
	b.columns[column] = taken
	b.rising[row+column] = taken
	b.falling[row-column+size-1] = taken
}

func main() {
	var b board
	rounds.Repeat(func() {
		for range 10 {
			b.place(0)
		}
	})
	fmt.Println("solutions", b.solutions)
	fmt.Println("main.(*board).place", b.calls)
}
