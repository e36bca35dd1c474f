package memory

import (
	"cmp"
	"encoding/binary"
	"hash/maphash"
	"slices"
	"strings"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/ccmap/query"
	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/sampler/internal/hotspot"
)

// Names of pseudo frames beside the runtime's reasons.
const (
	frameIdle     = "[idle]"
	frameMoved    = "[moved]"
	frameRunning  = "[running]"
	frameRunnable = "[runnable]"
	frameSyscall  = "[syscall]"
	frameCgo      = "[cgo call]"
)

// resting are the functions in which a thread of a pool waits for work: at once idle.
var resting = map[string]bool{
	"java.util.concurrent.ThreadPoolExecutor.getTask": true, "java.util.concurrent.ForkJoinPool.awaitWork": true,
}

// reasonMonitor is the frame of a thread that another one keeps from entering a monitor: it is never idle.
const reasonMonitor = "[" + hotspot.ReasonMonitor + "]"

// stackOf is a stack that goroutines wait in.
type stackOf struct {
	frames    []ccmap.Frame  // the first is the reason
	idle      int64          // time of this tick in which goroutines were idle there, ns
	request   bool           // it is below an entry, or waits to enter a monitor: never idle
	entry     ccmap.MethodID // the outermost one, of a request
	rests     bool           // it waits for work: at once idle, outside of a request
	hidden    bool           // it waits for a signal, which is nothing that a program waits for
	truncated bool
}

// mostFrames bounds the frames of all stacks: 32 MiB.
const mostFrames = 4 << 20

// stacks are the stacks that goroutines were seen in, each once. When they are full, they are forgotten.
type stacks struct {
	all    []stackOf
	byHash map[uint64][]int32
	frames int // of all

	process process.Runtime
	tasks   tasks
	names   *ccmap.Names
	seed    maphash.Seed
	deepest int
	entry   map[string]bool
	facts   map[ccmap.MethodID]facts
	pseudo  map[string]ccmap.MethodID
	scratch []ccmap.Frame
	bytes   []byte
}

// facts are what the name of a method tells.
type facts struct {
	known   bool
	entry   bool   // of a request
	rests   bool   // it waits for work
	runtime bool   // of the runtime, and no call of the program's
	call    string // a system call's name
	cgo     bool
	signal  bool // waits for signals or, in the JDK, for the sockets of virtual threads
}

func newStacks(o sampler.ProcessOptions, all tasks, p process.Runtime) *stacks {
	s := &stacks{
		process: p, tasks: all, names: o.Sink.Names, seed: maphash.MakeSeed(), deepest: o.Sink.Queue.MaxFrames() - 1,
		entry: make(map[string]bool), pseudo: make(map[string]ccmap.MethodID),
	}
	for _, name := range slices.Concat(query.Answering(), o.Under) {
		s.entry[name] = true
	}
	s.forget()
	return s
}

// full reports whether the stacks must be forgotten.
func (s *stacks) full() bool { return s.frames > mostFrames }

func (s *stacks) forget() {
	s.all, s.byHash, s.frames = nil, make(map[uint64][]int32), 0
	s.facts = make(map[ccmap.MethodID]facts)
}

// of returns what the name of a method tells.
func (s *stacks) of(id ccmap.MethodID) facts {
	f, seen := s.facts[id]
	if !seen {
		name := s.names.At(id).Name
		f = facts{known: true, entry: s.entry[name], rests: resting[name], runtime: isInner(name), call: callOf(name)}
		f.cgo, f.signal = name == "runtime.cgocall", name == "os/signal.signal_recv" || name == "sun.nio.ch.Poller.subPollerLoop"
		s.facts[id] = f
	}
	return f
}

// isInner reports whether a function of the runtime stands for what the runtime does, and not for a call of the
// program: runtime.gopark, but not runtime.GC.
func isInner(name string) bool {
	rest, ok := strings.CutPrefix(name, "runtime.")
	return ok && !(rest != "" && 'A' <= rest[0] && rest[0] <= 'Z') && rest != "main"
}

// callOf returns the name of a system call from the function that makes it: "read" of syscall.read.
func callOf(name string) string {
	for _, pkg := range []string{"syscall.", "golang.org/x/sys/unix."} {
		if rest, ok := strings.CutPrefix(name, pkg); ok && rest != "" && 'a' <= rest[0] && rest[0] <= 'z' &&
			!strings.HasPrefix(rest, "raw") && !strings.HasPrefix(rest, "runtime_") && !strings.Contains(rest, ".") {
			return rest
		}
	}
	return ""
}

