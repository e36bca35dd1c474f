package process

import (
	"bufio"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/ccmapd/ccmapd/internal/privilege"
	"github.com/ccmapd/ccmapd/internal/refusal"
)

// maxMapLines bounds the lines of a memory map that are read, and maxLibraries the files that
// are kept of it.
const (
	maxMapLines  = 1 << 17
	maxLibraries = 1 << 12
)

// Libraries returns the paths of the files whose code a process has mapped, as the process sees
// them, the executable included. A file that is gone from its path has " (deleted)" behind it.
func Libraries(pid int) ([]string, error) {
	f, err := OpenMaps(pid)
	if err != nil {
		return nil, explainMaps(err)
	}
	defer f.Close()
	libraries, err := parseLibraries(f)
	if err != nil {
		return nil, explainMaps(err)
	}
	return libraries, nil
}

// OpenMaps opens the memory map of a process (proc_pid_maps(5)).
func OpenMaps(pid int) (*os.File, error) {
	defer privilege.Raise().Lower()
	return os.Open(fmt.Sprintf("/proc/%d/maps", pid))
}

func explainMaps(err error) error {
	switch {
	case os.IsPermission(err):
		return OtherUser(err)
	case Gone(err):
		return As(fmt.Errorf("read memory map: %w", err), refusal.ErrNoProcess)
	}
	return fmt.Errorf("read memory map: %w", err)
}

// parseLibraries reads lines "start-end perms offset dev inode path" (proc_pid_maps(5)). The map
// of a process that has exited is empty.
func parseLibraries(r io.Reader) ([]string, error) {
	var libraries []string
	seen := make(map[string]bool)
	lines, n := bufio.NewScanner(r), 0
	for ; n < maxMapLines && len(libraries) < maxLibraries && lines.Scan(); n++ {
		fields := strings.SplitN(lines.Text(), " ", 6)
		if len(fields) < 6 || len(fields[1]) < 3 || fields[1][2] != 'x' {
			continue
		}
		path := strings.TrimLeft(fields[5], " ")
		if strings.HasPrefix(path, "/") && !seen[path] {
			path = strings.Clone(path)
			seen[path] = true
			libraries = append(libraries, path)
		}
	}
	if n == 0 && lines.Err() == nil {
		return nil, fs.ErrNotExist
	}
	return libraries, lines.Err()
}
