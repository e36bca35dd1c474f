package attach

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// status is what /proc/PID/status says of a process.
type status struct {
	uid, gid int  // effective, in our namespace of users
	inner    int  // the pid in its own namespace
	quits    bool // it handles SIGQUIT
}

func readStatus(pid int) (status, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return status{}, explain("read status", err)
	}
	return parseStatus(string(text), pid), nil
}

// HandlesQuit reports whether a process handles SIGQUIT, as a JVM does once it has started.
// One with -Xrs never does.
func HandlesQuit(pid int) (bool, error) {
	s, err := readStatus(pid)
	return s.quits, err
}

// parseStatus picks the lines that matter. A kernel without namespaces of pids has no NSpid.
func parseStatus(text string, pid int) status {
	s := status{uid: -1, gid: -1, inner: pid}
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(line, ":")
		fields := strings.Fields(value)
		switch {
		case key == "Uid" && len(fields) == 4:
			s.uid = atoi(fields[1])
		case key == "Gid" && len(fields) == 4:
			s.gid = atoi(fields[1])
		case key == "NSpid" && len(fields) > 0:
			s.inner = atoi(fields[len(fields)-1])
		case key == "SigCgt" && len(fields) == 1:
			caught, err := strconv.ParseUint(fields[0], 16, 64)
			s.quits = err == nil && caught>>(unix.SIGQUIT-1)&1 == 1
		}
	}
	return s
}

func atoi(s string) int {
	v, err := strconv.Atoi(s)
	if err != nil {
		return -1
	}
	return v
}

const (
	library        = "libjvm.so"
	libraryOfJ9    = "libj9vm"
	tableSymbol    = "gHotSpotVMStructs" // which every HotSpot exports
	largestLibrary = 1 << 30             // bytes; libjvm.so of 25 has 24 MB
	longestMaps    = 64 << 20            // bytes of /proc/PID/maps
)

// checkJVM checks that the process has HotSpot mapped, a file that says so itself.
func checkJVM(pid, root int) error {
	maps, err := os.Open(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return explain("open memory map", err)
	}
	defer maps.Close()
	where, err := findLibrary(io.LimitReader(maps, longestMaps))
	if err != nil {
		return err
	}
	return checkLibrary(root, where)
}

// mapped is a file in a memory map.
type mapped struct {
	path   string
	device uint64
	inode  uint64
}

func findLibrary(maps io.Reader) (mapped, error) {
	lines := bufio.NewScanner(maps)
	for lines.Scan() {
		before, below, _ := strings.Cut(lines.Text(), "/") // the path is the last field, and may have spaces
		fields := strings.Fields(before)                   // addresses, rights, offset, device, inode
		if len(fields) < 5 {
			continue
		}
		name := below[strings.LastIndexByte(below, '/')+1:]
		switch {
		case strings.HasPrefix(name, libraryOfJ9):
			return mapped{}, fmt.Errorf("%w, but OpenJ9: it has another mechanism", ErrNotJVM)
		case name == library:
			return mapped{"/" + below, parseDevice(fields[3]), parseDecimal(fields[4])}, nil
		}
	}
	if err := lines.Err(); err != nil {
		return mapped{}, explain("read memory map", err)
	}
	return mapped{}, fmt.Errorf("%w: it has no %s", ErrNotJVM, library)
}

func parseDevice(s string) uint64 {
	major, minor, _ := strings.Cut(s, ":")
	a, err1 := strconv.ParseUint(major, 16, 32)
	b, err2 := strconv.ParseUint(minor, 16, 32)
	if err1 != nil || err2 != nil {
		return 0
	}
	return unix.Mkdev(uint32(a), uint32(b))
}

func parseDecimal(s string) uint64 {
	v, _ := strconv.ParseUint(s, 10, 64)
	return v
}

// checkLibrary looks for the symbol in the library, if it can be read safely. A library that
// was replaced on disk is taken as it is called: the JVM of before runs on.
func checkLibrary(root int, where mapped) error {
	fd, err := openInside(root, strings.TrimPrefix(where.path, "/"), unix.O_RDONLY|unix.O_NONBLOCK)
	if err != nil {
		return nil
	}
	file := os.NewFile(uintptr(fd), library)
	defer file.Close()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Ino != where.inode || st.Mode&unix.S_IFMT != unix.S_IFREG || st.Size > largestLibrary {
		return nil
	}
	if !contains(file, tableSymbol) {
		return fmt.Errorf("%w: its %s has no symbol %s", ErrNotJVM, library, tableSymbol)
	}
	return nil
}

// contains reports whether a text is in a file.
func contains(r io.Reader, text string) bool {
	buffer := make([]byte, 256<<10)
	kept := 0
	for {
		n, err := r.Read(buffer[kept:])
		if bytes.Contains(buffer[:kept+n], []byte(text)) {
			return true
		}
		if err != nil {
			return false
		}
		all := buffer[:kept+n]
		kept = copy(buffer, all[max(0, len(all)-len(text)+1):])
	}
}

// disabling are flags of a JVM that takes no commands. A SIGQUIT would make it print a thread
// dump.
const disabling = "-XX:+DisableAttachMechanism"

// checkEnabled looks for the flag where users give it.
func checkEnabled(pid int) error {
	for _, file := range []string{"cmdline", "environ"} {
		text, err := readSome(fmt.Sprintf("/proc/%d/%s", pid, file))
		if err != nil && !errors.Is(err, os.ErrPermission) {
			return explain("read "+file, err)
		}
		if strings.Contains(text, disabling) {
			return fmt.Errorf("%w: it runs with %s", ErrDisabled, disabling)
		}
	}
	return nil
}

// readSome reads at most a MiB.
func readSome(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, 1<<20))
	return string(text), err
}

// openInside opens a path below a directory. No symbolic link is followed, so that nothing
// leads out of the directory.
func openInside(dir int, path string, flags uint64) (int, error) {
	return unix.Openat2(dir, path, &unix.OpenHow{
		Flags:   flags | unix.O_CLOEXEC | unix.O_NOFOLLOW,
		Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	})
}
