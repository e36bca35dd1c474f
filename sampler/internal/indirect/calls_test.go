package indirect

import (
	"errors"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/internal/perfevent"
	"github.com/ccmapd/ccmapd/internal/process"
	"golang.org/x/arch/x86/x86asm"
	"golang.org/x/sys/unix"
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
		want   Call
		length int
	}{
		{loadMethod + moveReceiver + callCX, Call{Kind: Interface, Register: regCX}, 2},
		{loadMethodR8 + callR8, Call{Kind: Interface, Register: regR8}, 3},
		{loadClosure + callCX, Call{Kind: Closure, Register: regCX}, 2},
		{loadMethod + loadClosure + callCX, Call{Kind: Closure, Register: regCX}, 2},
		{loadMethod + loadSpilled + callCX, Call{Kind: Indirect, Register: regCX}, 2},
		{loadBehind + callCX, Call{Kind: Indirect, Register: regCX}, 2},
		{callCX, Call{Kind: Indirect, Register: regCX}, 2},
		{loadMethod + callR14, Call{Kind: Other}, 0},
		{callSP, Call{Kind: Other}, 0},
		{loadMethod + callMemory, Call{Kind: Other}, 0},
		{loadMethod + callDirect, Call{Kind: Other}, 0},
		{loadMethod + addConstant, Call{Kind: Other}, 0},
		{loadMethod + "\x06", Call{Kind: Other}, 0},     // no instruction
		{loadMethod + "\x48\x8b", Call{Kind: Other}, 0}, // the first half of one
		{"", Call{Kind: Other}, 0},
	} {
		got, length := lastCall([]byte(c.text))
		if got != c.want || got.indirect() && length != c.length {
			t.Errorf("% x: %+v of %d bytes, want %+v of %d", c.text, got, length, c.want, c.length)
		}
	}
}

// FuzzCalls disassembles the code of a hostile target, which may be any bytes.
func FuzzCalls(f *testing.F) {
	for _, text := range []string{loadMethod + callCX, loadClosure + callCX, callDirect, loadMethodR8 + callR8, "\x62\xf1\x7c\x48\x28\x00" + callCX, "\xc5\xf8\x77" + callCX, "\xf3\xf0\x66\x67\x2e"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		found, length := lastCall(text)
		if length < 0 || length > len(text) || found.Kind == Unseen || found.PC != 0 {
			t.Fatalf("%+v of %d bytes in %d", found, length, len(text))
		}
		if !found.indirect() {
			return
		}
		if found.Register > 23 || found.Register == perfevent.RegSP || found.Register == perfevent.RegR14 {
			t.Fatalf("call through register %d", found.Register)
		}
		if inst, err := x86asm.Decode(text[len(text)-length:], 64); err != nil || inst.Op != x86asm.CALL || inst.Len != length {
			t.Fatalf("%v (%v) is taken for a call", inst, err)
		}
	})
}

// caller is called in all ways; its method returns the address after the call.
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

// selfFinder returns a finder in this program.
func selfFinder() *Finder {
	f := &Finder{memory: process.MemoryOf(os.Getpid(), nil)}
	f.fill(time.Now())
	return f
}

// before asks a finder for a call of this program.
func (f *Finder) before(ret uint64) Call {
	return f.Before(uint64(runtime.FuncForPC(uintptr(ret)).Entry()), ret, func(uint64) bool { return false })
}

// TestBefore tells the calls of this program apart.
func TestBefore(t *testing.T) {
	t.Parallel()
	f := selfFinder()
	for name, k := range map[string]struct {
		ret  uint64
		want Kind
	}{
		"interface": {byInterface(new(here)), Interface},
		"closure":   {byClosure(func() uint64 { return returnAddress() }), Closure},
		"direct":    {byName(new(here)), Other},
	} {
		got := f.before(k.ret)
		if got.Kind != k.want || got.indirect() && (got.PC >= k.ret || got.PC < k.ret-3) {
			t.Errorf("%s: %+v before %#x", name, got, k.ret)
		}
	}
	ret := byInterface(new(here))
	if got := f.Before(ret-64, ret, func(uint64) bool { return true }); got.Kind != Other {
		t.Errorf("in a wrapper: %+v", got)
	}
}

// noise is memory that repeats a text; without one it cannot be read.
type noise string

func (n noise) Read(_ uint64, buf []byte) error {
	if n == "" {
		return errors.New("not mapped")
	}
	for i := range buf {
		buf[i] = n[i%len(n)]
	}
	return nil
}

// TestUnreadableCode: memory that cannot be read, or is another process's, holds no
// call.
func TestUnreadableCode(t *testing.T) {
	t.Parallel()
	for name, mem := range map[string]noise{"none": "", "noise": "\x0f\x0b\x06\x82", "calls": "\xff\xd1"} {
		f := selfFinder()
		f.memory = mem
		got := f.before(byInterface(new(here)))
		if got.indirect() && name != "calls" {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestEffortIsBounded: code that is too much to disassemble now is looked at later.
func TestEffortIsBounded(t *testing.T) {
	t.Parallel()
	f := selfFinder()
	ret, now := byInterface(new(here)), f.filled
	f.bytes = 1
	if got := f.before(ret); got != (Call{}) || f.bytes != 1 {
		t.Fatalf("without effort: %+v, %d bytes left", got, f.bytes)
	}
	f.fill(now.Add(time.Hour))
	if got := f.before(ret); !got.indirect() || f.bytes >= maxFunction {
		t.Fatalf("with effort: %+v, %d bytes left", got, f.bytes)
	}
}

// TestNoThread: a burst on threads that have all ended says so.
func TestNoThread(t *testing.T) {
	t.Parallel()
	s := newSites().sampled(1, Call{PC: 1, Kind: Interface})
	if _, err := openBurst(s, func(uint32) bool { return false }, time.Now()); !errors.Is(err, errNoThread) {
		t.Errorf("a burst without threads: %v", err)
	}
}

// BenchmarkBefore disassembles a function, or rules it out by its last bytes.
func BenchmarkBefore(b *testing.B) {
	f := selfFinder()
	for name, ret := range map[string]uint64{"interface": byInterface(new(here)), "direct": byName(new(here))} {
		b.Run("call="+name, func(b *testing.B) {
			for b.Loop() {
				f.bytes = maxFunction
				f.before(ret)
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

// BenchmarkBurst sets a breakpoint on a call of this thread, makes the calls and
// closes it. The cost of a call is the time that it takes the target.
func BenchmarkBurst(b *testing.B) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	s := newSites().sampled(1, selfFinder().before(repeat(new(here), 1)))
	s.threads[0] = uint32(unix.Gettid())
	var calls, rest time.Duration
	caught := 0
	for b.Loop() {
		begin := perfevent.ThreadTime()
		burst, err := openBurst(s, func(uint32) bool { return true }, time.Now())
		if err != nil {
			b.Skip(err)
		}
		armed := perfevent.ThreadTime()
		repeat(new(there), threadCalls)
		called := perfevent.ThreadTime()
		burst.drain(func([]byte) { caught++ })
		burst.close()
		calls += called - armed
		rest += perfevent.ThreadTime() - called + armed - begin
	}
	b.ReportMetric(float64(calls.Microseconds())/float64(caught), "µs/call")
	b.ReportMetric(float64(rest.Microseconds())/float64(b.N), "µs/set")
	b.ReportMetric(float64(caught)/float64(b.N), "caught/op")
}
