package figure

import "testing"

func TestTime(t *testing.T) {
	t.Parallel()
	for ns, want := range map[int64]string{
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
	} {
		if got := Time(ns); got != want {
			t.Errorf("Time(%d) = %q, want %q", ns, got, want)
		}
	}
}

func TestTimeInColumn(t *testing.T) {
	t.Parallel()
	for ns, want := range map[int64]string{
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
	} {
		if got := timeInColumn(ns); got != want {
			t.Errorf("timeInColumn(%d) = %q, want %q", ns, got, want)
		}
	}
}

func TestCount(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{
		0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", -1234: "-1,234", -123: "-123",
	} {
		if got := Count(n); got != want {
			t.Errorf("Count(%d) = %q, want %q", n, got, want)
		}
	}
}
