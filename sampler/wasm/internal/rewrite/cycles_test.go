package rewrite_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/tetratelabs/wazero/api"

	"github.com/ccmapd/ccmapd/internal/testrun"
	"github.com/ccmapd/ccmapd/sampler/wasm/internal/rewrite"
)

// A maze writes a function at random: nested blocks, loops and branches, and sometimes a
// dispatch around it all, as Go's compiler writes it. The function takes an i32 that
// decides where branches go, and returns a hash of the path. Every possible cycle uses
// fuel. Without fuel the function returns.
type maze struct {
	random *rand.Rand
	code   []byte
	labels []byte // operands of the open blocks' labels: none, or one
	left   int    // statements left
	points int    // where fuel is used

	nops       int // in every jump, to hide it
	dispatched bool
	open       int // blocks of the dispatch
}

// The maze's locals; fuel is global 0.
const (
	mazeSeed = iota
	mazeHash
	mazePC
)

const (
	mazeFuel      = 20_000
	mazeFunctions = 60

	nothing = 0
	operand = 1
)

func (m *maze) emit(code ...byte) { m.code = append(m.code, code...) }

// number appends an i32.const.
func (m *maze) number(v int) {
	m.emit(0x41)
	for ; v < -0x40 || v >= 0x40; v >>= 7 {
		m.emit(byte(v) | 0x80)
	}
	m.emit(byte(v) & 0x7f)
}

// use takes fuel.
func (m *maze) use() {
	m.points++
	m.emit(0x23, 0, 0x41, 1, 0x6b, 0x24, 0, 0x23, 0, 0x45, 0x04, 0x40, 0x20, mazeHash, 0x0f, 0x0b)
}

// note makes the path part of the hash.
func (m *maze) note() {
	m.emit(0x20, mazeHash, 0x41, 31, 0x6c)
	m.number(m.random.IntN(1000))
	m.emit(0x6a, 0x21, mazeHash)
}

// chance pushes a random number of bits bits.
func (m *maze) chance(bits int) {
	m.emit(0x20, mazeSeed)
	m.number(1664525)
	m.emit(0x6c)
	m.number(1013904223)
	m.emit(0x6a, 0x22, mazeSeed)
	m.number(32 - bits)
	m.emit(0x76)
}

// block writes a block's content, and its end.
func (m *maze) block(label byte, write func()) {
	m.labels = append(m.labels, label)
	write()
	m.labels = m.labels[:len(m.labels)-1]
	m.emit(0x0b)
}

func (m *maze) statements() {
	for n := m.random.IntN(5); n >= 0 && m.left > 0; n-- {
		m.left--
		m.statement()
	}
}

func (m *maze) statement() {
	switch m.random.IntN(14) {
	case 0, 1:
		m.loop()
	case 2:
		m.emit(0x02, 0x40)
		m.block(nothing, m.statements)
	case 3, 4:
		m.conditional()
	case 5, 6, 7:
		if len(m.labels) > 0 {
			m.branch(m.random.IntN(len(m.labels)))
		}
	case 8:
		m.table()
	case 9, 10:
		m.emit([]byte([]string{callImport, callBare, callPolled, callIndirect}[m.random.IntN(4)])...)
	case 11, 12:
		m.jump()
	default:
		m.note()
	}
}

func (m *maze) loop() {
	label := byte(nothing)
	if m.random.IntN(6) == 0 {
		label = operand
		m.emit(0x20, mazeHash, 0x03, 1)
	} else {
		m.emit(0x03, 0x40)
	}
	m.block(label, func() {
		if label == operand {
			m.emit(0x1a)
		}
		m.use()
		m.statements()
		m.branch(0)
	})
}

func (m *maze) conditional() {
	m.chance(1)
	m.emit(0x04, 0x40)
	m.block(nothing, func() {
		m.statements()
		if m.random.IntN(2) == 0 {
			m.emit(0x05)
			m.statements()
		}
	})
}

// branch branches always, or mostly.
func (m *maze) branch(label int) {
	takes := m.labels[len(m.labels)-1-label]
	if takes == operand {
		m.emit(0x20, mazeHash)
	}
	if m.random.IntN(5) == 0 {
		m.emit(0x0c, byte(label))
		return
	}
	m.chance(3)
	m.emit(0x0d, byte(label))
	if takes == operand {
		m.emit(0x1a)
	}
}

func (m *maze) table() {
	var labels []byte
	for i := range m.labels {
		if m.labels[len(m.labels)-1-i] == nothing {
			labels = append(labels, byte(i))
		}
	}
	if len(labels) == 0 {
		return
	}
	m.chance(2)
	m.emit(0x0e, 3)
	for range 4 {
		m.emit(labels[m.random.IntN(len(labels))])
	}
}

// jump goes to a block of the dispatch, mostly on a condition, and sometimes in another
// way than Go's compiler.
func (m *maze) jump() {
	if !m.dispatched {
		return
	}
	write := func() {
		m.number(m.random.IntN(12) - 1)
		m.emit(slices.Repeat([]byte{0x01}, m.nops)...)
		m.emit(0x21, mazePC)
		if m.random.IntN(30) == 0 {
			m.emit(0x01)
		}
		m.emit(0x0c, byte(len(m.labels)+m.open))
	}
	if m.random.IntN(5) == 0 {
		write()
		return
	}
	m.chance(1)
	m.emit(0x04, 0x40)
	m.block(nothing, write)
}

