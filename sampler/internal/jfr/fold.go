package jfr

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/jvm/javaname"
	recording "github.com/ccmapd/ccmapd/internal/jvm/jfr"
	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/queue"
	"github.com/ccmapd/ccmapd/sampler"
)

// folder makes samples of events, weighs them, and pushes them. The goroutine of Run owns it.
type folder struct {
	sink     sampler.Sink
	local    *queue.Ring
	event    event
	settings recording.Settings
	interval time.Duration // in force now; 0: there is none,
	before   time.Duration // and at the last flush
	threads  *threads
	rate     rate            // of allocations
	picked   time.Duration   // between two allocations that the JVM picks; 0: it tells all
	elders   map[uint32]bool // threads of before it did, without a sample of allocation yet
	ledger   *process.Ledger
	pseudo   map[string]ccmap.MethodID // of time that has no Java stack
	deepest  int                       // frames of a sample

	// Of the chunk, whose keys mean nothing in another one.
	chunk   *recording.Chunk
	offset  int64 // that makes a time since 1970 one of CLOCK_MONOTONIC, ns
	methods map[int64]method

	frames  []recording.Frame // buffer
	pending []pending         // since the last flush of the JVM
	waiting []waiting         // for their stacks
	flushed bool              // the JVM has flushed since
	last    map[uint64]int64  // by thread, the time of its last sample; emptied when full
	figures sampler.Stats
	lost    uint64 // samples
	bytes   uint64 // of events that the JVM has lost
}

// method is a method of a chunk.
type method struct {
	id        ccmap.MethodID
	positions bool // of its frames are known
}

// pending is a sample that has no weight yet.
type pending struct {
	ccmap.Sample
	inner uint32 // tid in the target's own namespace
}

// waiting is a sample whose stack the chunk does not have yet.
type waiting struct {
	pending
	of recording.Sample
}

// mostThreads bounds the threads whose last sample is remembered.
const mostThreads = 1 << 14

func newFolder(o Options, e event) *folder {
	f := &folder{
		sink: o.Sink, event: e, threads: newThreads(o.PID), pseudo: make(map[string]ccmap.MethodID),
		last: make(map[uint64]int64), rate: rate{limit: mostAllocations}, deepest: o.Sink.Queue.MaxFrames() - 1,
	}
	for _, name := range []string{nativeName, collectorName, compilerName, machineName, ccmap.KernelName, ccmap.UnknownName} {
		f.pseudo[name] = o.Sink.Names.Intern(ccmap.Method{Name: name})
	}
	f.interval = wholeMilliseconds(o.Interval)
	f.before, f.settings.Period = f.interval, f.interval
	return f
}

// follow takes in the interval in force. Until the next flush, samples may be of the one before,
// too.
func (f *folder) follow(interval time.Duration) {
	if interval != f.interval {
		f.interval, f.settings.Period = interval, max(interval, f.before)
	}
}

// startClocks starts the clocks.
func (f *folder) startClocks() {
	f.local = f.sink.Queue.Ring()
	f.ledger = process.OpenLedger(f.threads.pid, false)
	f.threads.read()
}

// pick notes that the JVM picks allocations from now on.
func (f *folder) pick(interval time.Duration) {
	f.picked, f.elders = interval, make(map[uint32]bool)
	for tid := range f.threads.readings {
		f.elders[tid] = true
	}
}

// fold takes the samples of a piece of a chunk.
func (f *folder) fold(c *recording.Chunk) {
	if f.chunk != c {
		f.giveUp()
		f.chunk, f.methods = c, make(map[int64]method)
		clock := sampler.NewClock()
		f.offset = clock.Now() - time.Now().UnixNano()
	}
	f.flushed = true
	c.Survey(&f.settings)
	lost, bytes := c.Lost()
	f.bytes += bytes
	if f.event.measure == recording.CPU {
		f.lost += lost
	}
	if f.event.exact && !c.Exact(f.event.measure) && f.picked == 0 {
		return // samples of another's recording, which weigh something else
	}
	f.resolve()
	for s := range c.Samples(f.event.measure, &f.settings) {
		f.rate.add(s.Time)
		f.foldSample(&s, c.Exact(f.event.measure))
	}
}

// resolve finds the stacks that samples wait for: the JVM has written them after the samples.
func (f *folder) resolve() {
	f.waiting = slices.DeleteFunc(f.waiting, func(w waiting) bool {
		if w.of.Waits() {
			return false
		}
		f.addStack(w.pending, &w.of)
		return true
	})
}

// giveUp takes the samples without a stack whose chunk has none for them.
func (f *folder) giveUp() {
	for _, w := range f.waiting {
		w.Frames = f.unknown()
		f.pending = append(f.pending, w.pending)
	}
	f.waiting = f.waiting[:0]
}

