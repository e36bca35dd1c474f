package jfr

// Frame is a frame of a stack.
type Frame struct {
	Method   int64 // key of the constant, the same for all frames of a method
	Line     int32 // of the source; 0 or less: unknown
	Bytecode int32 // index; negative: unknown, as in native methods

	method Object
}

// Method is a method of a JVM, or a function of machine code.
type Method struct {
	Class      string // as in class files: "java/util/Map$Entry"; of a function, its library
	Name       string // empty: the recording does not say
	Descriptor string // "(I)V"; empty of a function
	Loader     string // of the class, by its name
	Static     bool
	Native     bool // it has no bytecode
	Foreign    bool // a function of machine code that the JVM has not compiled: C, C++, the kernel
}

// Modifiers of methods (JVM specification 4.6).
const (
	accStatic = 0x0008
	accNative = 0x0100
)

// Stack appends the frames of a stack trace, innermost first. A stack that was cut lacks its
// outermost frames.
func Stack(frames []Frame, trace Object) (stack []Frame, truncated bool) {
	for o := range trace.List("frames") {
		frames = append(frames, Frame{
			Method: o.Int("method"), method: o.Get("method"),
			Line: int32(o.Int("lineNumber")), Bytecode: int32(o.Int("bytecodeIndex")),
		})
	}
	return frames, trace.Bool("truncated")
}

// Descriptors that async-profiler gives to functions, and no method has (src/lookup.cpp, 4.5).
const (
	functionDescriptor = "()L;"
	kernelDescriptor   = "(Lk;)L;"
)

// Info returns what the chunk knows of the frame's method.
func (f *Frame) Info() Method {
	class, modifiers := f.method.Get("type"), f.method.Int("modifiers")
	m := Method{
		Class:      class.Text("name"),
		Name:       f.method.Text("name"),
		Descriptor: f.method.Text("descriptor"),
		Loader:     class.Get("classLoader").Text("name"),
		Static:     modifiers&accStatic != 0,
		Native:     modifiers&accNative != 0,
	}
	if m.Descriptor == functionDescriptor || m.Descriptor == kernelDescriptor {
		m.Foreign, m.Descriptor = true, ""
	}
	return m
}
