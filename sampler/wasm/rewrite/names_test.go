package rewrite_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ccmapd/ccmapd/sampler/wasm/rewrite"
)

// TestNames: what enters a function for it has its name, and the local behind the number
// of a function keeps its own.
func TestNames(t *testing.T) {
	t.Parallel()
	functions := "\x00\x01f\x01\x01g"
	locals := "\x00\x01\x00\x01x" + "\x01\x02\x00\x01y\x01\x01z"
	names := "\x04name" + "\x01\x07\x02" + functions + "\x02\x0e\x02" + locals
	guest := build(
		section(1, 2, 0x60, 0, 0, 0x60, 1, i32, 0),
		section(3, 2, 0, 1),
		section(7, 1, 1, 'f', 0, 0),
		// f calls g, and g calls itself.
		section(10, append([]byte{2}, "\x08\x01\x01\x7f\x41\x00\x10\x01\x0b"+"\x08\x01\x01\x7f\x20\x01\x10\x01\x0b"...)...),
		section(0, []byte(names)...),
	)
	m := rewritten(t, guest, rewrite.Options{MultiValue: true, TailCalls: true, Marks: true})
	want := "\x01\x34\x06\x00\x0dccmapd.sample\x01\x0bccmapd.call\x02\x01f\x03\x01g\x04\x0cccmapd.enter\x05\x01g" +
		"\x02\x0e\x02" + "\x02\x01\x00\x01x" + "\x03\x02\x00\x01y\x02\x01z"
	if d := cmp.Diff(want, string(customSections(t, m.Binary)["name"])); d != "" {
		t.Errorf("names, want to got:\n%s", d)
	}
}
