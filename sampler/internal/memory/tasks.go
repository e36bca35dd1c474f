package memory

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/ccmapd/ccmapd/internal/hang"
	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/sampler/internal/goproc"
	"github.com/ccmapd/ccmapd/sampler/internal/hotspot"
	"github.com/ccmapd/ccmapd/sampler/internal/runtimes"
)

// tasks are the goroutines of a Go program, or the Java threads of a JVM. Each has a place, which stays.
type tasks interface {
	// Refresh takes up new ones. Then Len has how many places there are, and how many more there would be without a bound.
	Refresh() error
	Len() (places int, all uint64)

	// Census visits all that are not dead, until visit returns false.
	Census(visit func(place int, t *process.Task) bool)

	// Look visits the tasks at some places with their stacks, in that order.
	Look(places []int32, visit func(place int32, l *process.TaskLook))

	// Reuses reports whether a new task takes the place of one that has ended lately, where there is one.
	Reuses() bool

	Own(t *process.Task) bool      // it is the runtime's own
	Reason(t *process.Task) string // why it waits; "": not known

	// Outset returns the outermost frames of one that may run, and whether they answer a request: the entries of functions
	// that do are answers.
	Outset(t *process.Task, answers map[uint64]bool, st *process.Stack) (answering bool)
}

// virtualUnknown says why virtual threads without a carrier are not among the tasks, or not all of them.
func virtualUnknown(all tasks) error {
	if of, ok := all.(interface{ VirtualUnknown() error }); ok {
		return of.VirtualUnknown()
	}
	return nil
}

// ErrNoTasks: the target has neither goroutines nor threads of Java, so this engine is not for it.
var ErrNoTasks = errors.New("it is neither a Go program nor a JVM, and of no other are goroutines or threads known")

// openRuntime opens the runtime of a process whose tasks are to be read.
func openRuntime(ctx context.Context, o sampler.ProcessOptions, w *hang.Watch) (process.Runtime, error) {
	r, err := runtimes.Open(ctx, o, w)
	if errors.Is(err, sampler.ErrNotManaged) {
		return nil, process.As(ErrNoTasks, sampler.ErrUnsupported)
	}
	return r, err
}

// whatOf names the tasks of a runtime.
func whatOf(r process.Runtime) string {
	if _, isJVM := r.(*hotspot.Process); isJVM {
		return "threads of Java"
	}
	return "goroutines"
}

// tasksOf finds the tasks of a process. Until its program has begun, the error is [goproc.ErrNotYet].
func tasksOf(ctx context.Context, r process.Runtime, memory process.Live) (found tasks, err error) {
	switch r := r.(type) {
	case *goproc.Process:
		r.Load(ctx)
		found, err = r.Goroutines(ctx, memory)
	case *hotspot.Process:
		found, err = r.JavaThreads()
	default:
		return nil, fmt.Errorf("find what waits: %w", ErrNoTasks)
	}
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) {
		return nil, process.As(err, sampler.ErrPermission)
	}
	return found, err
}

// trail is what is known of a task at the last look at it, and tells whether it is in the same wait.
type trail struct {
	id     uint64
	sp     uint64
	lock   uint64
	state  process.TaskState
	reason uint8
	seq    uint8
	wary   uint8 // ticks for which an equal number proves nothing, as the task waits too often
}

// A number that has risen by more than quickStep between two ticks may have gone once around by the next.
const (
	quickStep = 64
	waryTicks = 4
	// lockSteps is how often a thread of a JVM may go on between two ticks while it waits for one monitor: it looks
	// again and again whether it has missed its turn (ObjectMonitor::EnterI, JDK 17 to 25).
	lockSteps = 4
)

func trailOf(t *process.Task) trail {
	return trail{id: t.ID, sp: t.SP, lock: t.Lock, state: t.State, reason: t.Reason, seq: t.Seq}
}

// continues reports whether a task is still in the wait that the trail has.
func (r *trail) continues(t *process.Task) bool {
	rose := t.Seq - r.seq
	switch {
	case r.id != t.ID:
		r.wary = 0
		return false
	case rose > quickStep:
		r.wary = waryTicks
	case r.wary > 0:
		r.wary--
	}
	if r.state != t.State || r.reason != t.Reason || t.State < process.InSyscall || !t.Proof || r.wary > 0 {
		return false
	}
	if rose != 0 && rose <= lockSteps && t.Lock != 0 && t.Lock == r.lock && t.SP == r.sp {
		r.seq, rose = t.Seq, 0
	}
	return rose == 0
}