// reason returns the innermost frame of a task that waits with a stack.
func (s *stacks) reason(l *process.TaskLook) string {
	if l.Why != "" || l.State != process.InSyscall {
		return s.reasonAlone(&l.Task, l.Why)
	}
	s.scratch = s.process.Frames(l.Stack, s.names, s.scratch[:0])
	const near = 8 // frames
	for _, f := range s.scratch[:min(near, len(s.scratch))] {
		switch of := s.of(f.Method); {
		case of.cgo:
			return frameCgo
		case of.call != "":
			return "[syscall " + of.call + "]"
		}
	}
	return frameSyscall
}

// reasonAlone returns the innermost frame by the state, and by why a task waits where that is known. A text of the
// target is never one of our own frames.
func (s *stacks) reasonAlone(t *process.Task, why string) string {
	switch {
	case t.State == process.Running:
		return frameRunning
	case t.State == process.Runnable:
		return frameRunnable
	}
	text := "[" + cmp.Or(why, s.tasks.Reason(t)) + "]"
	switch text {
	case "[]":
		if t.State == process.InSyscall {
			return frameSyscall
		}
		return "[waiting]"
	case frameIdle, frameMoved, frameRunning, frameRunnable, frameSyscall, frameCgo:
		return "[waiting]"
	}
	return text
}

// moved returns the stack of a goroutine that went on while it was read. Of its stack, the outermost frames are known
// if it answers a request.
func (s *stacks) moved(t *process.Task, outset *process.Stack) int32 {
	s.scratch = append(s.scratch[:0], s.frame(s.reasonAlone(t, "")), s.frame(frameMoved))
	if outset != nil {
		s.scratch = s.process.Frames(outset, s.names, s.scratch)
	}
	return s.keep(false)
}

func (s *stacks) frame(name string) ccmap.Frame {
	id, known := s.pseudo[name]
	if !known {
		id = s.names.Intern(ccmap.Method{Name: name})
		s.pseudo[name] = id
	}
	return ccmap.Frame{Method: id, Offset: ccmap.NoOffset}
}

// add returns the place of a stack with a reason. The frames of the runtime between the reason and the program's call
// are left out.
func (s *stacks) add(reason string, st *process.Stack) int32 {
	s.scratch = s.process.Frames(st, s.names, append(s.scratch[:0], s.frame(reason)))
	inner := 1
	for inner < len(s.scratch)-1 && reason != frameRunning && s.of(s.scratch[inner].Method).runtime {
		inner++
	}
	s.scratch = slices.Delete(s.scratch, 1, inner)
	truncated := !st.Rooted
	if len(s.scratch) > s.deepest {
		s.scratch, truncated = s.scratch[:s.deepest], true
	}
	if st.Labels != nil {
		s.scratch = append(s.scratch, ccmap.Frame{Method: s.names.Intern(*st.Labels), Offset: ccmap.NoOffset})
	}
	return s.keep(truncated)
}

// keep returns the place of the stack in scratch.
func (s *stacks) keep(truncated bool) int32 {
	s.bytes = s.bytes[:0]
	for _, f := range s.scratch {
		s.bytes = binary.NativeEndian.AppendUint64(s.bytes, uint64(f.Method)<<32|uint64(f.Offset))
	}
	hash := maphash.Bytes(s.seed, s.bytes)
	for _, place := range s.byHash[hash] {
		if of := &s.all[place]; of.truncated == truncated && slices.Equal(of.frames, s.scratch) {
			return place
		}
	}
	place := int32(len(s.all))
	of := stackOf{frames: slices.Clone(s.scratch), entry: ccmap.NoMethod, truncated: truncated}
	for _, f := range of.frames {
		known := s.of(f.Method)
		of.request, of.hidden, of.rests = of.request || known.entry, of.hidden || known.signal, of.rests || known.rests
		if known.entry {
			of.entry = f.Method
		}
	}
	if s.names.At(of.frames[0].Method).Name == reasonMonitor {
		of.request = true
	}
	s.all, s.byHash[hash], s.frames = append(s.all, of), append(s.byHash[hash], place), s.frames+len(of.frames)
	return place
}

// addIdle adds idle time to a stack; noStack: its goroutine was not looked at yet.
func (s *stacks) addIdle(stack int32, weight int64) {
	if stack == noStack {
		s.scratch = append(s.scratch[:0], s.frame(frameIdle))
		stack = s.keep(false)
	}
	s.all[stack].idle += weight
}

// tellIdle tells the idle time of the tick, once for each stack: its reason gives way to [idle].
func (s *stacks) tellIdle(tell func(frames []ccmap.Frame, stack uint64, weight int64, truncated bool)) {
	for i := range s.all {
		of := &s.all[i]
		if of.idle == 0 {
			continue
		}
		frames := slices.Clone(of.frames)
		frames[0] = s.frame(frameIdle)
		tell(frames, uint64(i), of.idle, of.truncated)
		of.idle = 0
	}
}
