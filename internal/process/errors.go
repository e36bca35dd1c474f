package process

import (
	"errors"
	"fmt"
	"os"

	"github.com/ccmapd/ccmapd/sampler"
	"golang.org/x/sys/unix"
)

// Advice names the ways to get permission, for the message of an error.
const (
	adviceParanoid = "run as the target's user with sysctl kernel.perf_event_paranoid=2 or less, or give ccmapd CAP_PERFMON (setcap cap_perfmon,cap_sys_ptrace+p, docker run --cap-add=PERFMON --cap-add=SYS_PTRACE)"
	adviceSeccomp  = "a seccomp filter forbids perf_event_open; in a container use docker run --cap-add=PERFMON --cap-add=SYS_PTRACE, or a profile that allows it"
	adviceUser     = "run ccmapd as the target's user, or give it CAP_PERFMON and CAP_SYS_PTRACE"
)

// OtherUser explains that the target belongs to somebody else, or has made
// itself undumpable.
func OtherUser(err error) error {
	return fmt.Errorf("it belongs to another user or forbids tracing: %w (%s): %w", sampler.ErrPermission, adviceUser, err)
}

// Explain turns a refusal of the first perf_event_open into an error that helps: it
// tells the user what to do.
func Explain(pid int, err error) error {
	switch {
	case errors.Is(err, unix.ESRCH):
		return As(err, sampler.ErrNoProcess)
	case errors.Is(err, unix.EACCES) && !sameUser(pid):
		return OtherUser(err)
	case errors.Is(err, unix.EACCES):
		return fmt.Errorf("%w: %s: %w", sampler.ErrPermission, adviceParanoid, err)
	case errors.Is(err, unix.EPERM):
		return fmt.Errorf("%w: %s: %w", sampler.ErrPermission, adviceSeccomp, err)
	case errors.Is(err, unix.ENOSYS), errors.Is(err, unix.ENOENT), errors.Is(err, unix.EOPNOTSUPP):
		return fmt.Errorf("%w: this kernel has no perf events (CONFIG_PERF_EVENTS): %w", sampler.ErrUnsupported, err)
	case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE):
		return fmt.Errorf("%w; raise the limit of open files (ulimit -n)", err)
	}
	return err
}

// sameUser says whether the process belongs to the user of this one.
func sameUser(pid int) bool {
	var st unix.Stat_t
	return unix.Stat(fmt.Sprintf("/proc/%d", pid), &st) == nil && int(st.Uid) == os.Geteuid()
}

// As returns an error that reads as err does, and that errors.Is takes for kind, too:
// the errors of package sampler say less than err.
func As(err, kind error) error { return classified{err, kind} }

type classified struct{ err, kind error }

func (c classified) Error() string   { return c.err.Error() }
func (c classified) Unwrap() []error { return []error{c.err, c.kind} }
