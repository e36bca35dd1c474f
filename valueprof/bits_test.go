package valueprof

import (
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// distinct draws between least and most distinct values: common kinds, and kinds that
// are hard to tell apart.
func distinct(least, most int) *rapid.Generator[[]uint64] {
	base := rapid.SampledFrom([]uint64{0, 1, math.MaxUint64, 0xc000123450, 0x5555555555555555})
	bit := rapid.Map(rapid.IntRange(0, 63), func(i int) uint64 { return 1 << i })
	kinds := []*rapid.Generator[uint64]{
		rapid.Uint64(),
		rapid.SampledFrom([]uint64{0, 1, math.MaxUint64, math.MaxUint64 - 1, 1 << 63}),
		rapid.Custom(func(t *rapid.T) uint64 { return base.Draw(t, "base") ^ bit.Draw(t, "bit") }),
		rapid.Map(rapid.Uint32Range(0, 1<<20), func(n uint32) uint64 { return 0xc000000000 + uint64(n)*16 }),
		rapid.Map(rapid.Uint32Range(0, 1000), func(n uint32) uint64 { return uint64(n) }),
	}
	kind := rapid.Custom(func(t *rapid.T) []uint64 {
		of := rapid.SampledFrom(kinds).Draw(t, "kind")
		return rapid.SliceOfNDistinct(of, 1, most, rapid.ID).Draw(t, "values")
	})
	return rapid.Custom(func(t *rapid.T) []uint64 {
		all := slices.Concat(kind.Draw(t, "some"), kind.Draw(t, "more"), oneBitApart(least))
		seen := map[uint64]bool{}
		all = slices.DeleteFunc(all, func(v uint64) bool {
			again := seen[v]
			seen[v] = true
			return again
		})
		return all[:rapid.IntRange(least, min(most, len(all))).Draw(t, "n")]
	})
}

// oneBitApart returns up to 64 values, each with a bit that no other has.
func oneBitApart(n int) []uint64 {
	values := make([]uint64, n)
	for i := range values {
		values[i] = 1 << i
	}
	return values
}

func uncounted(values []uint64) []Value {
	out := make([]Value, len(values))
	for i, v := range values {
		out[i].Value = v
	}
	return out
}

// At most N bits tell N+1 distinct values apart.
func TestSeparatingBits(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		values := distinct(1, MaxCapacity+1).Draw(t, "values")
		mask := separatingBits(uncounted(values))
		if n := bits.OnesCount64(mask); n > len(values)-1 {
			t.Fatalf("%d bits for %d values", n, len(values))
		}
		seen := map[uint64]uint64{}
		for _, v := range values {
			p := gather(v, mask)
			if w, ok := seen[p]; ok {
				t.Fatalf("mask %#x leaves %#x and %#x together", mask, v, w)
			}
			seen[p] = v
		}
	})
}

// The greedy choice stays close to the least possible, the binary logarithm.
func TestSeparatingBitsAreFew(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 0))
	const sets = 1000
	sum := 0
	for range sets {
		sum += bits.OnesCount64(separatingBits(uncounted(pointers(r, 8))))
	}
	if mean := float64(sum) / sets; mean > 3.5 {
		t.Errorf("%.2f bits for 8 heap pointers", mean)
	}
	if n := bits.OnesCount64(separatingBits(uncounted(oneBitApart(16)))); n != 15 {
		t.Errorf("%d bits for 16 values with one bit each: 15 are needed", n)
	}
}

// All ways to gather the same bits agree.
func TestGather(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.Uint64().Draw(t, "value")
		var mask uint64
		for _, bit := range rapid.SliceOfNDistinct(rapid.IntRange(0, 63), 0, maxBits, rapid.ID).Draw(t, "bits") {
			mask |= 1 << bit
		}
		want := gather(v, mask)
		if usePext {
			if got := pext(v, mask); got != want {
				t.Errorf("pext %#x, want %#x", got, want)
			}
		}
		n := uint8(bits.OnesCount64(mask))
		var l bitList
		l.setBits(HashBitPermute, mask)
		if got := l.permuted(v, n); got != want {
			t.Errorf("permuted %#x, want %#x", got, want)
		}
		l.setBits(HashShift, mask)
		if got := l.shifted(v, n); got != want {
			t.Errorf("shifted %#x, want %#x", got, want)
		}
	})
}

func TestGatherKnown(t *testing.T) {
	t.Parallel()
	if got := gather(0b1011_0010, 0b1111_0000); got != 0b1011 {
		t.Errorf("gather: %b", got)
	}
	if got := gather(math.MaxUint64, 1<<63|1); got != 0b11 {
		t.Errorf("gather: %b", got)
	}
}

// The positions of every capacity are enough, and fit the array that the search marks.
func TestMultiplyBits(t *testing.T) {
	t.Parallel()
	for n := MinCapacity; n <= MaxCapacity; n++ {
		if p := 1 << multiplyBits(n); p < 2*n || p > maxPositions || 4*p < n*n {
			t.Errorf("%d positions for %d values", p, n)
		}
	}
}

// The search finds a multiplier for all values that are not made to defeat it.
func TestMultiplierIsFound(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		values := distinct(MinCapacity, MaxCapacity).Draw(t, "values")
		tab := New(len(values), HashMultiply)
		for _, v := range values {
			tab.add(v)
		}
		if tab.Other() != 0 {
			t.Fatalf("%d values of %d are other", tab.Other(), len(values))
		}
	})
}

// A search that fails ends, and does not change the multiplier.
func TestMultiplierIsNotFound(t *testing.T) {
	t.Parallel()
	tab := New(4, HashMultiply)
	tab.add(1)
	tab.add(2)
	key := tab.key
	*tab.slot(1) = *tab.slot(0)
	if tab.searchMultiplier() || tab.key != key {
		t.Errorf("a multiplier, %#x, told a value from itself", tab.key)
	}
}

// A value that needs more bits than the index may have counts as other. All later new
// values do, too, until the table drops values.
func TestTooManyBits(t *testing.T) {
	t.Parallel()
	for _, h := range []Hash{HashPext, HashBitPermute, HashShift} {
		tab := New(MaxCapacity, h)
		for _, v := range oneBitApart(30) {
			tab.add(v)
		}
		if held := len(tab.AppendValues(nil)); held != maxBits+1 || !tab.Full() || tab.Other() != 30-maxBits-1 {
			t.Errorf("%v: %d values held, full %v, other %d", h, held, tab.Full(), tab.Other())
		}
		tab.Reset(nil)
		tab.add(1 << 40)
		if tab.Full() || tab.Other() != 0 || tab.Total() != 31 {
			t.Errorf("%v after reset: full %v, other %d, total %d", h, tab.Full(), tab.Other(), tab.Total())
		}
	}
}
