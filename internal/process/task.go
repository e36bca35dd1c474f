package process

// TaskState is what a [Task] does.
type TaskState uint8

// The states.
const (
	Dead      TaskState = iota // it has ended, or has not begun
	Running                    // a goroutine on a thread; a thread in Java or in the JVM's own code
	Runnable                   // a goroutine that waits for a thread
	InSyscall                  // in a system call, or in C
	Waiting                    // for anything else
)

// Task is a goroutine of a Go program, or a thread of a JVM, at an instant.
type Task struct {
	ID     uint64 // of the goroutine or, as the kernel has it, of the thread
	State  TaskState
	Reason uint8  // of Waiting: the runtime's number of the reason
	Seq    uint8  // it rises, modulo 256, whenever the task goes on: equal values show the same wait
	Proof  bool   // Seq counts all that could have ended this wait
	SP, PC uint64 // where it goes on; not known of Running
	Start  uint64 // entry of a goroutine's first function; 0: not known
	Since  int64  // it has waited at least since then: CLOCK_MONOTONIC, ns; 0: not known
	Lo, Hi uint64 // bounds of a goroutine's stack; 0: not known
	Lock   uint64 // address of the monitor that it waits to enter; 0: none is known
}

// TaskLook is what a look at a task has found: its state and stack, as they were at one instant.
type TaskLook struct {
	Task
	Read  bool   // there is a task that waits, runnable ones included
	Moved bool   // it has gone on while it was read: Stack has nothing
	Why   string // the reason of its wait, where the stack says more than [Task.Reason]; "": it does not
	Stack *Stack // valid until the next look
}
