package process

import (
	"context"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/hang"
)

// Moment is a thread of the target at the instant of a sample. Its slices are valid
// until the engine takes the next sample.
type Moment struct {
	TID     uint32
	CPU     uint32
	Time    uint64 // CLOCK_MONOTONIC, ns
	CPUTime uint64 // of the thread, ns; 0: not known
	Kernel  bool   // the thread was in the kernel
	Syscall string // that the kernel was in; empty: none, or not known

	// KernelChain are addresses of the kernel's functions, innermost first: the first is exact, the others are
	// return addresses. It is empty unless the engine was asked for it.
	KernelChain []uint64

	HasRegs bool // false for a thread that has left user mode for good
	Regs    Registers
	Chain   []uint64 // the kernel's walk along the frame pointers, from Regs.IP on; nil: not known
	Stack   []byte   // copied from Regs.SP upwards; shorter than asked for where memory ends
	Cut     bool     // the stack goes on beyond the bytes that were copied

	// Other is copied from another stack of the thread, from OtherBase upwards: the
	// goroutine's stack while C or the scheduler runs. Where it is missing, the runtime
	// reads memory later, and can find another moment there.
	Other     []byte
	OtherBase uint64

	// Outer is the outer end of the stack that Stack or Other is too short for. Where it is missing,
	// the runtime reads it later.
	Outer Piece

	Objects []Piece // more of the memory of that instant: descriptors of the runtime
}

// Piece is some of the target's memory.
type Piece struct {
	Addr  uint64
	Bytes []byte
}

// Descriptors says where the runtime's descriptors have the fields that lead from a
// thread's stack to its other stack, in bytes from the descriptor's beginning.
type Descriptors struct {
	Thread  uint16 // of a goroutine: its thread's descriptor
	SavedSP uint16 // of a goroutine: SP where the thread left its stack
	Own     uint16 // of a thread: the descriptor that stands for the thread's own stack
	Current uint16 // of a thread: the goroutine that it runs

	GoroutineBytes, ThreadBytes uint16 // of each that hold all fields that are read, up to MostDescriptor
	Callbacks                   bool   // C has called Go: a goroutine's callers are on the thread's stack, too
}

// MostDescriptor bounds the bytes of a descriptor that an engine takes with a moment.
const MostDescriptor = 384

// Callers returns the callers that the kernel has found, innermost first.
func (m *Moment) Callers() []uint64 {
	if len(m.Chain) == 0 {
		return nil
	}
	return m.Chain[1:]
}

// Stack holds the calls of one moment.
type Stack struct {
	// PCs are innermost first: PCs[0] is exact, the others are return addresses.
	PCs []uint64

	// Slot is the address of the return address of the innermost physical
	// function; 0 where unknown.
	Slot uint64

	Thread    uint64 // as in ccmap.Sample
	Goroutine uint64 // as in ccmap.Sample

	Labels *ccmap.Method // stands for the labels of the goroutine; nil: it has none

	Rooted   bool // the outermost function is one that nothing calls; if not, callers are missing
	Repaired bool // the kernel's walk had lost the first caller
	Foreign  bool // frames outside the runtime's language
	Recalled bool // callers come from an earlier sample
	WantDump bool // a longer copy of the stack would have held more

	Elided Elided // frames that were left out of a deep stack

	Found any // what the runtime that has unwound the stack needs for its frames, beside PCs; it reuses that
}

// Elided says which frames of a stack were left out: PCs has an address for them that is of no code. The zero
// value is a stack that has all.
type Elided struct {
	At     int    // the index of that address; 0: nothing was left out
	Frames uint64 // that it stands for, without inlined calls
	Least  bool   // it may stand for more: not all of the stack was read
}

// OSThread marks identities of OS threads, where no thread of the runtime is known.
// User addresses have the highest bit clear.
const OSThread = 1 << 63

// Runtime is a language's runtime in the target. All its methods belong to the engine's
// goroutine.
type Runtime interface {
	// Unwind finds the calls of a moment. It reuses st.PCs.
	Unwind(m *Moment, st *Stack)

	// Frames appends the frames that a stack shows, inlined calls included, innermost
	// first. The stack is one that this runtime has unwound.
	Frames(st *Stack, names *ccmap.Names, dst []ccmap.Frame) []ccmap.Frame

	// Entry returns the entry of the function at an address; the address itself where
	// no function is known.
	Entry(pc uint64) uint64

	Loader
}

// Chainer is a [Runtime] whose indirect calls can be caught.
type Chainer interface {
	// Chain describes a chain of return addresses on an OS thread that had a value in the
	// register for the goroutine. It reuses st.PCs.
	Chain(pcs []uint64, tid uint32, g uint64, st *Stack)

	// Method returns the method that begins at an address, wrappers included.
	Method(pc uint64, names *ccmap.Names) (ccmap.MethodID, bool)
}

// Deep is a [Runtime] that knows how much of a stack moments should hold at first, in bytes. It grows where stacks
// are deeper.
type Deep interface{ StackBytes() uint32 }

// Described is a [Runtime] that may know the layout of its descriptors. The layout may change.
type Described interface{ Descriptors() (Descriptors, bool) }

// Counter is a [Runtime] that keeps a profile of its own: it counts what calls reach, and
// which types, branches and cases come.
type Counter interface {
	// Count reads that profile again and again until ctx is done, and calls publish with
	// all points when they have changed. Nobody writes to the points any more. It runs in a
	// goroutine of its own, beside the engine's, and reads the target by the watch alone.
	// An error says why there is no profile.
	Count(ctx context.Context, w *hang.Watch, names *ccmap.Names, publish func([]ccmap.Point)) error
}

// Nameless is a [Runtime] that knows how the functions of a file get names that has no symbols.
type Nameless interface {
	// Remedy says so as a request: "install libc6-dbg". It is "" where nothing is known.
	Remedy(file string) string
}

// Lacking is a [Runtime] that knows why samples lack names or callers.
type Lacking interface {
	// Lacks returns comments of a profile on files of the target: see [ccmap.CommentNoFrames].
	Lacks() []string
}

// Bodied is a [Runtime] that can tell the bodies of methods: see [ccmap.Method].
type Bodied interface {
	// HashBodies tells those of the methods that were sampled since the last call, and reads
	// about so many bytes of code for it. A byte takes about 0.3 µs.
	HashBodies(bytes int)
}

// Dated is a [Runtime] that knows when the source of the program was committed.
type Dated interface {
	// Commit returns that time, zero where it is not known.
	Commit() time.Time
}

// Loader keeps the symbols of a runtime up to date. Before a program has run, it has no
// symbols, and every function is unknown.
type Loader interface {
	// Bound ends all loading when ctx is done.
	Bound(ctx context.Context)

	// Load tries to load the symbols of a program that had not run yet. It reports
	// whether it has loaded them just now. Call it before every moment.
	Load(ctx context.Context) bool

	// Refresh takes up code that was mapped after Load, unless it did so a moment ago.
	// It reports whether it has looked.
	Refresh(ctx context.Context, now time.Time) (looked bool, err error)

	// Renew gives look-ups their share of the time since the last call, to load for: files
	// that took too much are tried again. Call it about once a second.
	Renew(now time.Time)

	// Build returns the identifier of the program's build and the runtime's version;
	// empty before they are known.
	Build() (id, version string)

	// SameProgram returns an error if the target no longer runs the program of the
	// symbols.
	SameProgram() error

	// Bytes returns about how much memory the symbols and caches take: own is this target's alone, and common is
	// shared with all other targets that run the same build.
	Bytes() (own, common int64)

	Close()
}
