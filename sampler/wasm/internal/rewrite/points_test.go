package rewrite_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ccmapd/ccmapd/sampler/wasm/internal/rewrite"
)

// A program that counts its own branches, tables, loops and calls in memory counts what is
// reported, with any other additions.
func TestPointsOfPrograms(t *testing.T) {
	t.Parallel()
	executed := make([]int, 3) // points, by kind
	skipped := 0
	for seed := range uint64(programCount) {
		random := rand.New(rand.NewPCG(seed, 2))
		p := newProgram(random, random.IntN(4) > 0, random.IntN(2) == 0)
		p.counts = true
		module := p.module()
		if p.points > (64<<10-counterBase)/pointBytes {
			t.Fatalf("no room for %d points", p.points)
		}
		plain := programHost{t: t, random: random}
		if _, err := plain.run(module, tailCalls); err != nil {
			skipped++ // wazero (v1.12.0) does not recognize all code as dead
			continue
		}
		o, features := p.options()
		o.Points = true
		m := rewritten(t, module, o)
		if len(m.Points) != p.points {
			t.Fatalf("program %d: %d points, want %d", seed, len(m.Points), p.points)
		}
		h := programHost{t: t, random: random, tail: p.tail, module: m, points: map[uint32]map[uint32]uint32{}}
		if _, err := h.run(m.Binary, features); err != nil {
			t.Fatal(err)
		}
		for i, point := range m.Points {
			want := ownCounts(h.memory, i)
			if d := cmp.Diff(want, byValue(point, h.points[uint32(i)])); d != "" {
				t.Errorf("program %d, %+v, %+v: counts (-want +got):\n%s", seed, o, point, d)
			}
			if want != [4]uint32{} {
				executed[point.Kind]++
			}
		}
	}
	if skipped > programCount/2 || min(executed[0], executed[1], executed[2]) < 20 {
		t.Errorf("%d of %d programs skipped, executed points: %d", skipped, programCount, executed)
	}
}

// ownCounts are the counts that a program has of a point.
func ownCounts(memory []byte, point int) (counts [4]uint32) {
	for v := range counts {
		counts[v] = binary.LittleEndian.Uint32(memory[counterBase+pointBytes*point+4*v:])
	}
	return counts
}

// byValue are the reported counts, with values as programs tell them apart.
func byValue(p rewrite.Point, reported map[uint32]uint32) (counts [4]uint32) {
	last := uint32(0)
	switch p.Kind {
	case rewrite.PointBranch:
		last = 1
	case rewrite.PointSwitch:
		last = uint32(len(p.Targets) - 1)
	}
	for v, n := range reported {
		counts[min(v, last)] += n
	}
	return counts
}

// The targets of a switch are where its cases begin, back and forth, and the function's end.
func TestPointTargets(t *testing.T) {
	t.Parallel()
	body := []byte{
		0x00,       //  0: no locals
		0x03, 0x40, //  1: loop; its body is at 3
		0x02, 0x40, //  3: block
		0x02, 0x40, //  5: block
		0x20, 0, //  7: local.get 0
		0x0e, 3, 0, 1, 2, 3, //  9: br_table: the block inside, the block, the loop, the function
		0x0b, // 15: end
		0x01, // 16: case 0
		0x0b, // 17: end
		0x01, // 18: case 1
		0x0b, // 19: end of the loop
		0x0b, // 20: end
	}
	m := rewritten(t, build(
		section(1, 1, 0x60, 1, i32, 0),
		section(3, 1, 0),
		section(7, 1, 1, 'f', 0, 0),
		section(10, append([]byte{1, byte(len(body))}, body...)...),
	), rewrite.Options{Points: true})
	want := []rewrite.Point{
		{Kind: rewrite.PointBlock, Offset: 1},
		{Kind: rewrite.PointBlock, Offset: 3},
		{Kind: rewrite.PointSwitch, Offset: 9, Targets: []uint32{16, 18, 3, 20}},
	}
	if d := cmp.Diff(want, m.Points); d != "" {
		t.Errorf("points (-want +got):\n%s", d)
	}
}

// Without the option nothing is added, and a module has no more imports than before.
func TestNoPoints(t *testing.T) {
	t.Parallel()
	with, without := rewritten(t, fibGuest(), rewrite.Options{Points: true}), rewritten(t, fibGuest(), rewrite.Options{})
	if len(without.Points) > 0 || without.Total != 4 || with.Total != 5 || len(with.Points) != 2 {
		t.Errorf("%d of %d functions, %d and %d points", without.Total, with.Total, len(without.Points), len(with.Points))
	}
	for index, want := range map[uint32]string{2: "0 false", 3: "0 true", 4: "0 false"} {
		f, ok := with.Function(index)
		if got := fmt.Sprint(f, ok); got != want {
			t.Errorf("function %d: %s, want %s", index, got, want)
		}
	}
}
