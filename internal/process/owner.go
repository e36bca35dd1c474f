package process

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/ccmapd/ccmapd/internal/privilege"
	"github.com/ccmapd/ccmapd/internal/refusal"
)

// Owner says which users may look into a process. Two processes with one Owner are as open to each user.
type Owner struct {
	UID, GID int // effective; -1: not known

	// Traceable reports whether the kernel lets a process of this user and group, without capabilities, trace the
	// process. Otherwise the process is root's alone.
	Traceable bool
}

// Compare orders owners.
func (o Owner) Compare(p Owner) int {
	untraceable := func(o Owner) int {
		if o.Traceable {
			return 0
		}
		return 1
	}
	return cmp.Or(cmp.Compare(o.UID, p.UID), cmp.Compare(o.GID, p.GID), cmp.Compare(untraceable(o), untraceable(p)))
}

// Unowned is the owner of a process that nobody but root may look into.
var Unowned = Owner{UID: -1, GID: -1}

// Identity is what a process keeps until it executes another program or takes other credentials.
type Identity struct {
	Owner   Owner
	Started uint64 // as [Facts] has it
	program string // addresses of code and stack, which an exec draws anew
}

// credentials are what the kernel compares before one process may trace another (__ptrace_may_access in
// kernel/ptrace.c and cap_ptrace_access_check in security/commoncap.c, Linux 6.12).
type credentials struct {
	uids, gids [3]int // real, effective, saved
	permitted  uint64 // capabilities
	dumpOwner  int    // of /proc/PID/fd: root where the process is not dumpable (task_dump_owner in fs/proc/base.c)
	users      string // user namespace; "": not known
}

// unknownCredentials are those of a process that cannot be looked at.
var unknownCredentials = credentials{uids: [3]int{-1, -1, -1}, gids: [3]int{-1, -1, -1}, permitted: ^uint64(0), dumpOwner: -1}

// owner returns who may look into a process with these credentials, as this process, of the user namespace here,
// may tell:
//
//	real, effective and saved user differ      setuid programs                                  not traceable
//	real, effective and saved group differ     setgid programs, dumpable again or not           not traceable
//	capabilities are permitted                 file and ambient capabilities                    not traceable
//	/proc/PID/fd is another user's             PR_SET_DUMPABLE 0, mode 0711, root that became   not traceable
//	                                           the user without an exec
//	another user namespace, or not known       containers of the user; stricter than the kernel not traceable
//	none of these                                                                               traceable
func (c credentials) owner(here string) Owner {
	uid, gid := c.uids[1], c.gids[1]
	return Owner{UID: uid, GID: gid, Traceable: uid >= 0 && gid >= 0 &&
		c.uids == [3]int{uid, uid, uid} && c.gids == [3]int{gid, gid, gid} &&
		c.permitted == 0 && c.dumpOwner == uid && c.users != "" && c.users == here}
}

// dumpable reports whether the process lets others of its user read its memory.
func (c credentials) dumpable() bool { return c.dumpOwner == c.uids[1] }

// IdentityOf looks at a process. The error of one that has ended, or is in the middle of an exec, wraps
// [refusal.ErrNoProcess].
func IdentityOf(pid int) (Identity, error) {
	l, c, err := credentialsOf(pid)
	switch {
	case Gone(err), err == nil && (l.stat.Zombie() || !l.stat.Loaded()):
		err = refusal.ErrNoProcess
	case err == nil:
		return Identity{c.owner(here().users), l.stat.Started, l.stat.Addresses}, nil
	}
	return Identity{}, fmt.Errorf("identify process %d: %w", pid, err)
}

// SameProgram reports whether a process has executed no other program since, whoever its owner is.
func (i Identity) SameProgram(now Identity) bool {
	return i.Started == now.Started && i.program == now.program
}

