package process

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/ccmapd/ccmapd/internal/privilege"
)

// IsAsleep reports whether a thread waits in the kernel: it neither runs nor wants to.
func IsAsleep(pid int, tid uint32) bool {
	text, err := readTask(pid, tid, "stat")
	end := bytes.LastIndexByte(text, ')') // its name may hold anything
	if err != nil || end < 0 || len(text) < end+3 {
		return false
	}
	return text[end+2] == 'S' || text[end+2] == 'D'
}

// ThreadName returns the name of a thread of a process: 15 bytes at most, which may be anything.
func ThreadName(pid int, tid uint32) (string, error) {
	text, err := readTask(pid, tid, "comm")
	return strings.TrimSuffix(string(text), "\n"), err
}

// IsNested reports whether a process has a namespace of pids that is not this process's: it knows its threads by other
// numbers.
func IsNested(pid int) bool {
	defer privilege.Raise().Lower()
	own, err1 := os.Readlink("/proc/self/ns/pid")
	its, err2 := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", pid))
	return err1 == nil && err2 == nil && own != its
}

// InnerThread returns the number by which a process knows one of its threads; 0: not known.
func InnerThread(pid int, tid uint32) uint32 {
	text, err := readTask(pid, tid, "status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if value, found := strings.CutPrefix(line, "NSpid:"); found {
			fields := strings.Fields(value)
			if len(fields) > 0 {
				v, _ := strconv.ParseUint(fields[len(fields)-1], 10, 32)
				return uint32(v)
			}
		}
	}
	return 0
}