// dispatch writes a dispatch of n basic blocks.
func (m *maze) dispatch(n int) {
	m.dispatched = true
	m.chance(3)
	m.emit(0x21, mazePC, 0x03, 0x40)
	for range n {
		m.emit(0x02, 0x40)
	}
	m.emit(0x20, mazePC, 0x0e, 7)
	for k := range 8 {
		m.emit(byte(min(k*n/7, n-1)))
	}
	for m.open = n - 1; m.open >= 0; m.open-- {
		m.emit(0x0b)
		m.use()
		m.left = 6
		m.statements()
		m.jump()
	}
	m.emit(0x0b)
	m.dispatched = false
}

// newMaze writes a function, with nops nops in every jump.
func newMaze(random *rand.Rand, nops int) *maze {
	m := &maze{random: random, nops: nops, left: 30}
	if random.IntN(2) == 0 {
		m.dispatch(2 + random.IntN(5))
	}
	for m.left > 0 {
		m.statements()
	}
	m.emit(0x20, mazeHash, 0x0b)
	return m
}

// module is a module whose "f" calls the maze, with fuel as "fuel", and the maze's
// callees.
func (m *maze) module() []byte {
	function := append([]byte{1, 2, i32}, m.code...)
	content := append(binary.AppendUvarint([]byte{4}, uint64(len(function))), function...)
	return build(
		section(1, 3, 0x60, 0, 0, 0x60, 1, i32, 0, 0x60, 1, i32, 1, i32),
		section(2, append([]byte{1}, "\x03env\x04host\x00\x00"...)...),
		section(3, 4, 2, 0, 0, 2),
		section(4, 1, 0x70, 0, 2),
		section(6, append([]byte{1, i32, 1}, "\x41\xa0\x9c\x01\x0b"...)...), // mazeFuel
		section(7, append([]byte{2}, "\x01f\x00\x04\x04fuel\x03\x00"...)...),
		section(9, 1, 0, 0x41, 0, 0x0b, 2, 2, 3),
		section(10, append(content, "\x02\x00\x0b\x04\x00\x10\x02\x0b\x06\x00\x20\x00\x10\x01\x0b"...)...),
	)
}

// TestCyclesPassSafePoints: from one safe point to the next, a maze uses no more fuel
// than its tight loops use in a chunk, and it takes the same path as before.
func TestCyclesPassSafePoints(t *testing.T) {
	t.Parallel()
	seeds := mazeFunctions
	if !testrun.IsFull() {
		seeds /= 4
	}
	for seed := range uint64(seeds) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			maze := newMaze(rand.New(rand.NewPCG(seed, 0)), 0)
			want, _, _ := maze.run(t, maze.module(), seed)
			for _, o := range []rewrite.Options{{}, {MultiValue: true, Exact: true}, marked, stubbed} {
				got, used, _ := maze.run(t, rewritten(t, maze.module(), o).Binary, seed)
				if got != want {
					t.Errorf("%+v: %#x, want %#x", o, got, want)
				}
				if most := uint64(257 * (maze.points + 1)); used > most {
					t.Errorf("%+v: no safe point while %d fuel was used, at most %d", o, used, most)
				}
			}
		})
	}
}

// TestJumpsAreCounted: a nop in every jump hides all jumps, and adds their number to the
// executed instructions. Two nops add it twice.
func TestJumpsAreCounted(t *testing.T) {
	testrun.Full(t, testrun.Minutes)
	t.Parallel()
	for seed := range uint64(mazeFunctions / 3) {
		var executed [3]uint64
		for nops := range executed {
			maze := newMaze(rand.New(rand.NewPCG(seed, 0)), nops)
			m := rewritten(t, maze.module(), rewrite.Options{MultiValue: true, Exact: true})
			_, _, executed[nops] = maze.run(t, m.Binary, seed)
		}
		if want := 2*executed[1] - executed[2]; executed[0] != want {
			t.Errorf("%d: %d instructions, want %d", seed, executed[0], want)
		}
	}
}

// run returns the maze's hash and fuel, the most fuel between safe points, and the
// executed instructions, if they are counted.
func (m *maze) run(t *testing.T, module []byte, seed uint64) (result [2]uint64, used, executed uint64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	last := uint64(mazeFuel)
	note := func(guest api.Module) {
		left := guest.ExportedGlobal("fuel").Get()
		used, last = max(used, last-left), left
	}
	r := newHost(t, func(_ context.Context, guest api.Module, _, _ uint32) { note(guest) })
	guest, err := r.Instantiate(ctx, module)
	if err != nil {
		t.Fatal(err)
	}
	results, err := guest.ExportedFunction("f").Call(ctx, seed)
	if err != nil {
		t.Fatal(err)
	}
	note(guest)
	if g := guest.ExportedGlobal(rewrite.ExecutedGlobal); g != nil {
		executed = g.Get()
	}
	return [2]uint64{results[0], last}, used, executed
}