// end pushes what is left.
func (f *folder) end() {
	if len(f.waiting) > 0 {
		f.giveUp()
		f.flushed = true
		f.flush()
	}
}

// unknown returns the stack of a sample that has none.
func (f *folder) unknown() []ccmap.Frame {
	return []ccmap.Frame{{Method: f.pseudo[ccmap.UnknownName], Offset: ccmap.NoOffset}}
}

func (f *folder) addStack(p pending, s *recording.Sample) {
	p.Frames, p.Truncated = f.stack(s)
	f.pending = append(f.pending, p)
}

// foldSample notes a sample, but not of the recorder's own threads. Exact says that its event says what it weighs.
func (f *folder) foldSample(s *recording.Sample, exact bool) {
	p := pending{inner: uint32(s.Thread.Int("osThreadId"))}
	p.Thread, p.Goroutine = threadID(s.Thread)
	p.OSThread = f.threads.outer(p.inner)
	if isOverhead(kindOfThread(f.threads.readings[p.OSThread].name)) || !exact && f.isHistory(p.OSThread) {
		return
	}
	p.Time, p.Weight = s.Time+f.offset, s.Weight
	p.Fresh = ccmap.FreshUnknown
	if !s.Failed && s.Waits() {
		f.waiting = append(f.waiting, waiting{p, *s})
		return
	}
	f.addStack(p, s)
}

// isHistory reports whether a sample stands for allocations of before the JVM picked some: it weighs
// the first one of a thread by all that the thread has allocated.
func (f *folder) isHistory(tid uint32) bool {
	if f.event.measure != recording.Alloc || !f.elders[tid] {
		return false
	}
	delete(f.elders, tid)
	return true
}

// threadID returns an id of a thread among those alive, and the JVM's own number.
func threadID(thread recording.Object) (id, number uint64) {
	if java := thread.Int("javaThreadId"); java > 0 {
		return uint64(java), uint64(java)
	}
	const native = 1 << 40 // beyond the numbers of Java threads
	return native + uint64(uint32(thread.Int("osThreadId"))), 0
}

// stack returns the frames of a sample, innermost first.
func (f *folder) stack(s *recording.Sample) (frames []ccmap.Frame, truncated bool) {
	if !s.Failed {
		f.frames, truncated = recording.Stack(f.frames[:0], s.Trace)
	}
	if s.Failed || len(f.frames) == 0 {
		return f.unknown(), false
	}
	if len(f.frames) > f.deepest {
		f.frames, truncated = f.frames[:f.deepest], true
	}
	frames = make([]ccmap.Frame, len(f.frames))
	for i := range f.frames {
		frames[i] = f.frame(&f.frames[i])
	}
	return frames, truncated
}

// frame returns the map's frame, and tells the names its line.
func (f *folder) frame(from *recording.Frame) ccmap.Frame {
	m, known := f.methods[from.Method]
	if !known {
		m = f.method(from.Info())
		f.methods[from.Method] = m
	}
	frame := ccmap.Frame{Method: m.id, Offset: ccmap.NoOffset}
	if m.positions && from.Bytecode >= 0 {
		frame.Offset = uint32(from.Bytecode)
		f.sink.Names.SetLine(frame, from.Line)
	}
	return frame
}

// longestName bounds the names of a method, in bytes.
const longestName = 4 << 10

func (f *folder) method(m recording.Method) method {
	text := func(s string) string { return javaname.Text([]byte(s[:min(len(s), longestName)])) }
	if m.Name == "" {
		return method{id: f.pseudo[ccmap.UnknownName]}
	}
	parts := javaname.Parts{
		Class: text(m.Class), Name: text(m.Name), Descriptor: text(m.Descriptor), Loader: text(m.Loader), Static: m.Static,
	}
	return method{f.sink.Names.Intern(parts.Method()), !m.Native}
}

// flush weighs and pushes what the JVM has flushed.
func (f *folder) flush() {
	if !f.flushed {
		return
	}
	f.flushed = false
	used := f.threads.read()
	switch {
	case f.event.measure != recording.CPU:
		for _, u := range used {
			f.addOverhead(u)
		}
	case f.event.exact:
		f.addMachine(used)
	default:
		f.weigh(used)
	}
	if f.interval != f.before {
		f.before, f.settings.Period = f.interval, f.interval
	}
	slices.SortStableFunc(f.pending, func(a, b pending) int {
		return cmp.Or(cmp.Compare(a.Thread, b.Thread), cmp.Compare(a.Time, b.Time))
	})
	for i := range f.pending {
		f.push(&f.pending[i].Sample)
	}
	f.pending = f.pending[:0]
	f.local.Publish()
	f.balance()
}

