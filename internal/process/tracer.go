package process

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/ccmapd/ccmapd/internal/privilege"
	"github.com/ccmapd/ccmapd/internal/refusal"
)

// Access is how far a process may look into another one.
type Access int

// The kinds of access, each with all of the one before.
const (
	NoAccess     Access = iota
	ReadAccess          // as perf_event_open (PTRACE_MODE_READ): where it runs, and no text in its memory
	AttachAccess        // as ptrace and process_vm_readv (PTRACE_MODE_ATTACH)
)

// Tracer is a process that asks this one to look into another process for it. The zero Tracer may look into none. No
// socket tells the capabilities of its peer, so a Tracer has none.
type Tracer struct {
	UID, GID int // effective

	// Free reports whether nothing but user and group is known to bound the process: it has the user and PID namespaces
	// of this one, no seccomp filter, and no profile of a security module. Landlock domains show nowhere.
	Free bool
}

// Scope is kernel.yama.ptrace_scope (Documentation/admin-guide/LSM/Yama.rst).
type Scope int

// The scopes.
const (
	ScopeClassic    Scope = iota // a user's processes may trace each other; also kernels without Yama
	ScopeRestricted              // only their own children
	ScopeAdmin                   // only with capabilities
	ScopeNone                    // none
)

// Access returns how far a tracer may look into a process of an owner. It allows nothing that the kernel refuses:
//
//	the process is not traceable ([Owner])            none
//	another user or group than the tracer's           none
//	the tracer is not free ([Tracer])                 none; stricter than the kernel
//	scope 2 and 3                                     none
//	scope 1                                           read; the tracer's own children: stricter than the kernel
//	scope 0, or no Yama                               attach
func (t Tracer) Access(to Owner, s Scope) Access {
	switch {
	case !to.Traceable, !t.Free, t.UID != to.UID, t.GID != to.GID:
		return NoAccess
	case s == ScopeClassic:
		return AttachAccess
	case s == ScopeRestricted:
		return ReadAccess
	}
	return NoAccess
}

// yamaScope has the scope, where the kernel has Yama.
const yamaScope = "/proc/sys/kernel/yama/ptrace_scope"

// ReadScope reads the scope that is in force now. One that cannot be read counts as ScopeNone.
func ReadScope() Scope {
	text, err := os.ReadFile(yamaScope)
	if errors.Is(err, os.ErrNotExist) {
		return ScopeClassic
	}
	scope, bad := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || bad != nil || scope < 0 {
		return ScopeNone
	}
	return Scope(scope)
}

// NoMemory explains that the kernel does not let this process read the memory of another. The process may be its
// user's own, where Yama has the last word.
func NoMemory(pid int, err error) error {
	owner, unknown := OwnerOf(pid)
	if unknown != nil || !owner.Traceable || owner.UID != os.Geteuid() {
		return OtherUser(err)
	}
	why := ScopeRefuses(ReadScope())
	if why == "" {
		return OtherUser(err)
	}
	return As(As(errors.New(why), err), refusal.ErrPermission)
}

// ScopeRefuses says why a scope refuses the memory of a user's own process, and what helps; "": it does not.
func ScopeRefuses(s Scope) string {
	const cannot, sysctl = "its memory may not be read, as kernel.yama.ptrace_scope is %d: ", "set that to 0 (sysctl -w kernel.yama.ptrace_scope=0), or use CAP_SYS_PTRACE"
	switch s {
	case ScopeClassic:
		return ""
	case ScopeRestricted:
		return fmt.Sprintf(cannot+"start the program by 'ccmapd run', "+sysctl, s)
	case ScopeNone:
		return fmt.Sprintf(cannot+"that stays until the machine starts again", s)
	}
	return fmt.Sprintf(cannot+sysctl, s)
}

// here has the namespaces of this process, which do not change: it is not one that enters others.
var here = sync.OnceValue(func() (own struct{ users, pids string }) {
	dir, err := openDir(os.Getpid())
	if err != nil {
		return own
	}
	defer unix.Close(dir)
	own.users, own.pids = namespaceIn(dir, "user"), namespaceIn(dir, "pid")
	return own
})

// OwnerOf returns who may look into a process now.
func OwnerOf(pid int) (Owner, error) {
	_, c, err := credentialsOf(pid)
	if err != nil {
		return Unowned, err
	}
	return c.owner(here().users), nil
}

// IsFree reports whether nothing but user and group is known to bound a process ([Tracer]). Reads that fail, or a
// process that lives no more, mean no.
func IsFree(pid int) bool {
	defer privilege.Raise().Lower()
	dir, err := openDir(pid)
	if err != nil {
		return false
	}
	defer unix.Close(dir)
	users, pids := namespaceIn(dir, "user"), namespaceIn(dir, "pid")
	if users == "" || users != here().users || pids == "" || pids != here().pids {
		return false
	}
	status, err := readFileAt(dir, "status")
	return err == nil && isUnfiltered(string(status)) && isUnprofiled(dir)
}

// isUnfiltered reports whether a process has no seccomp filter, by its /proc/PID/status. A filter may forbid the
// calls that trace.
func isUnfiltered(status string) bool {
	for line := range strings.Lines(status) {
		if mode, ok := strings.CutPrefix(line, "Seccomp:"); ok {
			return strings.TrimSpace(mode) == "0"
		}
	}
	return true // a kernel without seccomp (proc_pid_status(5))
}

// isUnprofiled reports whether no security module has a profile for a process. Where none gives profiles the
// kernel answers EINVAL, AppArmor calls a process without one unconfined. SELinux gives each process a domain,
// whose rights cannot be told.
func isUnprofiled(dir int) bool {
	label, err := readFileAt(dir, "attr/current")
	if err != nil {
		return errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT)
	}
	name := strings.TrimRight(string(label), "\x00\n")
	return name == "" || name == "unconfined"
}

// String names an access for people.
func (a Access) String() string {
	switch a {
	case NoAccess:
		return "none"
	case ReadAccess:
		return "read"
	case AttachAccess:
		return "attach"
	}
	return fmt.Sprintf("Access(%d)", int(a))
}
