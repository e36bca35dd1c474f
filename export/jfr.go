package export

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unsafe"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/jvm/javaname"
	"github.com/ccmapd/ccmapd/internal/jvm/jfr"
)

// Engines of maps that were read out of recordings.
const (
	engineJFR   = "jfr"
	engineAsync = "async-profiler"
)

// readJFR reads a recording of the JDK or of async-profiler into the map: its samples of one
// measure, chunk by chunk.
func readJFR(r *bufio.Reader, b *builder) error {
	f := jfrReader{b: b, measure: jfr.CPU}
	if asked := b.limits.SampleType; asked != "" {
		if f.measure = measureNamed(asked); f.measure == jfr.NumMeasures {
			return noSampleType(asked, measureNames())
		}
	}
	chunks := jfr.NewReader(r, f.reserve)
	for {
		c, err := chunks.Next()
		switch {
		case err == io.EOF:
			return f.finish()
		case err != nil:
			return explainJFR(err)
		}
		if err := f.chunk(c); err != nil {
			return err
		}
	}
}

// explainJFR makes an error of a recording one of this package.
func explainJFR(err error) error {
	if errors.Is(err, jfr.ErrVersion) {
		return fmt.Errorf("%w: %w", ErrVersion, err)
	}
	return err
}

func measureNamed(name string) jfr.Measure {
	m := jfr.CPU
	for m < jfr.NumMeasures && m.String() != name {
		m++
	}
	return m
}

func measureNames() (names []string) {
	for m := range jfr.NumMeasures {
		names = append(names, m.String())
	}
	return names
}

// jfrReader adds chunks to a map.
type jfrReader struct {
	b        *builder
	measure  jfr.Measure
	settings jfr.Settings
	found    [jfr.NumMeasures]bool
	guessed  bool // CPU time is the number of samples times their period
	picked   bool // allocations are those that the JVM has picked
	corrupt  int
	lost     uint64 // bytes of events

	start, end int64 // ns since 1970, of all chunks; 0: none yet

	// Of the chunk, whose keys mean nothing in another one.
	methods map[int64]jfrMethod
	sums    map[int64]int // stacks by key, as index in stacks
	stacks  []jfrStack    // as they came
	frames  []jfr.Frame   // buffer
	stack   []ccmap.Frame // buffer
}

// jfrMethod is a method of a chunk in the map.
type jfrMethod struct {
	id        ccmap.MethodID
	positions bool // of its frames are known
}

// jfrStack is a stack of a chunk with its samples.
type jfrStack struct {
	trace jfr.Object
	self  ccmap.Counters
}

// reserve takes memory for chunks, or gives it back.
func (f *jfrReader) reserve(bytes int64) error {
	if bytes > f.b.left() {
		return f.b.memory.exceeded()
	}
	return f.b.memory.reserve(bytes)
}

// chunk adds the samples of a chunk.
func (f *jfrReader) chunk(c *jfr.Chunk) error {
	f.describe(c)
	c.Survey(&f.settings)
	for m := range jfr.NumMeasures {
		f.found[m] = f.found[m] || c.Has(m)
	}
	f.guessed = f.guessed || f.measure == jfr.CPU && c.Has(jfr.CPU) && !c.Exact(jfr.CPU) && !f.settings.Async
	f.picked = f.picked || f.measure == jfr.Alloc && c.Has(jfr.Alloc) && !c.Exact(jfr.Alloc)
	held := f.b.memory.held
	f.methods, f.sums, f.stacks = make(map[int64]jfrMethod), make(map[int64]int), nil
	for s := range c.Samples(f.measure, &f.settings) {
		if err := f.sum(s); err != nil {
			return err
		}
	}
	for i := range f.stacks {
		if err := f.addStack(&f.stacks[i]); err != nil {
			return err
		}
	}
	f.b.memory.held = held
	samples, bytes := c.Lost()
	if f.measure == jfr.CPU {
		f.b.m.Meta().Loss.Source += samples
	}
	f.lost += bytes
	f.corrupt += c.Corrupt()
	return nil
}

