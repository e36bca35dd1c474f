package testrun

import (
	"testing"
	"time"

	"github.com/prometheus/procfs"
)

// Stolen returns how long the machine's CPUs have been taken away from it, if it
// is a virtual one. The CPU time that a process has used comprises such time, but
// there are no samples of it.
func Stolen(t testing.TB) time.Duration {
	t.Helper()
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		t.Fatal(err)
	}
	stat, err := fs.Stat()
	if err != nil {
		t.Fatal(err)
	}
	return time.Duration(stat.CPUTotal.Steal * float64(time.Second))
}
