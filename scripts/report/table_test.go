package report

import (
	"math"
	"testing"
	"time"
)

func TestNumbers(t *testing.T) {
	t.Parallel()
	for got, want := range map[string]string{
		Number(1234567.891, 2):                  "1,234,567.89",
		Number(-1234, 0):                        "-1,234",
		Number(-123, 0):                         "-123",
		Number(math.NaN(), 1):                   "–",
		Count(123456):                           "123,000",
		Count(99.6):                             "100",
		Count(math.Inf(1)):                      "–",
		Seconds(4.44):                           "4.4 s",
		Seconds(300):                            "5 min",
		Seconds(9000):                           "2.5 h",
		Steps([]time.Duration{5e7, 12_512_345}): "50ms → 12.51ms",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestTable(t *testing.T) {
	t.Parallel()
	got := (&Table{Head: []string{"program", "samples"}, Rows: [][]string{{"int32", "400"}}}).String()
	want := "| program | samples |\n| --- | ---: |\n| int32 | 400 |\n"
	if got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
