package compare

import (
	"cmp"
	"math"
	"math/big"
	"math/bits"
)

// wide is an unsigned number of 128 bits. No sum of counters overflows it: a
// map's total is less than 2⁶³, and a stack of fewer than 2³² frames has fewer
// than 2⁶³ sub-paths.
type wide struct{ hi, lo uint64 }

func (w wide) add(o wide) wide {
	lo, carry := bits.Add64(w.lo, o.lo, 0)
	return wide{w.hi + o.hi + carry, lo}
}

// addTimes returns w + c·n.
func (w wide) addTimes(c wide, n uint64) wide {
	hi, lo := bits.Mul64(c.lo, n)
	return w.add(wide{hi + c.hi*n, lo})
}

func (w wide) isZero() bool { return w == wide{} }

func (w wide) compare(o wide) int {
	return cmp.Or(cmp.Compare(w.hi, o.hi), cmp.Compare(w.lo, o.lo))
}

// times returns the product in 256 bits, the highest word first.
func (w wide) times(o wide) [4]uint64 {
	var p [4]uint64
	p[2], p[3] = bits.Mul64(w.lo, o.lo)
	p[0], p[1] = bits.Mul64(w.hi, o.hi)
	for _, cross := range [...][2]uint64{{w.hi, o.lo}, {w.lo, o.hi}} {
		hi, lo := bits.Mul64(cross[0], cross[1])
		var carry uint64
		p[2], carry = bits.Add64(p[2], lo, 0)
		p[1], carry = bits.Add64(p[1], hi, carry)
		p[0] += carry
	}
	return p
}

// productAtMost reports whether a·b ≤ c·d.
func productAtMost(a, b, c, d wide) bool {
	if a.hi|b.hi|c.hi|d.hi != 0 {
		return widestAtMost(a.times(b), c.times(d))
	}
	hi1, lo1 := bits.Mul64(a.lo, b.lo)
	hi2, lo2 := bits.Mul64(c.lo, d.lo)
	return hi1 < hi2 || hi1 == hi2 && lo1 <= lo2
}

func widestAtMost(p, q [4]uint64) bool {
	for i := range p {
		if p[i] != q[i] {
			return p[i] < q[i]
		}
	}
	return true
}

// float returns the nearest float64, but for a possible second rounding.
func (w wide) float() float64 { return float64(w.hi)*(1<<64) + float64(w.lo) }

func (w wide) big() *big.Int {
	n := new(big.Int).SetUint64(w.hi)
	return n.Or(n.Lsh(n, 64), new(big.Int).SetUint64(w.lo))
}

// int64 returns the number, or the largest int64 if it is larger.
func (w wide) int64() int64 {
	if w.hi != 0 || w.lo > math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(w.lo)
}
