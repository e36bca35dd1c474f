package privilege

import "golang.org/x/sys/unix"

// older are refused calls that only amd64 has, where others replaced them early.
var older = []uint32{unix.SYS_CHMOD, unix.SYS_CHOWN, unix.SYS_LCHOWN, unix.SYS_UTIME, unix.SYS_UTIMES, unix.SYS_FUTIMESAT}
