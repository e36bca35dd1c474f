package process

import (
	"fmt"
	"os"
	"os/user"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ccmapd/ccmapd/internal/privilege"
	"github.com/ccmapd/ccmapd/internal/refusal"
)

// Facts tell processes apart, for users. All texts are foreign.
type Facts struct {
	PID     int
	Started uint64 // since boot, in ticks of 10 ms: with PID it names one process for ever
	Parent  int
	UID     int // effective; -1: not known

	Owner    Owner // who may look into it
	Dumpable bool  // it lets others of its user read its memory (PR_SET_DUMPABLE of prctl(2))

	Name        string   // as ps shows it, at most 15 bytes
	Executable  string   // path; "" where not permitted
	CommandLine []string // may be changed by the process
	Cgroup      string   // path
	Unit        string   // of systemd; "" outside of units
	Kernel      bool     // it runs in the kernel only
	Ended       bool     // it waits for its parent
}

// FactsOf looks at a process.
func FactsOf(pid int) (Facts, error) {
	stat, err := ReadStat(pid)
	if err != nil {
		return Facts{}, err
	}
	f := Facts{
		PID: pid, Started: stat.Started, Parent: stat.Parent, Name: stat.Name, UID: -1, Owner: Unowned,
		Kernel: stat.KernelThread(), Ended: stat.Zombie(),
	}
	if _, c, err := credentialsOf(pid); err == nil {
		f.UID, f.Owner, f.Dumpable = c.uids[1], c.owner(here().users), c.dumpable()
	}
	if text, err := readProc(pid, "cgroup"); err == nil {
		f.Cgroup = cgroupOf(string(text))
		f.Unit = unitOf(f.Cgroup)
	}
	described := Describe(pid)
	f.Executable, f.CommandLine = strings.TrimSuffix(described.Executable, " (deleted)"), described.CommandLine
	return f, nil
}

// PIDs lists all processes, in the order of their numbers.
func PIDs() ([]int, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	var pids []int
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	return pids, nil
}

// Begin returns when the process was started, on the wall clock.
func (f Facts) Begin() (time.Time, error) {
	var sinceBoot unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &sinceBoot); err != nil {
		return time.Time{}, fmt.Errorf("read clock: %w", err)
	}
	started := time.Duration(f.Started) * statTick
	return time.Now().Add(started - time.Duration(sinceBoot.Nano())), nil
}

// cgroupOf reads /proc/PID/cgroup: the path of the unified hierarchy, or systemd's own.
func cgroupOf(text string) string {
	found := ""
	for line := range strings.Lines(text) {
		id, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ":")
		controllers, path, ok := strings.Cut(rest, ":")
		switch {
		case !ok:
		case controllers == "name=systemd":
			return path
		case id == "0" && controllers == "":
			found = path
		}
	}
	return found
}

// unitOf returns the innermost unit of systemd on the path of a cgroup.
func unitOf(cgroup string) string {
	for ; len(cgroup) > 1; cgroup = path.Dir(cgroup) {
		switch name := path.Base(cgroup); path.Ext(name) {
		case ".service", ".scope", ".socket", ".mount", ".swap":
			return name
		}
	}
	return ""
}

// Pinned is a process that was found by its facts. A number of a process that has ended
// may become another one's; a Pinned tells.
type Pinned struct {
	Facts
	pidfd int
}

// Find returns the processes whose facts are accepted, in the order of their numbers. Each
// must be closed. Kernel threads, processes that have ended, and this one are never among them.
func Find(accept func(Facts) bool) ([]*Pinned, error) {
	pids, err := PIDs()
	if err != nil {
		return nil, err
	}
	var found []*Pinned
	for _, pid := range pids {
		if pid == os.Getpid() {
			continue
		}
		if f, err := FactsOf(pid); err != nil || f.Kernel || f.Ended || !accept(f) {
			continue
		}
		p, err := Pin(pid)
		if err != nil {
			continue // it has ended
		}
		if !accept(p.Facts) {
			p.Close()
			continue
		}
		found = append(found, p)
	}
	return found, nil
}

// Pin looks at a process and holds on to it. It fails as [Open] does.
func Pin(pid int) (*Pinned, error) {
	fd, err := Open(pid)
	if err != nil {
		return nil, err
	}
	f, err := FactsOf(pid)
	if err == nil && Ended(fd) {
		err = refusal.ErrNoProcess // the facts may be another process's
	}
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	return &Pinned{f, fd}, nil
}

// Gone reports whether the process has ended, so that its number may be another one's.
func (p *Pinned) Gone() bool { return Ended(p.pidfd) }

// Close releases the process.
func (p *Pinned) Close() { unix.Close(p.pidfd) }

// User returns the name of the process's user, or the number of a user without a name.
func (f Facts) User() string {
	if f.UID < 0 {
		return ""
	}
	number := strconv.Itoa(f.UID)
	if u, err := user.LookupId(number); err == nil {
		return u.Username
	}
	return number
}

// FileID identifies the contents of an executable: a file that was replaced or written to has
// another one.
type FileID struct {
	Device, Inode uint64
	Modified      int64 // ns
	Size          int64
}

// FileOf identifies the executable of a process. It waits for the executable's file system.
func FileOf(pid int) (FileID, error) {
	defer privilege.Raise().Lower()
	var st unix.Stat_t
	if err := unix.Stat(fmt.Sprintf("/proc/%d/exe", pid), &st); err != nil {
		if Gone(err) {
			return FileID{}, refusal.ErrNoProcess
		}
		return FileID{}, OtherUser(err)
	}
	return FileID{uint64(st.Dev), st.Ino, st.Mtim.Nano(), st.Size}, nil
}
