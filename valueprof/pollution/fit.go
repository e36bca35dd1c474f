package pollution

import (
	"math"
	"slices"
)

const (
	mostRounds   = 100
	mostHalvings = 20
	mostSolved   = 16   // columns for Newton's method, whose work grows as their cube; VMs count up to 9, a file may have any number
	tolerance    = 1e-6 // how wrong a sum may be, as a part of all calls
)

// fit scales a table of numbers > 0 until each column and each group of rows has its wanted
// sum. The sums of both kinds have the same total > 0. Scaling keeps the ratios of ratios: of
// all tables with these sums, it ends with the one that has the first one's ratios. It returns
// false, with the table as it was, if that takes too long.
//
// Columns and rows are scaled in turn (iterative proportional fitting), and after each turn
// Newton's method takes a step. Turns alone would take thousands where nearly each caller has a
// type of its own.
func fit(cells [][]float64, groups []int, rows, columns []float64) bool {
	f := fitting{cells, groups, rows, columns}
	logs := make([]float64, len(columns))
	for range mostRounds {
		now := f.at(logs)
		if f.wrong(now) <= tolerance*total(columns) {
			f.scale(logs)
			return true
		}
		for k, sum := range now.sums {
			logs[k] += math.Log(columns[k] / sum)
		}
		logs = f.newton(f.at(logs), logs)
	}
	return false
}

// fitting is a table and its wanted sums. The logs of the columns' factors tell the factors of
// groups of rows, too: each group has its sum.
type fitting struct {
	cells         [][]float64
	groups        []int
	rows, columns []float64
}

// fitted is the table with given factors of columns.
type fitted struct {
	parts [][]float64 // of each group's calls, by column
	sums  []float64   // of the columns
	cost  float64     // convex in the logs of factors, and least where the sums are those wanted
}

func (f *fitting) at(logs []float64) fitted {
	now := fitted{parts: make([][]float64, len(f.rows)), sums: make([]float64, len(f.columns))}
	for g := range now.parts {
		now.parts[g] = make([]float64, len(f.columns))
	}
	factors := exps(logs)
	for i, row := range f.cells {
		for k, n := range row {
			now.parts[f.groups[i]][k] += n * factors[k]
		}
	}
	for g, parts := range now.parts {
		if f.rows[g] == 0 {
			continue
		}
		sum := total(parts)
		now.cost += f.rows[g] * math.Log(sum)
		scale(parts, 1/sum)
		for k, part := range parts {
			now.sums[k] += f.rows[g] * part
		}
	}
	for k, want := range f.columns {
		now.cost -= want * logs[k]
	}
	return now
}

// wrong returns by how much a column's sum is wrong at most.
func (f *fitting) wrong(now fitted) (most float64) {
	for k, want := range f.columns {
		most = max(most, math.Abs(want-now.sums[k]))
	}
	return most
}

// newton returns logs of factors towards where the slope of the cost is 0 as its curvature tells,
// as far as the cost falls. The factor of the first column stays: only ratios of factors matter.
func (f *fitting) newton(now fitted, logs []float64) []float64 {
	if len(logs) > mostSolved {
		return logs
	}
	n := len(logs) - 1
	equations := make([][]float64, n) // the curvature, and the slope
	for k := range equations {
		equations[k] = make([]float64, n+1)
		equations[k][k], equations[k][n] = now.sums[k+1], f.columns[k+1]-now.sums[k+1]
		for l := range n {
			for g, parts := range now.parts {
				equations[k][l] -= f.rows[g] * parts[k+1] * parts[l+1]
			}
		}
	}
	changes := solve(equations)
	for range mostHalvings {
		next := slices.Clone(logs)
		for k, change := range changes {
			next[k+1] += change
		}
		if f.at(next).cost < now.cost {
			return next
		}
		scale(changes, 0.5)
	}
	return logs
}

// solve solves linear equations, each with its right side last, of a matrix that is symmetric
// and positive: Gauss's elimination needs no exchange of rows.
func solve(equations [][]float64) []float64 {
	n := len(equations)
	for k, pivot := range equations {
		scale(pivot, 1/pivot[k])
		for l, other := range equations {
			if by := other[k]; l != k {
				for m := range n + 1 {
					other[m] -= by * pivot[m]
				}
			}
		}
	}
	solution := make([]float64, n)
	for k := range solution {
		solution[k] = equations[k][n]
	}
	return solution
}

// scale multiplies the table by the factors of columns, and each group of rows to its sum.
func (f *fitting) scale(logs []float64) {
	sums, factors := make([]float64, len(f.rows)), exps(logs)
	for i, row := range f.cells {
		for k := range row {
			row[k] *= factors[k]
		}
		sums[f.groups[i]] += total(row)
	}
	for i, row := range f.cells {
		g := f.groups[i]
		scale(row, f.rows[g]/sums[g])
	}
}

func exps(logs []float64) []float64 {
	factors := make([]float64, len(logs))
	for k, l := range logs {
		factors[k] = math.Exp(l)
	}
	return factors
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
