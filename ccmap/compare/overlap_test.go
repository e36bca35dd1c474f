package compare

import (
	"cmp"
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"
)

// drawWide draws numbers of all sizes, carries among them.
func drawWide() *rapid.Generator[wide] {
	word := rapid.OneOf(rapid.Just(uint64(0)), rapid.Just(uint64(math.MaxUint64)), rapid.Uint64())
	return rapid.Custom(func(t *rapid.T) wide {
		return wide{word.Draw(t, "hi"), word.Draw(t, "lo")}
	})
}

func TestWideIsBig(t *testing.T) {
	t.Parallel()
	modulus := new(big.Int).Lsh(big.NewInt(1), 128)
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawWide().Draw(t, "a"), drawWide().Draw(t, "b")
		c, d := drawWide().Draw(t, "c"), drawWide().Draw(t, "d")
		n := rapid.Uint64().Draw(t, "n")
		sum := new(big.Int).Add(a.big(), b.big())
		if got := a.add(b).big(); got.Cmp(sum.Mod(sum, modulus)) != 0 {
			t.Errorf("%v + %v = %v, want %v", a, b, got, sum)
		}
		sum.Mul(b.big(), new(big.Int).SetUint64(n))
		sum.Add(sum, a.big())
		if got := a.addTimes(b, n).big(); got.Cmp(sum.Mod(sum, modulus)) != 0 {
			t.Errorf("%v + %v·%v = %v, want %v", a, b, n, got, sum)
		}
		if got, want := a.compare(b), a.big().Cmp(b.big()); got != want {
			t.Errorf("compare %v with %v: %v, want %v", a, b, got, want)
		}
		left, right := new(big.Int).Mul(a.big(), b.big()), new(big.Int).Mul(c.big(), d.big())
		if got, want := productAtMost(a, b, c, d), left.Cmp(right) <= 0; got != want {
			t.Errorf("%v·%v ≤ %v·%v is %v, want %v", a, b, c, d, got, want)
		}
		if !productAtMost(a, b, b, a) {
			t.Errorf("%v·%v is not at most itself", a, b)
		}
		small, smaller := wide{lo: a.lo}, wide{lo: b.lo}
		if got, want := productAtMost(small, small, smaller, smaller), cmp.Compare(a.lo, b.lo) <= 0; got != want {
			t.Errorf("%v² ≤ %v² is %v, want %v", a.lo, b.lo, got, want)
		}
		f, _ := new(big.Float).SetInt(a.big()).Float64()
		if got := a.float(); math.Abs(got-f) > f*0x1p-52 {
			t.Errorf("%v as a float64: %v, want %v", a, got, f)
		}
	})
}
