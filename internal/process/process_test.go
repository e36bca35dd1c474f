package process

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

func TestParseCPUList(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		list string
		want []int
	}{
		{"0", []int{0}},
		{"0-3", []int{0, 1, 2, 3}},
		{"0-1,4,6-7", []int{0, 1, 4, 6, 7}},
	} {
		got, err := parseCPUList(c.list)
		if err != nil || !cmp.Equal(got, c.want) {
			t.Errorf("parse %q: %v, %v; want %v", c.list, got, err, c.want)
		}
	}
	for _, bad := range []string{"", "x", "3-1", "-1", "0-99999999", "0,,1"} {
		if got, err := parseCPUList(bad); err == nil {
			t.Errorf("parse %q: got %v, want an error", bad, got)
		}
	}
}

func TestParseStat(t *testing.T) {
	t.Parallel()
	fields := strings.Fields(strings.Repeat("0 ", 50))
	fields[0], fields[6], fields[11], fields[12], fields[49] = "Z", "2097152", "17", "4", "256"
	copy(fields[23:], []string{"1", "22", "333"})
	got, err := parseStat("12 (a) (b ) c) " + strings.Join(fields, " "))
	if err != nil || !got.Zombie() || !got.KernelThread() || got.exitCode != 256 || got.user != 17 || got.kernel != 4 || got.Addresses != "1 22 333" {
		t.Errorf("got %+v, %v", got, err)
	}
	for _, bad := range []string{"", "1 (x) R", "1 (x"} {
		if _, err := parseStat(bad); err == nil {
			t.Errorf("%q was taken for a process state", bad)
		}
	}
}

func TestDescribeExit(t *testing.T) {
	t.Parallel()
	for status, want := range map[unix.WaitStatus]string{
		0:   "target exited with code 0",
		768: "target exited with code 3",
		9:   "target was killed by SIGKILL",
	} {
		if got := describeExit(status); got != want {
			t.Errorf("status %d: %q, want %q", status, got, want)
		}
	}
}
