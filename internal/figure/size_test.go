package figure

import (
	"testing"

	"pgregory.net/rapid"
)

func TestByteSize(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]ByteSize{
		"0": 0, "64MiB": 64 * MiB, "64 mib": 64 * MiB, "1GB": 1e9, "500kB": 500_000, "500KB": 500_000,
		"1.5GiB": 3 * GiB / 2, "1048576": MiB, "7b": 7,
	} {
		var got ByteSize
		if err := got.Set(text); err != nil || got != want {
			t.Errorf("%q is %d bytes, want %d; %v", text, got, want, err)
		}
	}
	for _, text := range []string{"", "MiB", "-1", "64M", "64 bytes", "1e30GB", "NaN", "Inf", "9223372036854775808"} {
		if got := ByteSize(1); got.Set(text) == nil {
			t.Errorf("%q is %d bytes, want an error", text, got)
		}
	}
}

func TestSizeIsPrintedAsItIsRead(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		size := ByteSize(rapid.Int64Range(0, 1<<53).Draw(t, "size"))
		var got ByteSize
		if err := got.Set(size.String()); err != nil || got != size {
			t.Errorf("%d is printed as %v and read as %d; %v", int64(size), size, int64(got), err)
		}
	})
}
