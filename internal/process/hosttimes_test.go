package process

import (
	"testing"
	"time"
)

func TestHostTimes(t *testing.T) {
	t.Parallel()
	got, err := parseHostTimes("cpu  100 20 30 4000 500 6 7 80 9 0\ncpu0 1 2\n")
	if want := (CPUTimes{All: 1630 * time.Millisecond, User: 1200 * time.Millisecond, Kernel: 430 * time.Millisecond}); err != nil || got != want {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
	for _, text := range []string{"", "cpu", "cpu 1 2 3 4 5 6", "cpu0 1 2 3 4 5 6 7", "cpu 1 2 3 4 5 6 x", "cpu 1 2 3 4 5 6 -7", "cpu 99999999999999999999 2 3 4 5 6 7"} {
		if got, err := parseHostTimes(text); err == nil {
			t.Errorf("%q is read as %v", text, got)
		}
	}
	now, err := readHostTimes()
	if err != nil || now.All <= 0 || now.All != now.User+now.Kernel {
		t.Errorf("this machine: %v, %v", now, err)
	}
}
