package unwind

// Chunk is a copy of a piece of a virtual thread's stack, which the JVM keeps in an object while the thread has no
// carrier (StackChunk; stackChunkOop.hpp of JDK 24 and 25). Its frames are those of a stack, but for these:
//
//   - Each frame's address and link are below its stack pointer, at -8 and -16, as if it had called.
//   - Addresses within frames of the interpreter are in words from the frame pointer, and the link to it is in words
//     from the link's own place (continuationFreezeThaw_x86.inline.hpp, stackChunkFrameStream_x86.inline.hpp).
//   - The outermost frame of a piece has no return address that means anything: its place tells that it is the last.
type Chunk struct {
	Bytes   []byte
	Base    uint64 // address of the bytes
	SP, End uint64 // of its innermost frame, and where its frames end
}

// ChunkLinks is how many bytes below its stack pointer the innermost frame of a chunk has its address and link.
const ChunkLinks = 16

// Stubs of the JVM that a virtual thread may have given its carrier up in have a small frame.
const mostStub = 4 << 10 // bytes

// Chunk appends the frames of a chunk, innermost first. It reports whether they fill it.
func (a *AtRest) Chunk(c *Chunk, st *Stack) bool {
	a.stack, a.cut = view{c.Base, c.Bytes}, false
	st.Why = LostFrame
	f := chunkFrame{sp: c.SP, bare: c.SP}
	for n := range maxFrames {
		switch {
		case f.sp >= c.End:
			st.Why = Complete
			return true
		case !a.work(1):
			st.Why = TooMuch
			return false
		}
		pc, _ := a.stack.word(f.sp - 8)
		b, returns := a.cache.returns(pc)
		if b == nil {
			return false
		}
		next, ok := f, false
		switch {
		case b.kind == interpreterBlob:
			next, ok = a.interpretedIn(c, f, pc, st)
		case b.kind == methodBlob && (returns || f.afterStub), b.kind == nativeBlob && returns:
			st.Frames = a.cache.frames(b, a.original(b, frame{pc: pc, sp: f.bare}), !returns, st.Frames)
			next, ok = f.leave(b.frame, c.End), b.frame >= 16
		case n == 0 && b.kind != methodBlob && b.frame <= mostStub:
			next, ok = f.leave(b.frame, c.End), b.frame >= 16
			next.afterStub = true
		}
		if !ok || next.sp <= f.sp {
			return false
		}
		f = next
	}
	st.Why = TooMuch
	return false
}

// chunkFrame is a frame in a chunk.
type chunkFrame struct {
	sp        uint64
	bare      uint64 // its stack pointer without the arguments of a callee of another kind
	afterStub bool   // a stub has called it
}

// leave returns the caller of a compiled frame of so many bytes.
func (f chunkFrame) leave(size, end uint64) chunkFrame {
	next := f.bare + size
	if next+ChunkLinks >= end {
		next = end
	}
	return chunkFrame{sp: next, bare: next}
}

// interpretedIn appends a frame of the interpreter, and returns its caller.
func (a *AtRest) interpretedIn(c *Chunk, f chunkFrame, pc uint64, st *Stack) (chunkFrame, bool) {
	link, ok := a.stack.word(f.sp - ChunkLinks)
	bp := f.sp - ChunkLinks + 8*link
	if !ok || bp < f.sp || !a.stack.holds(bp) {
		return f, false
	}
	call := a.interpreter.caller(a.stack, bp, pc)
	locals, ok1 := a.stack.word(bp - localsAt)
	bare, ok2 := a.stack.word(bp - senderSPAt)
	if call.Method == 0 || !ok1 || !ok2 {
		return f, false
	}
	st.Frames = append(st.Frames, call)
	if last := bp + 8*locals + 8; last >= c.End {
		return chunkFrame{sp: c.End, bare: c.End}, true
	}
	return chunkFrame{sp: bp + 16, bare: bp + 8*bare}, true
}

// Begin begins the stack of a virtual thread, which may have several chunks.
func (a *AtRest) Begin(now uint64, st *Stack) {
	*st = Stack{Frames: st.Frames[:0], Native: st.Native[:0]}
	a.renewBudget(nil)
	a.cache.beginMoment(now)
}
