package ccmap

// Repetition says whether the top activation of a sample is the one that was
// on top of the same thread at its last sample (the paper, section 3.3).
type Repetition uint8

const (
	TopUnknown  Repetition = iota // nobody could tell; never counted as a repetition
	TopNew                        // an activation that began since; not an older one that a call returned to
	TopRepeated                   // the same activation still on top
)

// FreshUnknown is the value of [Sample.Fresh] where the source has no marks.
const FreshUnknown = -1

// Sample is one stack, as a source took it.
//
// The owner of a Sample may reuse it and its Frames after the call that it was
// passed to returns; who keeps one copies it.
type Sample struct {
	// Frames, innermost first. Never empty. The last one is the outermost frame
	// of the thread or, where Depth is set, the already visited frame at which
	// the walk stopped, with its current offset.
	Frames []Frame

	// Thread identifies the managed thread among those alive: the address of
	// its descriptor (Go: of the g), or an id of the VM's. Samples of one Thread
	// arrive in the order of their Time.
	Thread    uint64
	Goroutine uint64 // the runtime's number of the thread; 0 where unknown
	OSThread  uint32 // tid; 0 where unknown

	Time   int64 // CLOCK_MONOTONIC, ns
	Weight int64 // that this sample stands for, in the map's [Unit], ≥ 0: ns of CPU time, if none is given

	Top Repetition

	// Early says that the sample came sooner after the thread's last one than
	// the interval, so that Top, though true, says nothing of how often samples
	// at that interval repeat.
	Early bool

	// Fresh is how many of the innermost Frames are activations that no earlier
	// sample has seen, 0 to len(Frames), or FreshUnknown.
	Fresh int32

	// Depth is 0 for a walk that went to the outermost frame. Otherwise it is
	// the depth of the last of Frames, the outermost frame of the thread having
	// depth 1: the rest of the path is the thread's at its previous sample. It
	// is needed because under recursion a method alone is ambiguous.
	Depth uint32

	// Truncated says that frames beyond the last one are lost.
	Truncated bool

	// Hit says that this is no sample of CPU time but a call that a breakpoint
	// caught: Frames[0] is the method it reached, as the call names it (a wrapper
	// included), Frames[1] the call site, and the others as many callers as are
	// known. Weight is 0 and Top unknown. It is not to be folded into a map.
	Hit bool
}
