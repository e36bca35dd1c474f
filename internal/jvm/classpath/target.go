package classpath

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ccmapd/ccmapd/internal/hang"
	"github.com/ccmapd/ccmapd/internal/jvm/javaname"
	"github.com/ccmapd/ccmapd/internal/privilege"
	"github.com/ccmapd/ccmapd/internal/process"
)

// BuildOf returns what tells the build of a JVM's program apart, in 16 hex digits: the JVM's own build, its main
// class or module, and its class path. Calls that may wait for the target's file systems are made by the watch.
func BuildOf(pid int, jvm string, w *hang.Watch) string {
	facts, _ := process.FactsOf(pid) // of one that has ended nothing is sampled
	t := newTarget(facts, w)
	main, entries := t.program(facts.CommandLine)
	h := sha256.New()
	fmt.Fprintf(h, "%s\n", jvm)
	if len(entries) == 0 || entries[0] != main { // an archive says what its main class is
		fmt.Fprintf(h, "%q\n", main)
	}
	if len(entries) > 0 {
		t.holdFirst(entries[0])
	}
	if sum(h, t, t.began(), entries) {
		fmt.Fprintf(h, "process %d %d\n", pid, facts.Started)
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// target is the process of a JVM.
type target struct {
	pid   int
	watch *hang.Watch
	own   bool   // it is of this user
	cwd   string // its working directory

	public map[[2]uint64]bool // folders, by device and inode: all users may search them, and those above

	first string // entry of the class path
	held  int    // the target's descriptor of it, if it is an archive that the target reads; -1: none
}

func newTarget(of process.Facts, w *hang.Watch) *target {
	t := &target{pid: of.PID, watch: w, own: of.UID == os.Geteuid(), held: -1, public: make(map[[2]uint64]bool)}
	defer privilege.Raise().Lower()
	t.cwd, _ = os.Readlink(t.proc("cwd")) // without it relative paths name nothing
	return t
}

func (t *target) proc(name string) string { return fmt.Sprintf("/proc/%d/%s", t.pid, name) }

// program returns the main class, archive or module, and the class path. Where the command line names none it is that
// of the environment, or else the working directory; a module is then in the runtime's own image, and a source file is
// its own class path (java(1)). Of other launchers, and of options in a file, nothing is known.
func (t *target) program(line []string) (main string, entries []string) {
	main, entries = javaname.Program(line)
	hasFile := slices.ContainsFunc(line, func(arg string) bool { return strings.HasPrefix(arg, "@") })
	switch {
	case len(entries) > 0 || main == "" || path.Base(line[0]) != "java" || hasFile:
		return main, entries
	case strings.HasSuffix(main, ".java"):
		return main, []string{main}
	case strings.Contains(main, "/"):
		exe, _ := process.Executable(t.pid) // "" names nothing
		return main, []string{path.Join(path.Dir(exe), "../lib/modules")}
	}
	return main, strings.Split(cmp.Or(t.environment("CLASSPATH"), "."), ":")
}

// environment returns a variable that the target began with, "" if it had none.
func (t *target) environment(name string) string {
	defer privilege.Raise().Lower()
	f, err := os.Open(t.proc("environ"))
	if err != nil {
		return ""
	}
	defer f.Close()
	const most = 1 << 20
	text, _ := io.ReadAll(io.LimitReader(f, most)) // what there is
	for variable := range strings.SplitSeq(string(text), "\x00") {
		if value, found := strings.CutPrefix(variable, name+"="); found {
			return value
		}
	}
	return ""
}

// began returns when the JVM began to run, which is later than when its process did: a script may have put the class
// path together before it became the JVM. The second thread is the one that the launcher starts for main. The kernel rounds
// its time down to a tick, in which the class path may have been written, too; the JVM opens it later.
func (t *target) began() time.Time {
	tids, _ := process.Threads(t.pid) // none: the process has ended
	first := uint64(0)
	for _, tid := range tids {
		stat, err := process.ReadStat(int(tid))
		if err == nil && int(tid) != t.pid && (first == 0 || stat.Started < first) {
			first = stat.Started
		}
	}
	begin, err := process.Facts{Started: first}.Begin()
	if err != nil || first == 0 {
		return time.Now()
	}
	return begin.Add(tick)
}

// tick is the unit of a thread's start in /proc (USER_HZ).
const tick = time.Second / 100

// mostDescriptors bounds the descriptors that are looked at. The first archive has a low number.
const mostDescriptors = 1 << 12

// holdFirst finds the target's own descriptor of the first entry. The JVM opens other entries when it needs them: what
// the build is must not depend on that.
func (t *target) holdFirst(entry string) {
	t.first = t.absolute(entry)
	_ = t.watch.Call(func() error { // without it the path counts
		defer privilege.Raise().Lower()
		dir, err := os.Open(t.proc("fd"))
		if err != nil {
			return err
		}
		defer dir.Close()
		names, err := dir.Readdirnames(mostDescriptors)
		for _, name := range names {
			to, _ := os.Readlink(t.proc("fd/" + name))
			if fd, err := strconv.Atoi(name); err == nil && strings.TrimSuffix(to, " (deleted)") == t.first && t.mayRead(name) {
				t.held = fd
				break
			}
		}
		return err
	})
}

// mayRead reports whether a descriptor was opened for reading.
func (t *target) mayRead(fd string) bool {
	text, err := os.ReadFile(t.proc("fdinfo/" + fd))
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(text)) {
		if octal, found := strings.CutPrefix(line, "flags:"); found {
			flags, err := strconv.ParseUint(strings.TrimSpace(octal), 8, 64)
			return err == nil && flags&unix.O_PATH == 0 && flags&unix.O_ACCMODE != unix.O_WRONLY
		}
	}
	return false
}

// absolute returns a path as the target's root has it.
func (t *target) absolute(name string) string {
	if !path.IsAbs(name) {
		name = t.cwd + "/" + name
	}
	return path.Clean(name)
}

// stat is part of files.
func (t *target) stat(name string) (f facts, err error) {
	var st unix.Stat_t
	err = t.within(name, lookAt, func(fd int) error { return unix.Fstat(fd, &st) })
	if err != nil {
		return facts{}, err
	}
	f = facts{size: st.Size, written: time.Unix(st.Mtim.Unix()), changed: time.Unix(st.Ctim.Unix())}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		f.kind = isFile
	case unix.S_IFDIR:
		f.kind = isFolder
	}
	if st.Nlink == 0 {
		f.changed = f.written // it was changed last as it lost its name
	}
	return f, nil
}

