package daemon

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/internal/supervise"
)

// host is the machine; tests have their own. Its methods may be called by any goroutine.
type host interface {
	supervise.Host
	// list returns all processes: their numbers, each with an identity that changes when
	// the number becomes another process's.
	list() (map[int]uint64, error)
	facts(pid int) (process.Facts, error)
	identity(pid int) (process.Identity, error)
	clock(pid int) (time.Duration, error)                                // CPU time of the process
	dial(ctx context.Context, network, address string) (net.Conn, error) // to an endpoint
}

// machine is the host that the daemon runs on.
type machine struct{ supervise.Machine }

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

func (machine) identity(pid int) (process.Identity, error) { return process.IdentityOf(pid) }

func (machine) clock(pid int) (time.Duration, error) {
	t, err := process.ReadCPUTimes(pid)
	return t.All, err
}

func (machine) dial(ctx context.Context, network, address string) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, network, address)
}

// discovery looks for processes, and remembers which were looked at. The goroutine of Run owns it, but for again.
type discovery struct {
	host host
	gate *supervise.Gate
	log  *slog.Logger
	seen map[int]sighting

	mu    sync.Mutex
	again []int         // processes to look at again; allProcesses: all
	asked map[int]bool  // processes whose executable is looked at; true: Run waits for the answer no more
	woken chan struct{} // capacity 1: something has changed
}

func newDiscovery(h host, g *supervise.Gate, log *slog.Logger) *discovery {
	return &discovery{host: h, gate: g, log: log, seen: make(map[int]sighting), asked: make(map[int]bool), woken: make(chan struct{}, 1)}
}

// allProcesses, to be looked at again.
const allProcesses = -1

// lookAgain makes the next scan look at a process as if it were new, and makes that scan come soon. Any goroutine may
// call it.
func (v *discovery) lookAgain(pid int) {
	v.mu.Lock()
	v.again = append(v.again, pid)
	v.mu.Unlock()
	select {
	case v.woken <- struct{}{}:
	default:
	}
}

// forgetDue forgets the processes that are to be looked at again.
func (v *discovery) forgetDue() {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, pid := range v.again {
		if pid == allProcesses {
			clear(v.seen)
		}
		delete(v.seen, pid)
	}
	v.again = nil
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
	v.forgetDue()
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

// candidate is a process that a target would take, with its executable.
type candidate struct {
	process.Facts
	file process.FileID // zero: not known
}

// identifyWait is how long the file systems of executables have to answer.
const identifyWait = time.Second

// identify looks at the executables of processes, all at once: a file system may hang. A process whose executable does
// not answer is left out, costs a thread, and is looked at again when it does.
func (v *discovery) identify(all []process.Facts) (found []candidate) {
	answers := make(chan candidate, len(all))
	v.mu.Lock()
	for _, f := range all {
		v.asked[f.PID] = false
		go v.ask(f, answers)
	}
	v.mu.Unlock()
	timeout := time.NewTimer(identifyWait)
	defer timeout.Stop()
	for range all {
		select {
		case c := <-answers:
			found = append(found, c)
		case <-timeout.C:
			return append(found, v.giveUp(all, answers)...)
		}
	}
	return found
}

// ask looks at the executable of a process.
func (v *discovery) ask(f process.Facts, answers chan<- candidate) {
	file, _ := v.host.File(f.PID) // an error is the follower's to tell
	v.mu.Lock()
	late := v.asked[f.PID]
	delete(v.asked, f.PID)
	answers <- candidate{f, file} // has room for all
	v.mu.Unlock()
	if late {
		v.gate.Freed(f.PID)
		v.lookAgain(f.PID)
	}
}

// giveUp ends the wait for executables. It returns the last answers.
func (v *discovery) giveUp(all []process.Facts, answers <-chan candidate) (found []candidate) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, f := range all {
		if _, waits := v.asked[f.PID]; waits {
			v.asked[f.PID] = true
			v.gate.NoteHung(gated(f))
			v.log.Warn("the file system of an executable does not answer", "pid", f.PID)
		}
	}
	for len(answers) > 0 {
		found = append(found, <-answers)
	}
	return found
}

// isAsked reports whether the executable of a process is looked at, still.
func (v *discovery) isAsked(pid int) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	_, is := v.asked[pid]
	return is
}

// gated names a process for the gate.
func gated(f process.Facts) supervise.Process {
	return supervise.Process{PID: f.PID, Started: f.Started, Owner: f.UID}
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
	looked, _, err := newDiscovery(d.host, d.gate, d.log).scan(time.Now(), d.roster.follows)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(looked, func(a, b process.Facts) int {
		return cmp.Or(cmp.Compare(a.Started, b.Started), cmp.Compare(a.PID, b.PID))
	})
	taken := make(map[*target]int)
	var found []Candidate
	for _, t := range d.roster.all() {
		if t.hasNoProcess() {
			found = append(found, Candidate{Target: t.Name, URL: t.Match.URL, OfHost: t.Match.Host})
		}
	}
	for _, f := range looked {
		if t := d.roster.of(f); t != nil {
			taken[t]++
			found = append(found, Candidate{Target: t.Name, PID: f.PID, Executable: f.Executable, User: f.User(), LeftOut: taken[t] > t.Max})
		}
	}
	return found, nil
}
