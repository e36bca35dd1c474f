package rewrite_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/ccmapd/ccmapd/sampler/wasm/internal/rewrite"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
)

// loopGuest counts to n in a tight loop, exported as "f". It returns n, or 7 for n above
// 700. Its branches go to every kind of label.
func loopGuest() []byte {
	body := []byte{
		0x01, 0x01, i32, // local 1
		0x02, 0x40, 0x03, 0x40, // block, loop
		0x20, 1, 0x41, 1, 0x6a, 0x22, 1, // i++
		0x20, 0, 0x46, 0x0d, 1, // i == n: out of the loop
		0x20, 1, 0x41, 0xbc, 5, 0x46, 0x04, 0x40, // i == 700
		0x41, 7, 0x0f, 0x0b, // return 7
		0x02, 0x40, 0x20, 1, 0x41, 1, 0x71,
		0x0e, 2, 0, 1, 2, // even: to the end of the block; odd: on with the loop
		0x0b, 0x0c, 0, 0x0b, 0x0b, // on with the loop
		0x20, 1, 0x0b,
	}
	return build(
		section(1, 1, 0x60, 1, i32, 1, i32),
		section(3, 1, 0),
		section(7, 1, 1, 'f', 0, 0),
		section(10, append([]byte{1, byte(len(body))}, body...)...),
	)
}

// executed is the number of instructions of loopGuest for n up to 700.
func executed(n uint64) uint64 {
	odd, even := n/2, (n-1)/2 // iterations that go on
	return 2 + 16*odd + 17*even + 7 + 1
}

// TestTightLoops: a tight loop polls after 256 iterations, and its function at its entry
// and exit, if it calls nothing. The loop has the same effect, in as many instructions of
// its own.
func TestTightLoops(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ n, result, polls uint64 }{
		{1, 1, 2}, {2, 2, 2}, {256, 256, 2}, {257, 257, 3}, {700, 700, 4}, {100_000, 7, 4},
	} {
		t.Run(fmt.Sprint(c.n), func(t *testing.T) {
			t.Parallel()
			polls := uint64(0)
			m := countPolls(t, rewritten(t, loopGuest(), rewrite.Options{MultiValue: true, Exact: true}).Binary, &polls)
			results, err := m.ExportedFunction("f").Call(context.Background(), c.n)
			if err != nil || results[0] != c.result || polls != c.polls {
				t.Errorf("f = %d, %v with %d polls, want %d with %d", results, err, polls, c.result, c.polls)
			}
			if got := m.ExportedGlobal(rewrite.ExecutedGlobal).Get(); c.n <= 700 && got != executed(c.n) {
				t.Errorf("%d instructions executed, want %d", got, executed(c.n))
			}
		})
	}
}

// TestLoopsThatAreNotTight: in these, every iteration polls.
func TestLoopsThatAreNotTight(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, body string
		polls      uint64 // in 10 iterations
	}{
		{"tight", "", 2},
		{"truncation of a float", "\x43\x00\x00\x00\x00\xfc\x00\x1a", 2},
		{"call", "\x10\x01", 10},
		{"memory.grow", "\x41\x00\x40\x00\x1a", 10},
		{"memory.fill", "\x41\x00\x41\x00\x41\x00\xfc\x0b\x00", 10},
		{"loop inside", "\x03\x40\x0b", 10},
		{"more than 1 KiB", strings.Repeat("\x01", 1024), 10},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			polls := uint64(0)
			m := countPolls(t, rewritten(t, tenTimes(c.body), rewrite.Options{MultiValue: true}).Binary, &polls)
			if _, err := m.ExportedFunction("f").Call(context.Background()); err != nil || polls != c.polls {
				t.Errorf("%d polls, %v, want %d", polls, err, c.polls)
			}
		})
	}
}