// open is part of files. To open a device may change it, so a file is looked at before, by a descriptor that cannot
// become another file meanwhile.
func (t *target) open(name string, k kind) (in file, err error) {
	err = t.within(name, toRead, func(fd int) error {
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil {
			return err
		}
		isKind := k == isFile && st.Mode&unix.S_IFMT == unix.S_IFREG || k == isFolder && st.Mode&unix.S_IFMT == unix.S_IFDIR
		switch {
		case !isKind:
			return errKind
		case !t.holds(name) && !t.own && st.Mode&0o004 == 0:
			return errPrivate
		}
		if t.holds(name) {
			defer privilege.Raise().Lower()
		}
		fd, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", fd), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		if err == nil {
			in = opened{os.NewFile(uintptr(fd), name), t.watch}
		}
		return err
	})
	return in, err
}

// aim is what a path is opened for.
type aim bool

const (
	lookAt aim = false
	toRead aim = true
)

func (t *target) holds(name string) bool { return t.held >= 0 && t.absolute(name) == t.first }

// within calls f with a descriptor of a file, by which it cannot be read. It closes the descriptor.
func (t *target) within(name string, a aim, f func(fd int) error) error {
	return t.watch.Call(func() error {
		fd, err := t.openAt(t.absolute(name), a)
		if err != nil {
			return &os.PathError{Op: "open", Path: name, Err: err}
		}
		defer unix.Close(fd)
		return f(fd)
	})
}

