package activation

import "testing"

// TestCompare writes a stack as its callers, outermost first, and the entry of
// its innermost function. Function f is at f·100.
func TestCompare(t *testing.T) {
	t.Parallel()
	entry := func(pc uint64) uint64 { return pc / 100 * 100 }
	at := func(entry uint64, callers ...uint64) *past {
		return &past{callers: callers, entry: entry, complete: true}
	}
	for _, c := range []struct {
		name        string
		before, now *past
		want        likeness
	}{
		{"same place", at(200, 110), at(200, 110), same},
		{"other call site", at(200, 110), at(200, 120), unlike},
		{"other callee", at(200, 110), at(300, 110), unlike},
		{"callee of it", at(200, 110), at(300, 110, 210), unlike},
		{"back from a callee", at(300, 110, 210), at(200, 110), covered},
		{"back, and then another", at(300, 110, 210), at(400, 110), unlike},
		{"outermost, back", at(300, 110), at(100), covered},
		{"recursion, one deeper", at(200, 110, 210), at(200, 110, 210, 210), unlike},
		{"recursion, one up", at(200, 110, 210, 210), at(200, 110, 210), covered},
		{"caller called anew", at(300, 110, 210), at(300, 120, 210), unlike},
		{"incomplete before", &past{callers: []uint64{110}, entry: 200}, at(200, 110), unknown},
		{"incomplete now", at(200, 110), &past{callers: []uint64{110}, entry: 200}, unknown},
	} {
		if got := compare(c.before, c.now, entry); got != c.want {
			t.Errorf("%s: likeness %d, want %d", c.name, got, c.want)
		}
	}
}

// TestHistoryIsBounded: it forgets, and knows that it has.
func TestHistoryIsBounded(t *testing.T) {
	t.Parallel()
	h := newHistory()
	for thread := range uint64(maxPasts + 1) {
		h.keep(thread, &past{callers: []uint64{110}, entry: 200, complete: true})
	}
	if len(h.last) > maxPasts || !h.forgot {
		t.Errorf("%d goroutines are remembered, forgot is %v", len(h.last), h.forgot)
	}
}
