package daemon

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ccmapd/ccmapd/internal/process"
)

// host is the machine; tests have their own. Its methods may be called by any goroutine.
type host interface {
	// list returns all processes: their numbers, each with an identity that changes when
	// the number becomes another process's.
	list() (map[int]uint64, error)
	facts(pid int) (process.Facts, error)
	file(pid int) (process.FileID, error) // of the executable
	identity(pid int) (process.Identity, error)
	pin(pid int) (pinned, error)
	clock(pid int) (time.Duration, error)                                // CPU time of the process
	dial(ctx context.Context, network, address string) (net.Conn, error) // to an endpoint
}

// pinned is a process that is held on to: its number can become another one's meanwhile.
type pinned interface {
	Gone() bool
	Close()
}

// machine is the host that the daemon runs on.
type machine struct{}

// list reads the numbers and inodes of /proc. The kernel gives the directory of a process an
// inode number when it is first looked at, and a new one to the next process of that number
// (proc_pid_make_inode in fs/proc/base.c, Linux 6.18). A directory that was dropped from memory
// gets another one, too: then a process is looked at once more.
func (machine) list() (map[int]uint64, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	defer dir.Close()
	found := make(map[int]uint64)
	buf := make([]byte, 64<<10)
	for {
		n, err := unix.Getdents(int(dir.Fd()), buf)
		if err != nil {
			return nil, fmt.Errorf("list processes: %w", err)
		}
		if n == 0 {
			return found, nil
		}
		addEntries(found, buf[:n])
	}
}

// addEntries reads struct linux_dirent64 (getdents(2)): inode, offset, length of the entry, type,
// name.
func addEntries(found map[int]uint64, entries []byte) {
	const lengthAt, nameAt = 16, 19
	for len(entries) > nameAt {
		length := int(binary.NativeEndian.Uint16(entries[lengthAt:]))
		if length <= nameAt || length > len(entries) {
			return
		}
		name, _, _ := strings.Cut(string(entries[nameAt:length]), "\x00")
		if pid, err := strconv.Atoi(name); err == nil {
			found[pid] = binary.NativeEndian.Uint64(entries)
		}
		entries = entries[length:]
	}
}

func (machine) facts(pid int) (process.Facts, error) { return process.FactsOf(pid) }

func (machine) file(pid int) (process.FileID, error) { return process.FileOf(pid) }

func (machine) identity(pid int) (process.Identity, error) { return process.IdentityOf(pid) }

func (machine) pin(pid int) (pinned, error) {
	p, err := process.Pin(pid)
	if err != nil {
		return nil, err
	}
	return p, nil
}

func (machine) clock(pid int) (time.Duration, error) {
	t, err := process.ReadCPUTimes(pid)
	return t.All, err
}

func (machine) dial(ctx context.Context, network, address string) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, network, address)
}

// discovery remembers which processes were looked at. The goroutine of Run owns it.
type discovery struct {
	host host
	seen map[int]sighting
}

// sighting is the last look at a process. Programs begin as another one, and replace
// themselves: a process is looked at again and again, ever more rarely.
type sighting struct {
	identity uint64
	next     time.Time     // look
	wait     time.Duration // between the last look and the next
}

const (
	firstLook = time.Second
	restLook  = 10 * time.Minute
)

// scan returns the facts of the processes that are new or due, and the processes that exist. It
// looks at no process that is followed: its session notices an exec.
func (v *discovery) scan(now time.Time, followed func(pid int) bool) (looked []process.Facts, exist map[int]uint64, err error) {
	exist, err = v.host.list()
	if err != nil {
		return nil, nil, err
	}
	for pid := range v.seen {
		if _, ok := exist[pid]; !ok {
			delete(v.seen, pid)
		}
	}
	for pid, identity := range exist {
		last, known := v.seen[pid]
		known = known && last.identity == identity
		if known && (now.Before(last.next) || followed(pid)) {
			continue
		}
		next := sighting{identity: identity, wait: firstLook}
		if known {
			next.wait = min(2*last.wait, restLook)
		}
		next.next = now.Add(next.wait)
		v.seen[pid] = next
		if f, err := v.host.facts(pid); err == nil && !f.Kernel && !f.Ended && pid != os.Getpid() {
			looked = append(looked, f)
		}
	}
	return looked, exist, nil
}

// forget makes the next scan look at a process as if it were new.
func (v *discovery) forget(pid int) { delete(v.seen, pid) }

// forgetAll makes the next scan look at all processes.
func (v *discovery) forgetAll() { clear(v.seen) }

// rememberStranger remembers an executable for a while, for a longer one each time.
func (d *Daemon) rememberStranger(file process.FileID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.strangers.Remember(file)
}

// forgetStranger forgets an executable whose process could be attached to after all.
func (d *Daemon) forgetStranger(file process.FileID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.strangers.Forget(file)
}

// Candidate is a process that a target would take, an endpoint, or the whole host.
type Candidate struct {
	Target     string
	URL        string // of an endpoint, which has no more
	OfHost     bool   // the whole host, which has no more
	PID        int
	Executable string // foreign, and not printable yet
	User       string
	LeftOut    bool // the target has max older processes
}

// Check looks for processes once, and returns the ones that targets would take, after all endpoints and the
// whole host.
// It samples nothing, and connects to nothing.
func (d *Daemon) Check() ([]Candidate, error) {
	looked, _, err := (&discovery{host: d.host, seen: make(map[int]sighting)}).scan(time.Now(), d.follows)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(looked, func(a, b process.Facts) int {
		return cmp.Or(cmp.Compare(a.Started, b.Started), cmp.Compare(a.PID, b.PID))
	})
	d.mu.Lock()
	defer d.mu.Unlock()
	taken := make(map[*target]int)
	var found []Candidate
	for _, t := range d.order {
		if t.hasNoProcess() {
			found = append(found, Candidate{Target: t.Name, URL: t.Match.URL, OfHost: t.Match.Host})
		}
	}
	for _, f := range looked {
		i := slices.IndexFunc(d.order, func(t *target) bool { return t.fits(f) })
		if i < 0 {
			continue
		}
		t := d.order[i]
		taken[t]++
		found = append(found, Candidate{Target: t.Name, PID: f.PID, Executable: f.Executable, User: f.User(), LeftOut: taken[t] > t.Max})
	}
	return found, nil
}
