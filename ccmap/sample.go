package ccmap

// NoOffset is an unknown position in a method. It is also the call site of an
// outermost frame, which has no caller.
const NoOffset uint32 = 1<<32 - 1

// Frame is one activation record of a stack: a method and a position in it.
type Frame struct {
	Method MethodID
	// Offset is the position in the method, in the method's Coordinate: lines as
	// two's complement (Go's //line directive can make them negative), bytes
	// unsigned. NoOffset where it is unknown. In a frame that is not innermost
	// it is the position of the call. [Names.Line] returns its line.
	Offset uint32
}

// Repetition says whether the top activation of a sample was already on top of
// the same thread at its last sample (the paper, section 3.3).
type Repetition uint8

const (
	TopUnknown  Repetition = iota // the source could not tell; never counted as a repetition
	TopNew                        // an activation that began since; not an older one that a call returned to
	TopRepeated                   // the same activation, still on top
)

// FreshUnknown is the value of [Sample.Fresh] where the source has no marks.
const FreshUnknown = -1

// Sample is one stack, as a source took it.
//
// The owner of a Sample may reuse it and its Frames as soon as the call that took
// it returns. Code that keeps a sample copies it.
type Sample struct {
	// Frames, innermost first. Never empty. The last one is the outermost frame
	// of the thread. If Depth is set, the last one is the frame where the walk
	// stopped: an earlier sample visited it, and it has its current offset. The labels
	// of the thread, a method of [LabelsMethod] with NoOffset, are a last frame beyond
	// the outermost one, also if the stack is Truncated.
	Frames []Frame

	// Thread identifies the managed thread among those alive: the address of
	// its descriptor (Go: of the g), or an id of the VM's. Samples of one Thread
	// arrive in the order of their Time.
	Thread    uint64
	Goroutine uint64 // the runtime's number of the thread; 0 where unknown
	OSThread  uint32 // tid; 0 where unknown

	Time   int64 // CLOCK_MONOTONIC, ns
	Weight int64 // that this sample stands for, in the map's [Unit], ≥ 0: ns of CPU time, if no unit is given

	Top Repetition

	// Early says that this sample followed the thread's last one after less than
	// the interval. Its Top is true, but says nothing about how often samples at
	// that interval repeat.
	Early bool

	// Fresh is how many of the innermost Frames are activations that no earlier
	// sample has seen, 0 to len(Frames), or FreshUnknown.
	Fresh int32

	// Depth is 0 if the walk reached the outermost frame. Otherwise it is the
	// depth of the last of Frames, where the outermost frame of the thread has
	// depth 1. The rest of the path is the same as in the thread's previous
	// sample. The method alone would be ambiguous under recursion. Labels count as
	// a frame.
	Depth uint32

	// Truncated says that frames beyond the last one are lost.
	Truncated bool

	// Hit says that this is a call that a breakpoint caught, not a sample of CPU
	// time. Frames[0] is the method that was reached, as the call names it (a
	// wrapper included), Frames[1] is the call site, and the others are as many
	// callers as are known. Weight is 0 and Top unknown. A map must not fold it.
	Hit bool
}
