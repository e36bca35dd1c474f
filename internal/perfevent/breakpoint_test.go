package perfevent

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// caughtBody is the body of a sample of a breakpoint at 0x401000 as the kernel
// writes it, with the values of two registers.
func caughtBody(first, second uint64) []byte {
	return fields(
		uint64(0x401000), uint32(7), uint32(8), uint64(99),
		uint64(4), contextUser, uint64(0x401000), uint64(0x402000), uint64(0x403000),
		uint64(unix.PERF_SAMPLE_REGS_ABI_64), first, second,
	)
}

func TestDecodeCall(t *testing.T) {
	const target, g = 0x500000, 0xc000000100
	want := Call{PID: 7, TID: 8, Time: 99, Chain: []uint64{0x401000, 0x402000, 0x403000}, Target: target, G: g}
	for _, c := range []struct {
		reg  uint8
		body []byte
	}{
		{2, caughtBody(target, g)},
		{23, caughtBody(g, target)}, // R15 comes after R14
	} {
		var got Call
		at := Breakpoint{Register: c.reg, PC: 0x401000}
		if err := got.Decode(at, c.body); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("register %d: call differs (-want +got):\n%s", c.reg, diff)
		}
		for n := range c.body {
			if err := got.Decode(at, c.body[:n]); err == nil {
				t.Errorf("the first %d of %d bytes were taken for a call", n, len(c.body))
			}
		}
		at.PC++
		if err := got.Decode(at, c.body); err == nil {
			t.Error("a call elsewhere was taken for one of this breakpoint")
		}
	}
	body := caughtBody(target, g)
	if allocs := testing.AllocsPerRun(100, func() {
		if err := want.Decode(Breakpoint{Register: 2, PC: 0x401000}, body); err != nil {
			t.Fatal(err)
		}
	}); allocs > 0 {
		t.Errorf("decoding allocates %v times", allocs)
	}
}
