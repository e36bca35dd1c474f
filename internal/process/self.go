package process

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// OwnNamespace returns the number of the namespace of pids that this process is in; 0: not
// known. A pid that is left in a target means something there alone.
func OwnNamespace() uint64 {
	var st unix.Stat_t
	if unix.Stat("/proc/self/ns/pid", &st) != nil {
		return 0
	}
	return st.Ino
}

// RunsThisProgram reports whether a process runs the program that this one runs.
func RunsThisProgram(pid int) bool {
	own, err1 := os.Stat("/proc/self/exe")
	other, err2 := os.Stat("/proc/" + strconv.Itoa(pid) + "/exe")
	return err1 == nil && err2 == nil && os.SameFile(own, other)
}
