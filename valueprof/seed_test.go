package valueprof

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestSeedCountsNothing: a table that was seeded counts what comes after as one that was not, whatever comes, and has
// its arrangement for the seeded values already.
func TestSeedCountsNothing(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	for _, hash := range Hashes() {
		for range 200 {
			var seeds []Value
			for range random.IntN(12) {
				seeds = append(seeds, Value{Value: random.Uint64N(1 << 20), Count: 5})
			}
			seeded, plain := New(8, hash), New(8, hash)
			seeded.Seed(seeds)
			if seeded.Total() != 0 || len(seeded.AppendValues(nil)) != 0 || seeded.Full() {
				t.Fatalf("%v: a seeded table has counts: %d", hash, seeded.Total())
			}
			first := slices.Clone(seeds[:min(len(seeds), 8)])
			key := seeded.key
			for _, v := range first {
				seeded.AddN(v.Value, 1)
				plain.AddN(v.Value, 1)
			}
			if seeded.key != key && len(first) > 0 {
				t.Fatalf("%v: seeded values needed another arrangement", hash)
			}
			for range 100 {
				v := random.Uint64N(1 << 4)
				seeded.AddN(v, 2)
				plain.AddN(v, 2)
			}
			if got, want := seeded.AppendValues(nil), plain.AppendValues(nil); !slices.Equal(got, want) || seeded.Other() != plain.Other() || seeded.Aged() != 0 {
				t.Fatalf("%v: %v and %d others, want %v and %d", hash, got, seeded.Other(), want, plain.Other())
			}
			total := seeded.Total()
			if seeded.Seed(seeds); seeded.Total() != total {
				t.Fatalf("%v: seeding a table with counts changed them", hash)
			}
		}
	}
}
