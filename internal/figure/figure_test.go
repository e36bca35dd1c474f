package figure

import (
	"testing"

	"pgregory.net/rapid"
)

func checkPrinted(t *testing.T, print func(int64) string, wanted map[int64]string) {
	t.Helper()
	for n, want := range wanted {
		if got := print(n); got != want {
			t.Errorf("%d is printed %q, want %q", n, got, want)
		}
	}
}

func TestTime(t *testing.T) {
	t.Parallel()
	checkPrinted(t, Time, map[int64]string{
		0:                   "0",
		12:                  "12ns",
		999:                 "999ns",
		1000:                "1µs",
		1234:                "1.23µs",
		45_600_000:          "45.6ms",
		999_499_999:         "999ms",
		999_500_000:         "1s",
		1_234_567_890:       "1.23s",
		599_400_000_000:     "599s",
		600_000_000_000:     "10m00s",
		4_511_700_000_000:   "75m12s",
		9223372036854775807: "153722867m17s",
	})
}

func TestTimeInColumn(t *testing.T) {
	t.Parallel()
	checkPrinted(t, TimeInColumn, map[int64]string{
		0:               "0",
		50:              "50ns",
		1000:            "1.00µs",
		92_000_000:      "92.0ms",
		346_400_000:     "346ms",
		999_499_999:     "999ms",
		999_500_000:     "1.00s",
		3_900_000_000:   "3.90s",
		599_400_000_000: "599s",
		600_000_000_000: "10m00s",
	})
}

func TestCount(t *testing.T) {
	t.Parallel()
	checkPrinted(t, Count, map[int64]string{
		0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", -1234: "-1,234", -123: "-123",
	})
}

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