// tenTimes is a module whose function "f" executes code ten times, in a loop. The
// code may call function 1, which does nothing, and has a memory.
func tenTimes(code string) []byte {
	body := "\x01\x01\x7f\x03\x40" + code + "\x20\x00\x41\x01\x6a\x22\x00\x41\x0a\x49\x0d\x00\x0b\x0b"
	content := append(binary.AppendUvarint([]byte{2}, uint64(len(body))), body...)
	return build(
		section(1, 1, 0x60, 0, 0),
		section(3, 2, 0, 0),
		section(5, 1, 0, 1),
		section(7, 1, 1, 'f', 0, 0),
		section(10, append(content, 2, 0x00, 0x0b)...),
	)
}

// countPolls instantiates a rewritten module that stops at every safe point.
func countPolls(t *testing.T, module []byte, polls *uint64) api.Module {
	t.Helper()
	ctx := context.Background()
	r := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfig().WithCoreFeatures(tailCalls))
	t.Cleanup(func() { r.Close(ctx) })
	_, err := r.NewHostModuleBuilder(rewrite.HostModule).
		NewFunctionBuilder().WithFunc(func(_, _ uint32) { *polls++ }).Export(rewrite.SampleFunction).
		NewFunctionBuilder().WithFunc(func(_, _, _ uint32) {}).Export(rewrite.CallFunction).
		NewFunctionBuilder().WithFunc(func(_, _ uint32) {}).Export(rewrite.PointFunction).
		Instantiate(ctx)
	if err != nil {
		t.Fatal(err)
	}
	m, err := r.Instantiate(ctx, module)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// dispatchGuest has a dispatch with three basic blocks: the first counts to 10, and then
// goes to the third. The second has a loop that counts to 10.
func dispatchGuest(entry, first, goBack string) []byte {
	return callsGuest("\x41" + entry + "\x21\x01" +
		"\x03\x40\x02\x40\x02\x40\x02\x40\x20\x01\x0e\x02\x00\x01\x02\x0b" +
		first + isBelow10 + "\x45\x04\x40\x41\x02\x21\x01\x0c\x03\x0b" + goBack + "\x0c\x02\x0b" +
		"\x03\x40" + callBare + isBelow10 + "\x0d\x00\x0b\x0b" +
		"\x0b")
}

// TestDispatch: only jumps back poll. Instructions of the head that jumps no longer
// execute are still counted.
func TestDispatch(t *testing.T) {
	t.Parallel()
	const jump = "\x41\x00\x21\x01"
	for _, c := range []struct {
		name                 string
		entry, first, goBack string
		polls, executed      int
	}{
		{"first", "\x00", "", jump, 9, 2 + 6 + 9*(8+3+5) + 8 + 3 + 5},
		{"first, calls", "\x00", callPolled, jump, 0, 2 + 6 + 9*(9+1+3+5) + 9 + 1 + 3 + 5},
		{"second", "\x01", "", jump, 9, 2 + 6 + 1 + 10*8},
		{"third", "\x02", "", jump, 0, 2 + 6},
		{"beyond", "\x05", "", jump, 0, 2 + 6},
		{"no jump", "\x00", "", jump + "\x01", 10, 2 + 6 + 9*(8+4+5) + 8 + 3 + 5},
		{"another local", "\x00", "", "\x41\x09\x21\x00", 2, 2 + 6 + 2*(8+3+5)},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			polls, executed := loopPolls(t, dispatchGuest(c.entry, c.first, c.goBack))
			if polls != c.polls || executed != c.executed {
				t.Errorf("%d polls and %d instructions, want %d and %d", polls, executed, c.polls, c.executed)
			}
		})
	}
}

// TestDispatchForward: if all jumps go forward, there is no loop.
func TestDispatchForward(t *testing.T) {
	t.Parallel()
	guest := callsGuest("\x02\x40\x03\x40\x02\x40\x02\x40\x20\x01\x0e\x01\x00\x01\x0b" +
		"\x41\x01\x0d\x02" + // out of all
		"\x41\x01\x21\x01\x0c\x01\x0b\x0b\x00\x0b")
	if polls, executed := loopPolls(t, guest); polls != 0 || executed != 8 {
		t.Errorf("%d polls and %d instructions, want 0 and 8", polls, executed)
	}
}