// credentialsOf reads the credentials of a process. An exec or another process of the same number between two
// reads must not mix two programs: the files are those of one directory, and must say the same before and after.
func credentialsOf(pid int) (look, credentials, error) {
	defer privilege.Raise().Lower()
	dir, err := openDir(pid)
	if err != nil {
		return look{}, unknownCredentials, fmt.Errorf("read credentials: %w", err)
	}
	defer unix.Close(dir)
	const tries = 3
	var before look
	for range tries {
		if before, err = lookIn(dir); err != nil {
			return look{}, unknownCredentials, err
		}
		c, err := before.complete(dir)
		if err != nil {
			return look{}, unknownCredentials, err
		}
		if after, err := lookIn(dir); err == nil && after.same(before) {
			return before, c, nil
		}
	}
	return before, unknownCredentials, nil // it executes one program after another
}

// openDir pins /proc/PID: after the end of the process nothing can be read there, whichever process has got its number.
func openDir(pid int) (int, error) {
	return unix.Open(fmt.Sprintf("/proc/%d", pid), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
}

// look is a look at a process.
type look struct {
	stat Stat
	ids  credentials // without dumpOwner and users
}

func (l look) same(o look) bool {
	return l.stat.Started == o.stat.Started && l.stat.Addresses == o.stat.Addresses && l.ids == o.ids
}

func lookIn(dir int) (look, error) {
	text, err := readFileAt(dir, "stat")
	if err != nil {
		return look{}, fmt.Errorf("read process state: %w", err)
	}
	stat, err := parseStat(string(text))
	if err != nil {
		return look{}, err
	}
	ids, err := idsIn(dir)
	return look{stat, ids}, err
}

// complete adds the owner of the descriptors, after the identities: a process that gives up an identity is not dumpable
// afterwards (commit_creds in kernel/cred.c).
func (l look) complete(dir int) (credentials, error) {
	c := l.ids
	var st unix.Stat_t
	if err := unix.Fstatat(dir, "fd", &st, 0); err != nil {
		return c, fmt.Errorf("read owner of descriptors: %w", err)
	}
	c.dumpOwner = int(st.Uid)
	c.users = namespaceIn(dir, "user")
	return c, nil
}

func idsIn(dir int) (credentials, error) {
	text, err := readFileAt(dir, "status")
	if err != nil {
		return unknownCredentials, fmt.Errorf("read credentials: %w", err)
	}
	return parseIDs(string(text))
}

// parseIDs reads the lines Uid, Gid and CapPrm of /proc/PID/status (proc_pid_status(5)).
func parseIDs(status string) (credentials, error) {
	c := unknownCredentials
	found := 0
	for line := range strings.Lines(status) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ":")
		var err error
		switch name {
		case "Uid":
			c.uids, err = parseThree(value)
		case "Gid":
			c.gids, err = parseThree(value)
		case "CapPrm":
			c.permitted, err = strconv.ParseUint(strings.TrimSpace(value), 16, 64)
		default:
			continue
		}
		if err != nil {
			return unknownCredentials, fmt.Errorf("read credentials: %w", err)
		}
		found++
	}
	if found != 3 {
		return unknownCredentials, errors.New("read credentials: lines of /proc/PID/status are missing")
	}
	return c, nil
}

// parseThree reads the real, effective and saved identity.
func parseThree(text string) (ids [3]int, err error) {
	fields := strings.Fields(text)
	if len(fields) < len(ids) {
		return ids, fmt.Errorf("%d identities", len(fields))
	}
	for i := range ids {
		id, err := strconv.ParseUint(fields[i], 10, 32)
		if err != nil {
			return ids, err
		}
		ids[i] = int(id)
	}
	return ids, nil
}

// namespaceIn names a namespace of the process of a directory; "" where the kernel does not tell this process.
func namespaceIn(dir int, kind string) string {
	buf := make([]byte, 64)
	n, err := unix.Readlinkat(dir, "ns/"+kind, buf)
	if err != nil || n == len(buf) {
		return ""
	}
	return string(buf[:n])
}