// sum adds a sample to the sum of its stack.
func (f *jfrReader) sum(s jfr.Sample) error {
	f.end = max(f.end, s.Time)
	key := s.Key
	if s.Failed || s.Trace.IsZero() {
		key, s.Trace = 0, jfr.Object{} // no stack has this key
	}
	at, known := f.sums[key]
	if !known {
		if err := f.reserve(int64(2*unsafe.Sizeof(jfrStack{}) + 4*unsafe.Sizeof(key))); err != nil {
			return err
		}
		at = len(f.stacks)
		f.sums[key] = at
		f.stacks = append(f.stacks, jfrStack{trace: s.Trace})
	}
	self := &f.stacks[at].self
	if self.Samples > 1<<62-s.Count || self.Time > 1<<62-min(s.Weight, 1<<62) {
		return errors.New("the samples of a stack add up to more than 2⁶²")
	}
	self.Samples += s.Count
	self.Time += min(s.Weight, 1<<62)
	return nil
}

// addStack adds a stack with its samples to the map.
func (f *jfrReader) addStack(s *jfrStack) error {
	var truncated bool
	f.frames, truncated = jfr.Stack(f.frames[:0], s.trace)
	if len(f.frames) > f.b.limits.MaxDepth {
		return fmt.Errorf("%w: %d frames deep, more than %d", ErrTooDeep, len(f.frames), f.b.limits.MaxDepth)
	}
	f.stack = f.stack[:0]
	if truncated {
		f.stack = append(f.stack, ccmap.Frame{Method: ccmap.TruncatedID, Offset: ccmap.NoOffset})
	}
	for i := range slices.Backward(f.frames) {
		frame, err := f.frame(&f.frames[i])
		if err != nil {
			return err
		}
		f.stack = append(f.stack, frame)
	}
	if len(f.frames) == 0 {
		f.stack = append(f.stack, ccmap.Frame{Method: ccmap.UnknownID, Offset: ccmap.NoOffset})
	}
	return f.b.addStack(f.stack, s.self)
}

// frame returns the map's frame, and tells the names its line.
func (f *jfrReader) frame(from *jfr.Frame) (ccmap.Frame, error) {
	m, known := f.methods[from.Method]
	if !known {
		var err error
		if m, err = f.method(from.Info()); err != nil {
			return ccmap.Frame{}, err
		}
		f.methods[from.Method] = m
	}
	frame := ccmap.Frame{Method: m.id, Offset: ccmap.NoOffset}
	if m.positions && from.Bytecode >= 0 {
		frame.Offset = uint32(from.Bytecode)
		f.b.m.Names().SetLine(frame, from.Line)
	}
	return frame, nil
}

// method adds a method of the chunk to the map.
func (f *jfrReader) method(m jfr.Method) (jfrMethod, error) {
	if err := f.reserve(int64(2*unsafe.Sizeof(jfrMethod{}) + 2*unsafe.Sizeof(int64(0)))); err != nil {
		return jfrMethod{}, err
	}
	id, err := f.b.intern(javaMethod(m))
	return jfrMethod{id, !m.Native && !m.Foreign}, err
}

// javaMethod returns the map's method. A function of machine code is known by its symbol, and
// its module is a library.
func javaMethod(m jfr.Method) ccmap.Method {
	name := javaname.Text([]byte(m.Name))
	switch class := javaname.Text([]byte(m.Class)); {
	case m.Foreign && name != "":
		return ccmap.Method{Name: name, Module: class, Coordinate: ccmap.CoordinateMachine}
	case m.Foreign && class != "": // a class that was allocated
		return ccmap.Method{Name: javaname.Class(class), Coordinate: ccmap.CoordinateMachine}
	case name == "":
		return ccmap.Method{Name: ccmap.UnknownName}
	default:
		return javaname.Parts{
			Class: class, Name: name, Descriptor: javaname.Text([]byte(m.Descriptor)), Loader: m.Loader, Static: m.Static,
		}.Method()
	}
}

