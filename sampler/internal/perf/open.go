package perf

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/ccmapd/ccmapd/internal/perfevent"
	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/sampler/internal/taker"
	"golang.org/x/sys/unix"
)

// open makes everything that sampling needs. Close closes the parts that it has made
// when it fails.
func (s *Source) open(ctx context.Context, o Options) error {
	d := s.drainer
	var err error
	if hung := d.watch.Run(ctx, func() { err = s.openAll(ctx, d, o) }); hung != nil {
		return fmt.Errorf("load symbols: %w", hung)
	}
	return err
}

// openAll opens all parts.
func (s *Source) openAll(ctx context.Context, d *drainer, o Options) error {
	var err error
	if d.Taker, err = taker.Open(ctx, o, d.watch); err != nil {
		return err
	}
	if s.kernelReason, err = s.threads.negotiate(o.KernelNames != nil); err != nil {
		return err
	}
	d.sample.CountsLost = !s.threads.form.NoLost
	if d.Costs, err = perfevent.ThreadCosts(); err != nil {
		o.Logger.Info("costs of sampling are assumed", "reason", err)
	}
	if err := s.takeSeat(); err != nil {
		return explain(o.PID, err)
	}
	s.threads.form.Dump = max(s.threads.form.Dump, min(d.StackBytes(), s.threads.longestDump()))
	if err := s.threads.scanFirst(ctx); err != nil {
		return explain(o.PID, err)
	}
	return d.Begin(o, s.threads, s.threads.form.UserOnly) // from here on a record tells of an exec
}

// negotiate finds out what the kernel permits by opening an event on the
// target's first thread. It returns why time in the kernel is left out, or
// nothing where it is not. kernel says that the kernel's part of stacks is asked for.
func (t *threads) negotiate(kernel bool) (string, error) {
	t.form = perfevent.Form{Dump: perfevent.FirstDump, Kernel: kernel}
	reason := ""
	for {
		err := t.form.Try(t.pid, t.interval)
		switch {
		case err == nil:
			return reason, nil
		case errors.Is(err, unix.EACCES) && !t.form.UserOnly:
			t.form.UserOnly = true
			reason = "kernel.perf_event_paranoid forbids kernel samples to users without CAP_PERFMON"
		case errors.Is(err, unix.EINVAL) && !t.form.NoLost:
			t.form.NoLost = true
		default:
			return "", explain(t.pid, err)
		}
	}
}

// takeSeat makes the drainer get the records of the target. Where the rings are its own, it waits for
// records by itself, which saves a wake-up.
func (s *Source) takeSeat() error {
	d := s.drainer
	waiter, err := perfevent.NewWaiter(d.Pidfd)
	if err != nil {
		return err
	}
	d.seat.waiter, d.seat.countsLost = waiter, d.sample.CountsLost
	d.seat.bulk.Store(d.threads.bulk())
	if d.owned {
		d.rings.waiter, d.rings.stack = waiter, int(d.StackBytes())
	}
	if err := d.rings.join(&d.seat); err != nil {
		return err
	}
	return d.threads.follow(d.rings.ofCPUs())
}

// Ways to get permission, for the messages of errors.
const (
	adviceParanoid = "run as the target's user with sysctl kernel.perf_event_paranoid=2 or less, or give ccmapd CAP_PERFMON (setcap cap_perfmon,cap_sys_ptrace+p, docker run --cap-add=PERFMON --cap-add=SYS_PTRACE)"
	adviceLocked   = "raise it by sysctl kernel.perf_event_mlock_kb, ulimit -l or LimitMEMLOCK of the unit, or give ccmapd CAP_IPC_LOCK"
	adviceFiles    = "raise the limit of open files by ulimit -n or LimitNOFILE of the unit"
	adviceSeccomp  = "a seccomp filter forbids perf_event_open; in a container use docker run --cap-add=PERFMON --cap-add=SYS_PTRACE, or a profile that allows it"
)

// explain turns a refusal of the first events or of the rings into an error that names the remedy. A limit
// is a refusal, too: other engines need neither as many files nor rings.
func explain(pid int, err error) error {
	switch {
	case errors.Is(err, unix.ESRCH):
		return process.As(err, sampler.ErrNoProcess)
	case errors.Is(err, unix.EACCES) && !sameUser(pid):
		return process.OtherUser(err)
	case errors.Is(err, unix.EACCES):
		return fmt.Errorf("%w: %s: %w", sampler.ErrPermission, adviceParanoid, err)
	case errors.Is(err, perfevent.ErrLockedMemory):
		return fmt.Errorf("%w: %s: %w", sampler.ErrPermission, adviceLocked, err)
	case errors.Is(err, unix.EPERM):
		return fmt.Errorf("%w: %s: %w", sampler.ErrPermission, adviceSeccomp, err)
	case errors.Is(err, unix.ENOSYS), errors.Is(err, unix.ENOENT), errors.Is(err, unix.EOPNOTSUPP):
		return fmt.Errorf("%w: this kernel has no perf events (CONFIG_PERF_EVENTS): %w", sampler.ErrUnsupported, err)
	case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE):
		return fmt.Errorf("%w: %s: %w", sampler.ErrPermission, adviceFiles, err)
	}
	return err
}

// sameUser says whether the process belongs to the user of this one.
func sameUser(pid int) bool {
	var st unix.Stat_t
	return unix.Stat(fmt.Sprintf("/proc/%d", pid), &st) == nil && int(st.Uid) == os.Geteuid()
}
