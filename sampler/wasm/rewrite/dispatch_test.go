package rewrite_test

import "testing"

// dispatchGuest has a dispatch with three basic blocks: the first counts to 10, and
// then goes to the third; the second has a loop that counts to 10.
func dispatchGuest(entry, first, goBack string) []byte {
	return callsGuest("\x41" + entry + "\x21\x01" +
		"\x03\x40\x02\x40\x02\x40\x02\x40\x20\x01\x0e\x02\x00\x01\x02\x0b" +
		first + isBelow10 + "\x45\x04\x40\x41\x02\x21\x01\x0c\x03\x0b" + goBack + "\x0c\x02\x0b" +
		"\x03\x40" + callBare + isBelow10 + "\x0d\x00\x0b\x0b" +
		"\x0b")
}

// TestDispatch: only jumps back poll, and what their heads would have executed is
// counted where jumps do not pass there any more.
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

// TestDispatchForward: where all jumps go forward there is no loop.
func TestDispatchForward(t *testing.T) {
	t.Parallel()
	guest := callsGuest("\x02\x40\x03\x40\x02\x40\x02\x40\x20\x01\x0e\x01\x00\x01\x0b" +
		"\x41\x01\x0d\x02" + // out of all
		"\x41\x01\x21\x01\x0c\x01\x0b\x0b\x00\x0b")
	if polls, executed := loopPolls(t, guest); polls != 0 || executed != 8 {
		t.Errorf("%d polls and %d instructions, want 0 and 8", polls, executed)
	}
}
