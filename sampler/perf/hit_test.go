package perf

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// hitBody is the body of a sample of a breakpoint at 0x401000 as the kernel
// writes it, with what two registers hold.
func hitBody(first, second uint64) []byte {
	return fields(
		uint64(0x401000), uint32(7), uint32(8), uint64(99),
		uint64(4), contextUser, uint64(0x401000), uint64(0x402000), uint64(0x403000),
		uint64(unix.PERF_SAMPLE_REGS_ABI_64), first, second,
	)
}

func TestDecodeHit(t *testing.T) {
	const target, g = 0x500000, 0xc000000100
	want := hit{pid: 7, tid: 8, time: 99, chain: []uint64{0x401000, 0x402000, 0x403000}, target: target, g: g}
	for _, c := range []struct {
		reg  uint8
		body []byte
	}{
		{2, hitBody(target, g)},
		{23, hitBody(g, target)}, // R15 comes behind R14
	} {
		var got hit
		at := call{kind: callInterface, reg: c.reg, pc: 0x401000}
		if err := got.decode(at, c.body); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(hit{})); diff != "" {
			t.Errorf("register %d: hit differs (-want +got):\n%s", c.reg, diff)
		}
		for n := range c.body {
			if err := got.decode(at, c.body[:n]); err == nil {
				t.Errorf("the first %d of %d bytes were taken for a hit", n, len(c.body))
			}
		}
		at.pc++
		if err := got.decode(at, c.body); err == nil {
			t.Error("a hit elsewhere was taken for one of this call")
		}
	}
	body := hitBody(target, g)
	if allocs := testing.AllocsPerRun(100, func() {
		if err := want.decode(call{reg: 2, pc: 0x401000}, body); err != nil {
			t.Fatal(err)
		}
	}); allocs > 0 {
		t.Errorf("decoding allocates %v times", allocs)
	}
}
