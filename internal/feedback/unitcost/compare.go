package unitcost

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

// Period is what a program has done in a period.
type Period struct {
	CPU   time.Duration // by the process's clock
	Units uint64        // of work, counted
}

// LeastPeriods is how many periods a comparison needs.
const LeastPeriods = 8

// Errors of comparisons.
var (
	ErrFewPeriods = fmt.Errorf("fewer than %d periods", LeastPeriods)
	ErrNoWork     = errors.New("no unit of work was counted")
	ErrIdle       = errors.New("the process has used no CPU time")
)

// Result is the effect of a change, with its 95 % interval.
type Result struct {
	Before  float64 `json:"before_ns"` // CPU time for a unit
	After   float64 `json:"after_ns"`
	Change  float64 `json:"change"` // of it, percent: below 0 is less CPU time
	Low     float64 `json:"low"`    // of the interval of change, percent
	High    float64 `json:"high"`
	Periods int     `json:"periods"`
	Block   int     `json:"block"` // periods that were resampled together
	half    float64 // of the interval, of the logarithm of the ratio
}

// draws is how many times periods are resampled: the deviation is then known to 4 %.
const draws = 400

// Compare compares periods of two programs. Periods with one index have the same time.
func Compare(before, after []Period) (Result, error) {
	n := min(len(before), len(after))
	if n < LeastPeriods {
		return Result{}, ErrFewPeriods
	}
	b, a := sumsOf(before[:n]), sumsOf(after[:n])
	if b.units[n] == 0 || a.units[n] == 0 {
		return Result{}, ErrNoWork
	}
	if b.cpu[n] <= 0 || a.cpu[n] <= 0 {
		return Result{}, ErrIdle
	}
	r := Result{Before: b.cpu[n] / b.units[n], After: a.cpu[n] / a.units[n], Periods: n}
	rho := neighbours(influence(before[:n], after[:n], r))
	r.Block = blockLength(n)
	deviation := resample(b, a, r.Block) / math.Sqrt(seen(rho, r.Block))
	freedom := float64(min(n/r.Block, blocks) - 1)
	r.half = student(freedom) * deviation * math.Sqrt((freedom+1)/freedom)
	change := math.Log(r.After / r.Before)
	r.Change, r.Low, r.High = percent(change), percent(change-r.half), percent(change+r.half)
	return r, nil
}

func percent(logarithm float64) float64 { return 100 * math.Expm1(logarithm) }

// Shown reports whether the interval leaves out 0.
func (r Result) Shown() bool { return r.Low > 0 || r.High < 0 }

// Within reports whether the whole interval is nearer to 0 than a change in percent.
func (r Result) Within(least float64) bool { return -least < r.Low && r.High < least }

// More returns how many periods more it takes, at this noise, until a change of so many percent is shown nine
// times in ten; 0: there are enough.
func (r Result) More(least float64) int {
	const nineOfTen = 1 + 1.2816/1.96 // half-widths between the change and 0
	wanted := math.Log1p(math.Abs(least) / 100)
	if !(wanted > 0) {
		return math.MaxInt
	}
	need := float64(r.Periods) * math.Pow(r.half*nineOfTen/wanted, 2)
	if need > math.MaxInt32 {
		return math.MaxInt
	}
	return max(int(math.Ceil(need))-r.Periods, 0)
}

// sums has the sums of the periods before each, and of all at the end.
type sums struct{ cpu, units []float64 }

func sumsOf(all []Period) sums {
	s := sums{make([]float64, len(all)+1), make([]float64, len(all)+1)}
	for i, p := range all {
		s.cpu[i+1], s.units[i+1] = s.cpu[i]+float64(p.CPU), s.units[i]+float64(p.Units)
	}
	return s
}

// between returns CPU time and units of length periods, which go on at the first after the last.
func (s sums) between(from, length int) (cpu, units float64) {
	n := len(s.cpu) - 1
	if to := from + length; to <= n {
		return s.cpu[to] - s.cpu[from], s.units[to] - s.units[from]
	}
	rest := from + length - n
	return s.cpu[n] - s.cpu[from] + s.cpu[rest], s.units[n] - s.units[from] + s.units[rest]
}

// influence returns what each period adds to the logarithm of the ratio, as far as that is linear.
func influence(before, after []Period, r Result) []float64 {
	all := make([]float64, len(before))
	for i := range all {
		a, b := after[i], before[i]
		all[i] = (float64(a.CPU)-r.After*float64(a.Units))/r.After - (float64(b.CPU)-r.Before*float64(b.Units))/r.Before
	}
	return all
}

// neighbours returns the correlation of neighbours, 0 to 0.9. A short series shows too little of it (Kendall,
// Biometrika 41, 1954), and shows it badly: so it is one standard error more than what is likeliest.
func neighbours(x []float64) float64 {
	n := float64(len(x))
	mean := 0.0
	for _, v := range x {
		mean += v / n
	}
	both, own := 0.0, 0.0
	for i, v := range x {
		own += (v - mean) * (v - mean)
		if i > 0 {
			both += (v - mean) * (x[i-1] - mean)
		}
	}
	if own == 0 {
		return 0
	}
	rho := both / own
	return min(max(rho+(1+3*rho)/n+1/math.Sqrt(n), 0), 0.9)
}

// blocks is how many blocks there are at least. With ten, Student's distribution makes the interval 15 % wider than
// with many, and the blocks are as long as can be: correlations need no model that fits.
const blocks = 10

// blockLength returns how many neighbours are resampled together.
func blockLength(n int) int { return max(n/blocks, 1) }

// seen returns which part of the variance blocks of a length show: correlations across their bounds are lost.
func seen(rho float64, length int) float64 {
	// The sum of the first correlations with the weights that blocks give them, over the sum of all.
	part := 1.0
	for k := 1; k < length; k++ {
		part += 2 * (1 - float64(k)/float64(length)) * math.Pow(rho, float64(k))
	}
	return part * (1 - rho) / (1 + rho)
}

// resample returns the standard deviation of the logarithm of the ratio. Equal figures give equal results.
func resample(before, after sums, length int) float64 {
	n := len(before.cpu) - 1
	random := rand.New(rand.NewPCG(uint64(n), uint64(length)))
	mean, square, count := 0.0, 0.0, 0.0
	for range draws {
		var b, a [2]float64
		for left := n; left > 0; left -= length {
			from := random.IntN(n)
			cpu, units := before.between(from, min(length, left))
			b[0], b[1] = b[0]+cpu, b[1]+units
			cpu, units = after.between(from, min(length, left))
			a[0], a[1] = a[0]+cpu, a[1]+units
		}
		x := math.Log(a[0] / a[1] * b[1] / b[0])
		if math.IsNaN(x) || math.IsInf(x, 0) {
			continue // no unit in any of the periods
		}
		count++
		d := x - mean
		mean += d / count
		square += d * (x - mean)
	}
	if count < draws/2 {
		return math.Inf(1)
	}
	return math.Sqrt(square / (count - 1))
}

// student returns the 97.5 % point of Student's distribution (Abramowitz and Stegun 26.7.5).
func student(freedom float64) float64 {
	const z = 1.959964
	z3, z5, z7 := math.Pow(z, 3), math.Pow(z, 5), math.Pow(z, 7)
	return z + (z3+z)/(4*freedom) + (5*z5+16*z3+3*z)/(96*freedom*freedom) +
		(3*z7+19*z5+17*z3-15*z)/(384*math.Pow(freedom, 3))
}
