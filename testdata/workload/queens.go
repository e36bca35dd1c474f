package workload

// board is a chess board on which queens are placed row by row.
type board struct {
	size            int
	columns         uint32
	rising, sinking uint64 // diagonals
}

// place counts the ways to put queens into row and all after it.
func (b *board) place(row int, t *tally) int {
	t[callPlace]++
	if row == b.size {
		return 1
	}
	ways := 0
	for column := range b.size {
		if b.free(row, column) {
			b.flip(row, column)
			ways += b.place(row+1, t)
			b.flip(row, column)
		}
	}
	return ways
}

// free and flip are small enough to be inlined.

func (b *board) free(row, column int) bool {
	return b.columns>>column&1 == 0 && b.rising>>(row+column)&1 == 0 && b.sinking>>(row-column+b.size)&1 == 0
}

func (b *board) flip(row, column int) {
	b.columns ^= 1 << column
	b.rising ^= 1 << (row + column)
	b.sinking ^= 1 << (row - column + b.size)
}
