package compare

import (
	"math/big"
	"slices"
)

// pearson returns the correlation of the two values of counters, over those
// that are not 0 in both.
func pearson(counters []pair) float64 { return correlate(present(counters)) }

// spearman returns the correlation of their ranks.
func spearman(counters []pair) float64 {
	counters = present(counters)
	a := doubledRanks(counters, func(p pair) wide { return p.a })
	b := doubledRanks(counters, func(p pair) wide { return p.b })
	ranks := make([]pair, len(counters))
	for i := range ranks {
		ranks[i] = pair{wide{lo: a[i]}, wide{lo: b[i]}}
	}
	return correlate(ranks)
}

func present(counters []pair) []pair {
	return slices.DeleteFunc(slices.Clone(counters), func(p pair) bool { return p == pair{} })
}

// correlate returns Pearson's coefficient, −1 to 1:
//
//	(nΣab − ΣaΣb) / √((nΣaa − ΣaΣa)·(nΣbb − ΣbΣb))
//
// in whole numbers up to the root, so that neither the order of the methods
// nor large values beside small ones show in it. Without variance it is not
// defined: 1 is returned if neither has any, 0 if one has.
func correlate(values []pair) float64 {
	var a, b, ab, sumA, sumB, sumAA, sumAB, sumBB big.Int
	for _, p := range values {
		a.Set(p.a.big())
		b.Set(p.b.big())
		sumA.Add(&sumA, &a)
		sumB.Add(&sumB, &b)
		sumAA.Add(&sumAA, ab.Mul(&a, &a))
		sumAB.Add(&sumAB, ab.Mul(&a, &b))
		sumBB.Add(&sumBB, ab.Mul(&b, &b))
	}
	n := big.NewInt(int64(len(values)))
	varianceA := scatter(n, &sumAA, &sumA, &sumA)
	varianceB := scatter(n, &sumBB, &sumB, &sumB)
	if varianceA.Sign() == 0 || varianceB.Sign() == 0 {
		if varianceA.Sign() == varianceB.Sign() {
			return 1
		}
		return 0
	}
	return ratioToRoot(scatter(n, &sumAB, &sumA, &sumB), varianceA.Mul(varianceA, varianceB))
}

// scatter returns n·products − a·b.
func scatter(n, products, a, b *big.Int) *big.Int {
	s := new(big.Int).Mul(n, products)
	return s.Sub(s, new(big.Int).Mul(a, b))
}

// ratioToRoot returns x/√square. Squares of whole numbers have exact roots.
func ratioToRoot(x, square *big.Int) float64 {
	precision := uint(square.BitLen()) + 64
	root := new(big.Float).SetPrec(precision).SetInt(square)
	root.Sqrt(root)
	ratio := new(big.Float).SetPrec(precision).SetInt(x)
	r, _ := ratio.Quo(ratio, root).Float64()
	return r
}

// doubledRanks returns twice the rank of each value, ranks counting from 1;
// equal values have the average of the ranks that they take up.
func doubledRanks(counters []pair, value func(pair) wide) []uint64 {
	order := make([]int, len(counters))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int { return value(counters[i]).compare(value(counters[j])) })
	ranks := make([]uint64, len(counters))
	for lo := 0; lo < len(order); {
		hi := lo + 1
		for hi < len(order) && value(counters[order[hi]]) == value(counters[order[lo]]) {
			hi++
		}
		for _, i := range order[lo:hi] {
			ranks[i] = uint64(lo + 1 + hi)
		}
		lo = hi
	}
	return ranks
}
