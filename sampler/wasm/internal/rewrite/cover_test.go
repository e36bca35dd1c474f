package rewrite_test

import (
	"context"
	"encoding/binary"
	"strings"
	"testing"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/ccmapd/ccmapd/sampler/wasm/internal/rewrite"
)

// Parts of callsGuest and its loops.
const (
	callImport   = "\x10\x00"
	callBare     = "\x10\x02"
	callPolled   = "\x10\x03"
	callIndirect = "\x41\x01\x11\x00\x00" // of the polled one
	isOdd        = "\x20\x00\x41\x01\x71"
	isBelow10    = "\x20\x00\x41\x01\x6a\x22\x00\x41\x0a\x49" // ++i < 10
	once         = "\x03\x40\x41\x00\x0d\x00\x0b"             // a tight loop
)

// callsGuest is a module whose function "f" has the given code and two i32 locals, the
// first of them i.
func callsGuest(code string) []byte {
	body := "\x01\x02\x7f" + code + "\x0b"
	return build(
		section(1, 2, 0x60, 0, 0, 0x60, 1, i32, 0),
		section(2, append([]byte{1}, "\x03env\x04host\x00\x00"...)...),
		section(3, 3, 0, 0, 0),
		section(4, 1, 0x70, 0, 2),
		section(7, 1, 1, 'f', 0, 1),
		section(9, 1, 0, 0x41, 0, 0x0b, 2, 2, 3),
		section(10, append(append(binary.AppendUvarint([]byte{3}, uint64(len(body))), body...), "\x02\x00\x0b\x04\x00\x10\x02\x0b"...)...),
	)
}

// TestPollsOfLoops: a branch back polls, unless every path to it has passed a safe point.
// In these loops, i counts to 10.
func TestPollsOfLoops(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, body string // of the loop
		polls      int    // of loops
	}{
		{"nothing", "", 1}, // tight: at the exit
		{"polled", callPolled, 0},
		{"import", callImport, 0},
		{"bare", callBare, 9},
		{"indirect", callIndirect, 9},
		{"more than is tight", strings.Repeat("\x01", 1024), 9},
		{"one arm", isOdd + "\x04\x40" + callPolled + "\x0b", 9},
		{"the other arm", isOdd + "\x04\x40\x05" + callPolled + "\x0b", 9},
		{"one arm, and not the other", isOdd + "\x04\x40" + callPolled + "\x05\x01\x0b", 9},
		{"both arms", isOdd + "\x04\x40" + callPolled + "\x05" + callImport + "\x0b", 0},
		{"an arm, the other leaves", "\x41\x00\x04\x40\x0f\x05" + callPolled + "\x0b", 0},
		{"an arm, the other traps", "\x41\x00\x04\x40\x00\x05" + callPolled + "\x0b", 0},
		{"skipped by br_if", "\x02\x40" + isOdd + "\x0d\x00" + callPolled + "\x0b", 9},
		{"in front of br_if", "\x02\x40" + callPolled + isOdd + "\x0d\x00\x0b", 0},
		{"skipped by br_table", "\x02\x40\x02\x40" + isOdd + "\x0e\x01\x00\x01\x0b" + callPolled + "\x0b", 9},
		{"behind br_table", "\x02\x40\x02\x40" + isOdd + "\x0e\x01\x00\x01\x0b\x0b" + callPolled, 0},
		{"unreachable", "\x02\x40\x0c\x00" + callPolled + "\x0b", 9},
		{"another branch back", "\x20\x00\x41\x05\x49\x04\x40" + isBelow10 + "\x1a\x0c\x01\x0b" + callPolled, 5},
		{"a tight loop", once, 9 + 1},
		{"a loop that calls", "\x03\x40" + callPolled + "\x41\x00\x0d\x00\x0b", 0},
		{"a loop behind one that calls", "\x03\x40" + callPolled + "\x41\x00\x0d\x00\x0b\x03\x40" + callBare + isBelow10 + "\x0d\x00\x0b", 9},
		{"a loop behind a call", callPolled + once, 0},
		{"back from an inner loop", "\x03\x40" + isBelow10 + "\x0d\x01" + callBare + "\x41\x00\x0d\x00\x0b", 9},
		{"back from a tight loop", "\x03\x40" + isBelow10 + "\x0d\x01\x41\x00\x0d\x00\x0b", 9 + 1},
		{"back by br_table", "\x02\x40" + callBare + isBelow10 + "\x0e\x01\x00\x01\x0b", 10},
		{"a loop with a parameter", "\x41\x00\x03\x01\x1a" + callPolled + "\x41\x00\x41\x00\x0d\x00\x1a\x0b", 10},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			guest := callsGuest("\x03\x40" + c.body + isBelow10 + "\x0d\x00\x0b")
			if got, _ := loopPolls(t, guest); got != c.polls {
				t.Errorf("%d polls, want %d", got, c.polls)
			}
		})
	}
}

// loopPolls runs a guest's "f" and returns the number of its loops' polls and of its
// instructions.
func loopPolls(t *testing.T, guest []byte) (polls, executed int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	r := newHost(t, func(_ context.Context, _ api.Module, reason, _ uint32) {
		if reason == rewrite.ReasonLoop {
			polls++
		}
	})
	m, err := r.Instantiate(ctx, rewritten(t, guest, rewrite.Options{MultiValue: true, Exact: true}).Binary)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.ExportedFunction("f").Call(ctx); err != nil {
		t.Error(err)
	}
	return polls, int(m.ExportedGlobal(rewrite.ExecutedGlobal).Get())
}

// newHost is a runtime with the guests' imports. Calls end when their contexts do.
func newHost(t *testing.T, sample func(_ context.Context, m api.Module, reason, number uint32)) wazero.Runtime {
	t.Helper()
	ctx := context.Background()
	features := api.CoreFeaturesV2 | experimental.CoreFeaturesTailCall
	r := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfig().WithCoreFeatures(features).WithCloseOnContextDone(true))
	t.Cleanup(func() { r.Close(ctx) })
	_, err := r.NewHostModuleBuilder(rewrite.HostModule).
		NewFunctionBuilder().WithFunc(sample).Export(rewrite.SampleFunction).
		NewFunctionBuilder().WithFunc(func(_, _, _ uint32) {}).Export(rewrite.CallFunction).
		NewFunctionBuilder().WithFunc(func(_, _ uint32) {}).Export(rewrite.PointFunction).
		Instantiate(ctx)
	if err == nil {
		_, err = r.NewHostModuleBuilder("env").NewFunctionBuilder().WithFunc(func() {}).Export("host").Instantiate(ctx)
	}
	if err != nil {
		t.Fatal(err)
	}
	return r
}
