package perf

import (
	"context"
	"log/slog"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/internal/perfevent"
	"golang.org/x/arch/x86/x86asm"
)

// The machine code of some instructions.
const (
	loadMethod   = "\x48\x8b\x48\x20"             // MOVQ 32(AX), CX
	loadClosure  = "\x48\x8b\x0a"                 // MOVQ (DX), CX
	loadSpilled  = "\x48\x8b\x4c\x24\x20"         // MOVQ 32(SP), CX
	loadBehind   = "\x48\x8b\x48\x08"             // MOVQ 8(AX), CX
	loadMethodR8 = "\x4c\x8b\x40\x18"             // MOVQ 24(AX), R8
	moveReceiver = "\x48\x8b\x44\x24\x28"         // MOVQ 40(SP), AX
	callCX       = "\xff\xd1"                     // CALL CX
	callR8       = "\x41\xff\xd0"                 // CALL R8
	callR14      = "\x41\xff\xd6"                 // CALL R14
	callSP       = "\xff\xd4"                     // CALL SP
	callMemory   = "\xff\x51\x18"                 // CALL 24(CX)
	callDirect   = "\xe8\x00\x00\xff\xd1"         // CALL, its distance ends like CALL CX
	addConstant  = "\x48\x81\xc1\x00\x00\xff\xd1" // ADDQ $x, CX, which ends like CALL CX
)

func TestLastCall(t *testing.T) {
	t.Parallel()
	const regCX, regR8 = 2, 16
	for _, c := range []struct {
		text   string
		want   call
		length int
	}{
		{loadMethod + moveReceiver + callCX, call{kind: callInterface, reg: regCX}, 2},
		{loadMethodR8 + callR8, call{kind: callInterface, reg: regR8}, 3},
		{loadClosure + callCX, call{kind: callClosure, reg: regCX}, 2},
		{loadMethod + loadClosure + callCX, call{kind: callClosure, reg: regCX}, 2},
		{loadMethod + loadSpilled + callCX, call{kind: callIndirect, reg: regCX}, 2},
		{loadBehind + callCX, call{kind: callIndirect, reg: regCX}, 2},
		{callCX, call{kind: callIndirect, reg: regCX}, 2},
		{loadMethod + callR14, call{kind: callOther}, 0},
		{callSP, call{kind: callOther}, 0},
		{loadMethod + callMemory, call{kind: callOther}, 0},
		{loadMethod + callDirect, call{kind: callOther}, 0},
		{loadMethod + addConstant, call{kind: callOther}, 0},
		{loadMethod + "\x06", call{kind: callOther}, 0},     // no instruction
		{loadMethod + "\x48\x8b", call{kind: callOther}, 0}, // the first half of one
		{"", call{kind: callOther}, 0},
	} {
		got, length := lastCall([]byte(c.text))
		if got != c.want || got.indirect() && length != c.length {
			t.Errorf("% x: %+v of %d bytes, want %+v of %d", c.text, got, length, c.want, c.length)
		}
	}
}

// FuzzCalls disassembles whatever a hostile target may have for code.
func FuzzCalls(f *testing.F) {
	for _, text := range []string{loadMethod + callCX, loadClosure + callCX, callDirect, loadMethodR8 + callR8, "\x62\xf1\x7c\x48\x28\x00" + callCX, "\xc5\xf8\x77" + callCX, "\xf3\xf0\x66\x67\x2e"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		found, length := lastCall(text)
		if length < 0 || length > len(text) || found.kind == callUnseen || found.pc != 0 {
			t.Fatalf("%+v of %d bytes in %d", found, length, len(text))
		}
		if !found.indirect() {
			return
		}
		if found.reg > 23 || found.reg == perfevent.RegSP || found.reg == perfevent.RegR14 {
			t.Fatalf("call through register %d", found.reg)
		}
		if inst, err := x86asm.Decode(text[len(text)-length:], 64); err != nil || inst.Op != x86asm.CALL || inst.Len != length {
			t.Fatalf("%v (%v) is taken for a call", inst, err)
		}
	})
}

// caller is called in all ways; its method returns the address behind the call.
type caller interface{ back() uint64 }

type here struct{ _ int }

//go:noinline
func (*here) back() uint64 { return returnAddress() }

type there struct{ _ int }

//go:noinline
func (*there) back() uint64 { return 0 }