// Names of time without a Java stack.
const (
	nativeName    = "[native]"
	collectorName = "[gc]"
	compilerName  = "[jit]"
	machineName   = "[vm]"
)

// mostAtOnce is how many threads the JVM samples in one tick (MAX_NR_OF_JAVA_SAMPLES).
const mostAtOnce = 5

// weigh shares the CPU time of each thread among its samples. What the samples cannot have seen
// is time in native code and in the kernel.
func (f *folder) weigh(used []usage) {
	samples := make(map[uint32][]int)
	for i := range f.pending {
		samples[f.pending[i].OSThread] = append(samples[f.pending[i].OSThread], i)
	}
	const most = 4 // periods that a sample stands for, if no other thread is sampled
	period := int64(f.settings.IntervalOf(recording.CPU))
	limit := most * period * int64(max(1, (len(samples)+mostAtOnce-1)/mostAtOnce))
	for _, u := range used {
		left := u.total - u.kernel
		of := samples[u.tid]
		for n, i := range of {
			weight := min(left/int64(len(of)-n), limit)
			f.pending[i].Weight = weight
			left -= weight
		}
		f.addRest(u, left)
	}
}

// addRest adds the time of a thread that no sample of Java code stands for.
func (f *folder) addRest(u usage, user int64) {
	name := cmp.Or(kindOfThread(u.name), nativeName)
	if isOverhead(name) {
		f.addOverhead(u)
		return
	}
	f.addPseudo(u, name, user)
	f.addPseudo(u, ccmap.KernelName, u.kernel)
}

// addOverhead adds the time of a thread that is there for the recording alone.
func (f *folder) addOverhead(u usage) {
	switch kindOfThread(u.name) {
	case samplerKind:
		f.figures.Overhead.Samples += time.Duration(u.total)
	case recorderKind:
		f.figures.Overhead.Recorder += time.Duration(u.total)
	}
}

// addMachine adds the time of the JVM's own threads, of which it takes no samples.
func (f *folder) addMachine(used []usage) {
	for _, u := range used {
		if kindOfThread(u.name) != "" {
			f.addRest(u, u.total-u.kernel)
		}
	}
}

// restThreads is added to a tid, and beyond the ids of threads that have samples.
const restThreads = 1 << 41

// addPseudo adds time without a stack.
func (f *folder) addPseudo(u usage, name string, weight int64) {
	if weight <= 0 {
		return
	}
	p := pending{Sample: ccmap.Sample{
		Frames: []ccmap.Frame{{Method: f.pseudo[name], Offset: ccmap.NoOffset}}, Thread: restThreads + uint64(u.tid), OSThread: u.tid,
		Time: f.threads.now, Weight: weight, Fresh: ccmap.FreshUnknown,
	}}
	f.pending = append(f.pending, p)
}

// push hands a sample over. Samples of a thread come in the order of their time: one that an
// earlier flush has missed gets the time of the last one.
func (f *folder) push(s *ccmap.Sample) {
	if len(f.last) >= mostThreads {
		clear(f.last)
	}
	s.Time = max(s.Time, f.last[s.Thread])
	f.last[s.Thread] = s.Time
	f.figures.Counts[sampler.Samples]++
	if s.Truncated {
		f.figures.Counts[sampler.Truncated]++
	}
	f.ledger.Seen += time.Duration(s.Weight)
	f.local.PushWaiting(s, nil)
}

// balance compares the weights with the process's clock. The recorder's own threads are no
// part of the program.
func (f *folder) balance() {
	now, ok := f.ledger.Read()
	if !ok {
		return
	}
	loss := f.ledger.Balance(now)
	overhead := f.figures.Overhead.Total()
	loss.Clock -= overhead
	loss.Unaccounted -= overhead
	f.figures.Overhead.Of = loss.Clock
	if f.event.measure == recording.CPU {
		f.figures.Loss = loss
	}
}

// stats returns the figures.
func (f *folder) stats() sampler.Stats {
	st := f.figures
	st.Loss.Source = f.lost
	st.Threads = f.threads.count()
	st.NoCalls = "the JVM's recorder catches none"
	return st
}

// warnings says what readers of the profile must know of the samples.
func (f *folder) warnings() (lines []string) {
	if f.figures.Counts[sampler.Truncated] > 0 {
		lines = append(lines, "stacks are cut: the JVM records few frames since another tool started its recorder; start it with -XX:FlightRecorderOptions=stackdepth=2048")
	}
	if f.picked > 0 {
		lines = append(lines, f.rate.warning(f.picked))
	}
	if f.bytes > 0 {
		lines = append(lines, fmt.Sprintf("the JVM has lost %d bytes of events", f.bytes))
	}
	return lines
}
