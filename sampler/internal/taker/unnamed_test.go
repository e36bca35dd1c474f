package taker

import (
	"strings"
	"testing"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/process"
)

// remedies is a runtime that knows a remedy for libc alone.
type remedies struct{ process.Runtime }

func (remedies) Remedy(file string) string {
	if strings.HasSuffix(file, "libc.so.6") {
		return "install libc6-dbg"
	}
	return ""
}

// TestUnnamed counts samples in files without symbols, beside others: only innermost frames count, below the
// kernel's, and only files with a percent of the samples.
func TestUnnamed(t *testing.T) {
	t.Parallel()
	names := ccmap.NewNames()
	frame := func(m ccmap.Method) ccmap.Frame { return ccmap.Frame{Method: names.Intern(m)} }
	libc, other := frame(ccmap.Method{Name: ccmap.UnknownName, Signature: "/lib/libc.so.6"}), frame(ccmap.Method{Name: ccmap.UnknownName, Signature: "/lib/libz.so"})
	jit, main, kernel := frame(ccmap.Method{Name: ccmap.UnknownName}), frame(ccmap.Method{Name: "main"}), frame(ccmap.Method{Name: ccmap.KernelName, Signature: "read"})
	const want = "libc.so.6 has no symbols here, so most of its functions are [unknown]: install libc6-dbg"
	for name, test := range map[string]struct {
		stacks map[int][]ccmap.Frame // by how many there are
		want   string
	}{
		"two percent":      {map[int][]ccmap.Frame{20: {libc, main}, 980: {main}}, want},
		"in the kernel":    {map[int][]ccmap.Frame{20: {kernel, libc, main}, 980: {main}}, want},
		"half a percent":   {map[int][]ccmap.Frame{5: {libc, main}, 995: {main}}, ""},
		"as a caller":      {map[int][]ccmap.Frame{500: {main, libc}}, ""},
		"few samples":      {map[int][]ccmap.Frame{50: {libc, main}}, ""},
		"without a remedy": {map[int][]ccmap.Frame{500: {other, main}, 501: {jit, main}, 20: {libc}}, want},
	} {
		var u unnamed
		for n, frames := range test.stacks {
			for range n {
				u.count(names, frames)
			}
		}
		u.review(names, remedies{})
		if got := u.text(); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}
