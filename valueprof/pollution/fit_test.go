package pollution

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// TestFitRecovers: a table whose rows and columns were scaled, as by the time that callers
// and receivers take, is found again by its sums.
func TestFitRecovers(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		rows, columns := rapid.IntRange(1, 6).Draw(t, "rows"), rapid.IntRange(1, 4).Draw(t, "columns")
		factor := rapid.Float64Range(0.05, 20)
		by := rapid.SliceOfN(factor, columns, columns).Draw(t, "factors of columns")
		want, cells := make([][]float64, rows), make([][]float64, rows)
		groups, rowSums, columnSums := make([]int, rows), make([]float64, rows), make([]float64, columns)
		for i := range rows {
			want[i] = rapid.SliceOfN(rapid.Float64Range(1, 1e6), columns, columns).Draw(t, "calls")
			f := factor.Draw(t, "factor of the row")
			for k, n := range want[i] {
				cells[i] = append(cells[i], n*f*by[k])
				columnSums[k] += n
			}
			groups[i], rowSums[i] = i, total(want[i])
		}
		if !fit(cells, groups, rowSums, columnSums) {
			t.Fatal("it does not converge")
		}
		for i := range want {
			for k, n := range want[i] {
				if math.Abs(cells[i][k]-n) > 1e-2*n+1e-3*total(columnSums)/float64(rows) {
					t.Errorf("row %d, column %d: %v, want %v", i, k, cells[i][k], n)
				}
			}
		}
	})
}

// TestFitGroups: rows that are known together have their sum together.
func TestFitGroups(t *testing.T) {
	t.Parallel()
	cells := [][]float64{{3, 1}, {1, 1}, {2, 2}}
	if !fit(cells, []int{0, 0, 1}, []float64{60, 0}, []float64{40, 20}) {
		t.Fatal("it does not converge")
	}
	if sum := total(cells[0]) + total(cells[1]); math.Abs(sum-60) > 1e-4 || total(cells[2]) != 0 {
		t.Errorf("rows are %v", cells)
	}
	if got := cells[0][0] * cells[1][1] / (cells[0][1] * cells[1][0]); math.Abs(got-3) > 1e-6 {
		t.Errorf("the ratio of ratios is %v, want 3", got)
	}
}

// TestFitWide: a table of a foreign file may have any number of columns. Its equations would have 3 GB, and take hours.
func TestFitWide(t *testing.T) {
	t.Parallel()
	const wide = 20_000
	cells := [][]float64{make([]float64, wide), make([]float64, wide)}
	columns := make([]float64, wide)
	for k := range wide {
		cells[0][k], cells[1][k], columns[k] = 1, 1+float64(k%2), 3
	}
	if !fit(cells, []int{0, 1}, []float64{wide, 2 * wide}, columns) {
		t.Fatal("it does not converge")
	}
	if got := total(cells[0]); math.Abs(got-wide) > 1e-3*wide {
		t.Errorf("the first row has %v, want %v", got, wide)
	}
}
