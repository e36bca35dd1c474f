package export

import (
	"fmt"
	"math/big"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/ccmapd/ccmapd/ccmap"
)

func TestMulAddIsInTheField(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		element := rapid.OneOf(rapid.Uint64Range(0, order61-1), rapid.Uint64Range(order61-3, order61-1))
		x, y, z := element.Draw(t, "x"), element.Draw(t, "y"), element.Draw(t, "z")
		want := new(big.Int).Mul(new(big.Int).SetUint64(x), new(big.Int).SetUint64(y))
		want.Add(want, new(big.Int).SetUint64(z)).Mod(want, big.NewInt(order61))
		if got := mulAdd(x, y, z); got != want.Uint64() {
			t.Fatalf("%d·%d + %d is %d, want %v", x, y, z, got, want)
		}
	})
}

// Stacks are told apart by their frames, however their locations divide them.
func TestStackIDs(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		keys := newStackKeys()
		frame := rapid.Custom(func(t *rapid.T) ccmap.Frame {
			return ccmap.Frame{Method: ccmap.MethodID(rapid.Uint32Range(0, 2).Draw(t, "method")), Offset: rapid.Uint32Range(0, 1).Draw(t, "offset")}
		})
		ids := make(map[string]stackID)
		met := make(map[stackID]string)
		for range 10 {
			frames, id := rapid.SliceOfN(frame, 0, 4).Draw(t, "frames"), firstStackID
			for rest := frames; len(rest) > 0; {
				n := rapid.IntRange(1, len(rest)).Draw(t, "location")
				link := keys.link(rest[:n])
				id, rest = id.then(&link), rest[n:]
			}
			name := fmt.Sprint(frames)
			if was, known := ids[name]; known && was != id {
				t.Fatalf("%s has two ids", name)
			}
			if was, known := met[id]; known && was != name {
				t.Fatalf("%s and %s have one id", name, was)
			}
			ids[name], met[id] = id, name
		}
	})
}

// A sum that has all stacks of a part walks none of them again.
func TestSumKnowsItsStacks(t *testing.T) {
	t.Parallel()
	m := forest(20_000)
	data := encode(t, Pprof, m.Snapshot())
	total := ccmap.New(ccmap.Options{})
	sum := NewSum(total)
	for range 3 {
		p, err := ReadPart(strings.NewReader(data), ReadOptions{})
		if err == nil {
			err = sum.Add(p, Weight{})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	stacks := 0
	for n := range m.Snapshot().Nodes() {
		if !n.Self.IsZero() {
			stacks++
		}
	}
	if sum.known.used != stacks || total.Len() != m.Len() {
		t.Errorf("%d stacks known of %d, %d nodes of %d", sum.known.used, stacks, total.Len(), m.Len())
	}
	if got, want := sum.Memory()-MapMemory(total), int64(len(sum.known.slots))*16; got != want || want < int64(16*stacks) {
		t.Errorf("%d stacks count for %d bytes, want %d", stacks, got, want)
	}
	total.Prune(total.Bytes() / 2)
	if k := sum.known.of(total); k.used != 0 || len(k.slots) != 0 {
		t.Errorf("%d stacks known of a map that was pruned", k.used)
	}
}
