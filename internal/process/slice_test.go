package process_test

import (
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ccmapd/ccmapd/internal/process"
)

// Threads keep their nice value, and another policy keeps its own.
func TestShortenSlices(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]unix.SchedAttr{
		"nice": {Policy: unix.SCHED_NORMAL, Nice: 5},
		"idle": {Policy: unix.SCHED_IDLE},
	} {
		cmd := exec.Command("sleep", "1000")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			cmd.Process.Kill()
			cmd.Wait()
		})
		pid := cmd.Process.Pid
		if err := unix.SchedSetAttr(pid, &before, 0); err != nil {
			t.Fatal(err)
		}
		want, err := unix.SchedGetAttr(pid, 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := process.ShortenSlices(pid); err != nil {
			t.Fatal(err)
		}
		got, err := unix.SchedGetAttr(pid, 0)
		if err != nil {
			t.Fatal(err)
		}
		if name == "nice" && want.Runtime > 0 { // Linux before 6.12 shows none
			want.Runtime = 100_000
		}
		if *got != *want {
			t.Errorf("%s: got %+v, want %+v", name, got, want)
		}
	}
}