// describe notes what a chunk says of the recording as a whole.
func (f *jfrReader) describe(c *jfr.Chunk) {
	if f.start == 0 || c.Header.Start < f.start {
		f.start = c.Header.Start
	}
	f.end = max(f.end, c.Header.Start, c.Header.Time(c.Header.StartTicks)+max(c.Header.Duration, 0))
	if f.b.m.Meta().Target.Runtime != "" {
		return
	}
	for e := range c.Events() {
		if e.Type().Name == "jdk.JVMInformation" {
			f.b.m.Meta().Target = jvmTarget(e)
			return
		}
	}
}

// longestArguments is how many bytes of a command line are kept.
const longestArguments = 64 << 10

// jvmTarget makes a target of what a JVM says of itself.
func jvmTarget(e jfr.Object) ccmap.Target {
	t := ccmap.Target{PID: int(int32(e.Int("pid"))), Executable: "java", Runtime: jvmRuntime(e)}
	t.CommandLine = append(t.CommandLine, t.Executable)
	for _, field := range []string{"jvmArguments", "javaArguments"} {
		arguments := e.Text(field)
		arguments = arguments[:min(len(arguments), longestArguments)]
		t.CommandLine = append(t.CommandLine, strings.Fields(arguments)...)
	}
	return t
}

// jvmRuntime returns vendor and version: "OpenJDK 17.0.15+6-Debian-1deb12u1". The JDK has the
// version in parentheses, among words of the build; async-profiler has it alone.
func jvmRuntime(e jfr.Object) string {
	vendor, _, _ := strings.Cut(e.Text("jvmName"), " ")
	version := e.Text("jvmVersion")
	if _, rest, found := strings.Cut(version, "("); found {
		version, _, _ = strings.Cut(rest, ")")
	}
	return strings.TrimSpace(vendor + " " + version)
}

// finish describes the map.
func (f *jfrReader) finish() error {
	if f.start == 0 {
		return fmt.Errorf("%w: it has no chunk", ErrEmpty)
	}
	if err := f.checkFound(); err != nil {
		return err
	}
	meta := f.b.m.Meta()
	meta.Unit = ccmap.NewUnit(f.measure.String(), f.measure.Base())
	meta.Start = time.Unix(0, f.start).UTC()
	meta.Duration = time.Duration(max(f.end-f.start, 0))
	meta.Engine = engineJFR
	if f.settings.Async {
		meta.Engine = engineAsync
	}
	if interval := f.settings.IntervalOf(f.measure); interval > 0 && (f.measure != jfr.CPU || f.guessed || f.settings.Async) {
		meta.Interval = []ccmap.IntervalChange{{Interval: interval, Reason: "period of the recording"}}
	}
	meta.Comments = f.comments()
	return f.b.memory.reserve(metaMemory(meta))
}

// checkFound returns an error if the recording has samples of other measures only.
func (f *jfrReader) checkFound() error {
	var has []string
	for m, found := range f.found {
		if found {
			has = append(has, jfr.Measure(m).String())
		}
	}
	switch {
	case f.found[f.measure]:
		return nil
	case has == nil:
		return fmt.Errorf("%w: the recording has no samples of any kind", ErrEmpty)
	}
	return noSampleType(f.measure.String(), has)
}

func (f *jfrReader) comments() (lines []string) {
	if f.guessed {
		lines = append(lines, fmt.Sprintf("time is estimated: each sample stands for %v of Java code; the JDK samples at most five threads at once", f.settings.IntervalOf(jfr.CPU)))
	}
	if f.picked {
		lines = append(lines, ccmap.CommentWarning+"the JVM has picked allocations (jdk.ObjectAllocationSample), so shares of large and small objects are wrong: record jdk.ObjectAllocationInNewTLAB and jdk.ObjectAllocationOutsideTLAB")
	}
	if f.lost > 0 {
		lines = append(lines, fmt.Sprintf("%sthe JVM has lost %d bytes of events", ccmap.CommentWarning, f.lost))
	}
	if f.corrupt > 0 {
		lines = append(lines, fmt.Sprintf("%s%d values of the recording could not be read", ccmap.CommentWarning, f.corrupt))
	}
	return lines
}
