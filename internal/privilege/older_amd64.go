package privilege

import "golang.org/x/sys/unix"

// older are refused calls that exist only on amd64. Other architectures have only their
// successors.
var older = []uint32{unix.SYS_CHMOD, unix.SYS_CHOWN, unix.SYS_LCHOWN, unix.SYS_UTIME, unix.SYS_UTIMES, unix.SYS_FUTIMESAT}