// openAt opens the file that the target holds, or else the one that a path means below the target's root. To look at a
// file takes no right; to read one, all users must have the right to all folders on the way.
func (t *target) openAt(name string, a aim) (int, error) {
	raised := privilege.Raise()
	if t.held >= 0 && name == t.first {
		defer raised.Lower()
		return unix.Open(t.proc("fd/"+strconv.Itoa(t.held)), unix.O_PATH|unix.O_CLOEXEC, 0)
	}
	root, err := unix.Open(t.proc("root"), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	raised.Lower()
	if err != nil {
		return -1, err
	}
	defer unix.Close(root)
	if a == lookAt || t.own {
		return openIn(root, name, unix.O_PATH)
	}
	return t.openPublic(root, name)
}

// openIn opens a path below a root. Links cannot lead out of it.
func openIn(root int, name string, flags int) (int, error) {
	return unix.Openat2(root, cmp.Or(strings.TrimPrefix(name, "/"), "."), &unix.OpenHow{
		Flags: uint64(flags) | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS,
	})
}

// mostLinks bounds the links that a path may end with, one after the other.
const mostLinks = 8

// openPublic opens a path below a root if all users can get to what it means.
func (t *target) openPublic(root int, name string) (int, error) {
	for range mostLinks {
		dir, err := openIn(root, path.Dir(name), unix.O_PATH|unix.O_DIRECTORY)
		if err != nil {
			return -1, err
		}
		defer unix.Close(dir)
		if !t.isPublic(root, dir) {
			return -1, errPrivate
		}
		to, err := readlinkAt(dir, path.Base(name))
		switch {
		case err != nil: // it is no link
			return unix.Openat(dir, path.Base(name), unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		case path.IsAbs(to):
			name = path.Clean(to)
		default:
			name = path.Join(path.Dir(name), to)
		}
	}
	return -1, unix.ELOOP
}

func readlinkAt(dir int, name string) (string, error) {
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(dir, name, buf)
	if err != nil {
		return "", err
	}
	return string(buf[:n]), nil
}

// isPublic reports whether all users may search a folder and all folders above it, up to a root.
func (t *target) isPublic(root, dir int) bool {
	var top, st unix.Stat_t
	if unix.Fstat(root, &top) != nil || unix.Fstat(dir, &st) != nil {
		return false
	}
	id := [2]uint64{uint64(st.Dev), st.Ino}
	if public, known := t.public[id]; known {
		return public
	}
	public := st.Mode&0o001 != 0
	if public && (st.Dev != top.Dev || st.Ino != top.Ino) {
		up, err := unix.Openat(dir, "..", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return false
		}
		defer unix.Close(up)
		var above unix.Stat_t
		public = unix.Fstat(up, &above) == nil && (above.Dev == st.Dev && above.Ino == st.Ino || t.isPublic(root, up))
	}
	t.public[id] = public
	return public
}

// opened is a file of the target, which may be on a file system of its own.
type opened struct {
	f     *os.File
	watch *hang.Watch
}

// step is how much is read at once, bytes: between two reads the watch sees that they return.
const step = 1 << 20

// ReadAt is part of [io.ReaderAt].
func (o opened) ReadAt(p []byte, at int64) (n int, err error) {
	for n < len(p) && err == nil {
		part, read := p[n:min(n+step, len(p))], 0
		err = o.watch.Call(func() (err error) {
			read, err = o.f.ReadAt(part, at+int64(n))
			return err
		})
		n += read
	}
	return n, err
}

// List is part of file.
func (o opened) List() (names []string, err error) {
	err = o.watch.Call(func() error {
		names, err = o.f.Readdirnames(maxFiles)
		return err
	})
	slices.Sort(names)
	return names, err
}

// Close is part of [io.Closer].
func (o opened) Close() error { return o.f.Close() }
