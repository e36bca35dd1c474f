package hotspot

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/ccmapd/ccmapd/internal/process"
)

// stackMemory is memory that ends at 1 GiB.
type stackMemory []byte

func (s stackMemory) Read(addr uint64, buf []byte) error {
	const end = 1 << 30
	if addr < end-uint64(len(s)) || addr+uint64(len(buf)) > end {
		return errors.New("not mapped")
	}
	copy(buf, s[addr-(end-uint64(len(s))):])
	return nil
}

// TestDeepStacks lengthens copies of a stack up to its end, which is that of a page, unless the
// copy's end has changed meanwhile or too much was read.
func TestDeepStacks(t *testing.T) {
	t.Parallel()
	stack := make(stackMemory, 300<<10)
	for i := range stack {
		stack[i] = byte(rand.Int())
	}
	for _, c := range []struct {
		name         string
		whole, copy  int // bytes of the stack, and of its copy
		budget, want int
		change       int // so many bytes before the end of the copy there is another byte; 0: nowhere
	}{
		{"a little more", 33 << 10, 32 << 10, deepBytes, 33 << 10, 0},
		{"much more", 300<<10 - 24, 32 << 10, deepBytes, 300<<10 - 24, 0},
		{"not cut", 8 << 10, 8 << 10, deepBytes, 8 << 10, 0},
		{"changed", 100 << 10, 32 << 10, deepBytes, 0, 100},
		{"changed above the end", 100 << 10, 32 << 10, deepBytes, 100 << 10, 30 << 10},
		{"a small copy", 100 << 10, 1 << 10, deepBytes, 0, 0},
		{"a spent budget", 100 << 10, 32 << 10, deepOverlap + deepPiece - 1, 32 << 10, 0},
	} {
		d := deep{memory: stack, left: c.budget}
		m := process.Moment{Stack: bytes.Clone(stack[len(stack)-c.whole:][:c.copy]), Cut: true}
		m.Regs.SP = 1<<30 - uint64(c.whole)
		if c.change > 0 {
			m.Stack[c.copy-c.change]++
		}
		want := append(bytes.Clone(m.Stack), stack[len(stack)-c.whole:][c.copy:]...)
		got := 0
		if d.takeMoment(&m) {
			got = c.copy
			for more := d.more(); more != nil; more = d.more() {
				if got = len(more.Stack); !bytes.Equal(more.Stack, want[:got]) {
					t.Fatalf("%s: another stack", c.name)
				}
			}
		}
		if got != c.want || d.left < 0 {
			t.Errorf("%s: %d bytes, want %d; %d left", c.name, got, c.want, d.left)
		}
	}
}
