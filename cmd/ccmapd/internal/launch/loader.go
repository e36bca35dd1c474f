package launch

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/prometheus/procfs"
)

// callsFromLoader reports whether a process is stopped at a system call of its dynamic
// loader.
func callsFromLoader(pid int) (bool, error) {
	loader, err := loaderBase(pid)
	if err != nil || loader == 0 {
		return false, err
	}
	pc, err := callerPC(pid)
	if err != nil {
		return false, err
	}
	a, err := mappedFile(pid, loader)
	if err != nil {
		return false, err
	}
	b, err := mappedFile(pid, pc)
	return a == b, err
}

// loaderBase returns where the dynamic loader of a process is mapped, 0 if it
// has none.
func loaderBase(pid int) (uintptr, error) {
	aux, err := os.ReadFile(fmt.Sprintf("/proc/%d/auxv", pid))
	if err != nil {
		return 0, fmt.Errorf("read auxiliary vector: %w", err)
	}
	return auxBase(aux), nil
}

// auxBase returns the value of AT_BASE in an auxiliary vector, which is pairs of
// words (getauxval(3)).
func auxBase(aux []byte) uintptr {
	const atBase, word = 7, strconv.IntSize / 8
	for ; len(aux) >= 2*word; aux = aux[2*word:] {
		if nativeWord(aux) == atBase {
			return nativeWord(aux[word:])
		}
	}
	return 0
}

func nativeWord(b []byte) uintptr {
	if strconv.IntSize == 32 {
		return uintptr(binary.NativeEndian.Uint32(b))
	}
	return uintptr(binary.NativeEndian.Uint64(b))
}

// callerPC returns where a stopped process makes its system call: the last field
// of /proc/PID/syscall (proc_pid_syscall(5)).
func callerPC(pid int) (uintptr, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/syscall", pid))
	if err != nil {
		return 0, fmt.Errorf("read system call: %w", err)
	}
	fields := strings.Fields(string(text))
	if len(fields) == 0 {
		return 0, errors.New("read system call: empty")
	}
	pc, err := strconv.ParseUint(fields[len(fields)-1], 0, strconv.IntSize)
	if err != nil {
		return 0, fmt.Errorf("read system call: %w", err)
	}
	return uintptr(pc), nil
}

// mappedFile returns the file that is mapped at an address of a process.
func mappedFile(pid int, address uintptr) (string, error) {
	proc, err := procfs.NewProc(pid)
	if err != nil {
		return "", fmt.Errorf("read mappings: %w", err)
	}
	mappings, err := proc.ProcMaps()
	if err != nil {
		return "", fmt.Errorf("read mappings: %w", err)
	}
	for _, m := range mappings {
		if m.StartAddr <= address && address < m.EndAddr {
			return m.Pathname, nil
		}
	}
	return "", nil
}
