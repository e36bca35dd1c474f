package ccmap

import (
	"errors"
	"math"
	"testing"
	"unsafe"

	"pgregory.net/rapid"
)

// TestColumns compares narrow columns, their overflow and their snapshots with
// plain counters.
func TestColumns(t *testing.T) {
	t.Parallel()
	var chain nodes
	chain.grow()
	chain.grow()
	for n := range NodeID(2*chunkLen - 1) {
		chain.at(n + 1).parent = n
	}
	count := rapid.OneOf(rapid.Int64Range(0, 3), rapid.SampledFrom([]int64{math.MaxUint32 - 1, math.MaxUint32, 1 << 32, 1 << 40}))
	rapid.Check(t, func(t *rapid.T) {
		var c columns
		c.grow()
		c.grow()
		want := map[NodeID]Counters{}
		type moment struct {
			frozen columns
			want   map[NodeID]Counters
		}
		var moments []moment
		check := func(c *columns, want map[NodeID]Counters) {
			for n := range NodeID(2 * chunkLen) {
				if got := c.at(n); got != want[n] {
					t.Fatalf("node %d has %+v, want %+v", n, got, want[n])
				}
			}
		}
		for range rapid.IntRange(0, 20).Draw(t, "steps") {
			n := rapid.SampledFrom([]NodeID{0, 1, chunkLen - 1, chunkLen}).Draw(t, "node")
			switch rapid.IntRange(0, 4).Draw(t, "step") {
			case 0:
				copied := map[NodeID]Counters{}
				for n, c := range want {
					copied[n] = c
				}
				moments = append(moments, moment{c.freeze(), copied})
			case 1:
				calls := rapid.IntRange(1, int(min(n, 3))+1).Draw(t, "calls")
				for i := range NodeID(calls) {
					want[n-i] = want[n-i].Add(Counters{Activations: 1})
				}
				for calls > 0 {
					n, calls = c.addActivations(&chain, n, calls)
				}
			default:
				d := Counters{Samples: count.Draw(t, "samples"), Time: count.Draw(t, "time"), Activations: count.Draw(t, "activations")}
				c.add(n, d)
				want[n] = want[n].Add(d)
			}
		}
		check(&c, want)
		for _, m := range moments {
			check(&m.frozen, m.want)
		}
	})
}

// TestNodeBytes pins the memory of a node, without its share of the table.
func TestNodeBytes(t *testing.T) {
	t.Parallel()
	if got := unsafe.Sizeof(node{}) + unsafe.Sizeof(cell{}); got != 28 {
		t.Errorf("a node and its counters take %d bytes", got)
	}
	if got := unsafe.Sizeof(recentCell{}); got != 8 {
		t.Errorf("recent counters of a node take %d bytes", got)
	}
}

// TestSnapshotShares checks that a snapshot copies no chunk, and that the writer
// copies those only that it changes.
func TestSnapshotShares(t *testing.T) {
	t.Parallel()
	m := New(Options{})
	a := m.names.Intern(Method{Name: "A"})
	for offset := range uint32(3 * chunkLen) {
		m.Add(m.Child(m.Child(0, 0, a), offset, a), Counters{Samples: 1})
	}
	s := m.Snapshot()
	m.Add(2*chunkLen, Counters{Samples: 1})
	for i := range s.columns.chunks {
		shared := m.columns.chunks[i].cells == s.columns.chunks[i].cells
		if changed := i == 2; shared == changed {
			t.Errorf("chunk %d of counters: shared is %t", i, shared)
		}
		if m.nodes.chunks[i] != s.nodes.chunks[i] {
			t.Errorf("chunk %d of nodes is not shared", i)
		}
	}
}

// TestMergeTooLarge refuses more nodes than NodeID can count, and changes nothing.
func TestMergeTooLarge(t *testing.T) {
	t.Parallel()
	m := New(Options{})
	huge := &Snapshot{nodes: nodes{len: math.MaxUint32}}
	if err := m.Merge(huge); !errors.Is(err, ErrTooLarge) {
		t.Errorf("Merge = %v, want ErrTooLarge", err)
	}
	if m.Len() != 1 {
		t.Errorf("%d nodes", m.Len())
	}
}

// A counter that the table has is added, compared and folded like the others.
func TestEveryCounter(t *testing.T) {
	t.Parallel()
	for k := range NumCounters {
		var one, negative Counters
		*k.Of(&one), *k.Of(&negative) = 1, -1
		sum := one.Add(one)
		m := New(Options{})
		m.Add(m.Child(m.Root(), NoOffset, UnknownID), sum)
		total := m.Snapshot().Total()
		method, _ := m.Snapshot().Method(UnknownID)
		switch {
		case one.IsZero() || one.IsNegative() || !negative.IsNegative():
			t.Errorf("%v: zero %v, negative %v and %v", k, one.IsZero(), one.IsNegative(), negative.IsNegative())
		case *k.Of(&sum) != 2 || total != sum || m.CheckValid() != nil:
			t.Errorf("%v: twice 1 is %+v, in a map %+v; %v", k, sum, total, m.CheckValid())
		case one.Compare(sum) >= 0 || sum.Compare(one) <= 0 || one.Compare(one) != 0:
			t.Errorf("%v is not compared", k)
		case method.Total() != sum || method.Self() != sum || method.Cumulative() != sum:
			t.Errorf("%v: the method has %+v, itself %+v, cumulative %+v", k, method.Total(), method.Self(), method.Cumulative())
		}
	}
}
