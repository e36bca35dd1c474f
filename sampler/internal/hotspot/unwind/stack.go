package unwind

// NoBCI is the bytecode index of a frame that has none that is known.
const NoBCI = -1

// Kind says how a frame's method runs.
type Kind uint8

// The kinds of frames.
const (
	Compiled    Kind = iota // its own machine code
	Inlined                 // part of the next frame's machine code
	Interpreted             // by the interpreter
	Native                  // written in another language; the frame is the way there
)

// Frame is a call of a Java method.
type Frame struct {
	Method uint64 // address of its Method
	BCI    int    // index of the bytecode, or NoBCI
	PC     uint64 // of the machine code; inlined methods share it with the frame that they are part of
	Kind   Kind

	// Inexact says that the bytecode is the next one that the compiler has kept track of.
	// Only the innermost frames are inexact.
	Inexact bool
}

// Reason says why a stack does not reach its root.
type Reason uint8

// The reasons.
const (
	Complete     Reason = iota
	NoRegisters         // the thread has left user mode for good
	NotJava             // the thread is none of Java's, or runs none of Java's code
	EndOfCopy           // the stack goes on beyond the bytes that were copied
	StaleAnchor         // native code runs, and how Java had called it was not found
	LostCaller          // the innermost frame's caller was not found
	LostFrame           // a caller's caller was not found
	Continuation        // the rest of a virtual thread is in the heap
	TooMuch             // it takes more steps or reads than it may
)

var reasons = [...]string{
	Complete: "complete", NoRegisters: "no registers", NotJava: "no Java code", EndOfCopy: "end of the copied stack",
	StaleAnchor: "native code without a way back", LostCaller: "caller not found", LostFrame: "frame not found",
	Continuation: "continuation in the heap", TooMuch: "too much work",
}

func (r Reason) String() string {
	if int(r) < len(reasons) {
		return reasons[r]
	}
	return "unknown reason"
}

// Stack is the Java part of a thread's stack.
type Stack struct {
	Frames []Frame  // innermost first
	Native []uint64 // program counters of native code above them, innermost first

	Thread uint64 // address of the JavaThread; 0: the thread is none of Java's
	Slot   uint64 // address of the return address of the innermost frame that is not inlined; 0: unknown

	Why      Reason // the stack is not complete
	Rooted   bool   // the outermost frame is where the JVM, or a virtual thread, began to run Java
	Repaired bool   // the innermost frame was not complete, or was searched for
	WantDump bool   // a longer copy of the stack would have held more
	Stub     string // the JVM's name of the stub that runs; empty where a method does
}
