package pollution

import "math"

const (
	mostRounds = 1000
	tolerance  = 1e-6 // part of all calls by which a sum may be missed
)

// fit scales a table of numbers > 0 until each column and each group of rows has its wanted
// sum: iterative proportional fitting. The sums of both kinds have the same total > 0.
// Scaling keeps the ratios of ratios: of all tables with these sums, it ends with the one
// that has those of the first. It returns false if that takes too long.
func fit(cells [][]float64, groups []int, rows, columns []float64) bool {
	for range mostRounds {
		scaleRows(cells, groups, rows)
		if scaleColumns(cells, columns) <= tolerance*total(columns) {
			return true
		}
	}
	return false
}

// scaleRows gives each group of rows its sum.
func scaleRows(cells [][]float64, groups []int, wanted []float64) {
	sums := make([]float64, len(wanted))
	for i, row := range cells {
		sums[groups[i]] += total(row)
	}
	for i, row := range cells {
		if g := groups[i]; sums[g] > 0 { // else it is wanted to be 0, and was scaled to it
			scale(row, wanted[g]/sums[g])
		}
	}
}

// scaleColumns gives each column its sum. It returns by how much one was wrong at most.
func scaleColumns(cells [][]float64, wanted []float64) (wrong float64) {
	for k, want := range wanted {
		sum := 0.0
		for _, row := range cells {
			sum += row[k]
		}
		for _, row := range cells {
			row[k] *= want / sum
		}
		wrong = max(wrong, math.Abs(want-sum))
	}
	return wrong
}

func total(numbers []float64) (sum float64) {
	for _, n := range numbers {
		sum += n
	}
	return sum
}

func scale(numbers []float64, by float64) {
	for i := range numbers {
		numbers[i] *= by
	}
}