// repeat makes n calls.
//
//go:noinline
func repeat(c caller, n int) (ret uint64) {
	for range n {
		ret = c.back()
	}
	return ret
}

//go:noinline
func returnAddress() uint64 {
	var pcs [1]uintptr
	runtime.Callers(3, pcs[:])
	return uint64(pcs[0])
}

//go:noinline
func byInterface(c caller) uint64 { return c.back() + 0 }

//go:noinline
func byClosure(f func() uint64) uint64 { return f() + 0 }

//go:noinline
func byName(h *here) uint64 { return h.back() + 0 }

// selfCode returns this program's code.
func selfCode(tb testing.TB) (*code, reader) {
	tb.Helper()
	c, err := openCode(context.Background(), os.Getpid(), nil, slog.New(slog.DiscardHandler))
	if err != nil {
		skipUnlessPermitted(tb, err)
		tb.Fatal(err)
	}
	tb.Cleanup(c.close)
	c.effort.fill(time.Now())
	return c, memory{pid: os.Getpid()}
}

// TestCallBefore tells the calls of this program apart.
func TestCallBefore(t *testing.T) {
	c, mem := selfCode(t)
	for name, k := range map[string]struct {
		ret  uint64
		want callKind
	}{
		"interface": {byInterface(new(here)), callInterface},
		"closure":   {byClosure(func() uint64 { return returnAddress() }), callClosure},
		"direct":    {byName(new(here)), callOther},
		"nowhere":   {8, callUnseen},
	} {
		got := c.callBefore(k.ret, mem)
		if got.kind != k.want || got.indirect() && (got.pc >= k.ret || got.pc < k.ret-3) {
			t.Errorf("%s: %+v before %#x", name, got, k.ret)
		}
	}
	ret := byInterface(new(here))
	if allocs := testing.AllocsPerRun(100, func() { c.callBefore(ret, mem) }); allocs > 0 {
		t.Errorf("a call that was seen before takes %v allocations", allocs)
	}
}

// TestUnreadableCode: what cannot be read, or is another process's memory, is no
// call.
func TestUnreadableCode(t *testing.T) {
	t.Parallel()
	c, _ := selfCode(t)
	for name, mem := range map[string]noise{"none": nil, "noise": noise("\x0f\x0b\x06\x82"), "calls": noise("\xff\xd1")} {
		got := c.callBefore(byInterface(new(here)), mem)
		if got.indirect() && name != "calls" {
			t.Errorf("%s: %+v", name, got)
		}
		clear(c.cache)
	}
}

// TestEffortIsBounded: what is too much to disassemble now is looked at later.
func TestEffortIsBounded(t *testing.T) {
	c, mem := selfCode(t)
	ret, now := byInterface(new(here)), c.effort.filled
	c.effort.bytes = 1
	if got := c.callBefore(ret, mem); got.indirect() || c.effort.bytes != 1 {
		t.Fatalf("without effort: %+v, %d bytes left", got, c.effort.bytes)
	}
	c.effort.fill(now.Add(time.Hour))
	if got := c.callBefore(ret, mem); !got.indirect() || c.effort.bytes >= maxFunction {
		t.Fatalf("with effort: %+v, %d bytes left", got, c.effort.bytes)
	}
}

// BenchmarkCallBefore is what a return address costs: the first time, when the
// function is disassembled or ruled out by its last bytes, and from then on.
func BenchmarkCallBefore(b *testing.B) {
	c, mem := selfCode(b)
	for name, ret := range map[string]uint64{"interface": byInterface(new(here)), "direct": byName(new(here))} {
		p := c.at(ret)
		b.Run("call="+name+"/known=false", func(b *testing.B) {
			for b.Loop() {
				c.effort.bytes = maxFunction
				c.disassemble(p, ret, mem)
			}
			b.ReportMetric(float64(ret-p.entry), "B-of-code")
		})
		b.Run("call="+name+"/known=true", func(b *testing.B) {
			for b.Loop() {
				c.callBefore(ret, mem)
			}
		})
	}
	b.Run("text=64KiB", func(b *testing.B) {
		text := make([]byte, 0, maxFunction)
		for len(text)+16 < maxFunction {
			text = append(text, loadMethod+moveReceiver...)
		}
		text = append(text, callCX...)
		for b.Loop() {
			lastCall(text)
		}
	})
}
