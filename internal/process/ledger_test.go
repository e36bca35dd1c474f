package process

import (
	"errors"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"golang.org/x/sys/unix"
)

func TestLedgerBalances(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	began := CPUTimes{All: 1000 * ms, User: 300 * ms, Kernel: 100 * ms}
	for _, test := range []struct {
		name     string
		userOnly bool
		now      CPUTimes
		seen     time.Duration
		want     ccmap.Loss
	}{
		{"nothing yet", false, began, 0, ccmap.Loss{}},
		{"all", false, CPUTimes{1100 * ms, 380 * ms, 120 * ms}, 90 * ms, ccmap.Loss{Clock: 100 * ms, Unaccounted: 10 * ms}},
		{"more than all", false, CPUTimes{1100 * ms, 380 * ms, 120 * ms}, 110 * ms, ccmap.Loss{Clock: 100 * ms, Unaccounted: -10 * ms}},
		{"user time", true, CPUTimes{1100 * ms, 380 * ms, 120 * ms}, 90 * ms, ccmap.Loss{Clock: 80 * ms, Unaccounted: -10 * ms}},
		{"user time, no tick yet", true, CPUTimes{1003 * ms, 300 * ms, 100 * ms}, 0, ccmap.Loss{Clock: 3 * ms, Unaccounted: 3 * ms}},
	} {
		l := &Ledger{userOnly: test.userOnly, began: began, Seen: test.seen}
		if got := l.Balance(test.now); got != test.want {
			t.Errorf("%s: %+v, want %+v", test.name, got, test.want)
		}
	}
}

// useTime is set in the process that TestUseTime keeps busy.
const useTime = "CCMAPD_TEST_USE_TIME"

// TestUseTime uses CPU time on some threads, in the kernel, too.
func TestUseTime(t *testing.T) {
	if os.Getenv(useTime) == "" {
		t.Skip("run by TestCPUTimesAreThoseOfTheParent")
	}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for begin := time.Now(); time.Since(begin) < 50*time.Millisecond; {
				os.Getppid()
			}
		})
	}
	all.Wait()
}

// The clocks of a process that has ended agree with the times that its parent is told,
// to the µs.
func TestCPUTimesAreThoseOfTheParent(t *testing.T) {
	t.Parallel()
	cmd := exec.Command(os.Args[0], "-test.run=^TestUseTime$", "-test.cpu=4")
	cmd.Env = append(os.Environ(), useTime+"=1")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := cmd.Process.Pid
	if err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
		t.Fatal(err)
	}
	clock, err1 := ReadCPUTimes(pid)
	stat, err2 := readStatTimes(pid)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	told := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	if off := (clock.All - told).Abs(); off > 10*time.Microsecond {
		t.Errorf("the clock says %v, the parent is told %v", clock.All, told)
	}
	if off := (stat.All - told).Abs(); off > 2*statTick {
		t.Errorf("/proc says %v, the parent is told %v", stat.All, told)
	}
	usage := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	user := time.Duration(usage.Utime.Nano())
	for name, got := range map[string]time.Duration{"clock": clock.since(CPUTimes{}, true), "/proc": stat.since(CPUTimes{}, true)} {
		if off := (got - user).Abs(); off > 2*statTick {
			t.Errorf("%s: user time %v, the parent is told %v", name, got, user)
		}
	}
	if _, err := ReadCPUTimes(pid); err == nil {
		t.Error("the clocks of a process that is no more can be read")
	}
}
