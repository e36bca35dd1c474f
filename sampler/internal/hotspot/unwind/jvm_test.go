package unwind_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ccmapd/ccmapd/internal/jvm/jvmtest"
	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/sampler/internal/hotspot/classes"
	"github.com/ccmapd/ccmapd/sampler/internal/hotspot/unwind"
	"github.com/ccmapd/ccmapd/sampler/internal/hotspot/vmstructs"
)

// TestMain removes the Java programs that the tests have compiled.
func TestMain(m *testing.M) { jvmtest.Main(m) }

// methods are the methods of a JVM, by package classes.
type methods struct{ *classes.Table }

func (m methods) Bytecode(addr uint64) (uint64, int, bool) {
	method, err := m.Method(addr)
	if err != nil {
		return 0, 0, false
	}
	return method.CodeBegin, method.CodeSize, true
}

// prober stops threads of a JVM and unwinds them.
type prober struct {
	t      testing.TB
	pid    int
	memory process.Live
	table  *classes.Table
	unwind *unwind.Unwinder
	stack  unwind.Stack
	copied []byte
	most   int  // bytes of a stack to copy
	moving bool // the thread runs on before it is unwound
	look   func(*unwind.Stack)
	shaped int

	wantsDump bool // of a stack

	last map[uint32]process.Registers // of each thread, at its last moment
}

func attach(t testing.TB, j *jvmtest.JVM) *prober {
	t.Helper()
	maps, err := os.Open(fmt.Sprintf("/proc/%d/maps", j.PID))
	if err != nil {
		t.Fatal(err)
	}
	defer maps.Close()
	memory := process.MemoryOf(j.PID, nil)
	vm, err := vmstructs.Open(context.Background(), memory, maps)
	if err != nil {
		t.Fatal(err)
	}
	table, err := classes.New(vm)
	if err != nil {
		t.Fatal(err)
	}
	u, err := unwind.New(vm, methods{table})
	if err != nil {
		t.Fatal(err)
	}
	return &prober{t: t, pid: j.PID, memory: memory, table: table, unwind: u, most: 1 << 20, copied: make([]byte, 1<<20)}
}

// running returns the threads that run or want to.
func (p *prober) running() []uint32 {
	tids, err := process.Threads(p.pid)
	if err != nil {
		p.t.Fatal(err)
	}
	var run []uint32
	for _, tid := range tids {
		if stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/stat", p.pid, tid)); err == nil {
			if _, fields, ok := strings.Cut(string(stat), ") "); ok && strings.HasPrefix(fields, "R") {
				run = append(run, tid)
			}
		}
	}
	return run
}

// probe stops a thread, unwinds it, and calls look while it stands still.
func (p *prober) probe(tid uint32, look func(*process.Moment)) error {
	m, err := p.stop(tid, look)
	if err == nil && p.moving {
		look(m)
	}
	return err
}

// stop stops a thread for as long as it is looked at, or only copied.
func (p *prober) stop(tid uint32, look func(*process.Moment)) (m *process.Moment, err error) {
	err = jvmtest.Stop(tid, func(r *unix.PtraceRegs) {
		if m = p.moment(tid, r); !p.moving {
			look(m)
		}
	})
	return m, err
}

func (p *prober) moment(tid uint32, r *unix.PtraceRegs) *process.Moment {
	m := &process.Moment{TID: tid, Time: uint64(time.Since(started)), HasRegs: true, Regs: process.Registers{
		BX: r.Rbx, BP: r.Rbp, SP: r.Rsp, IP: r.Rip, R10: r.R10, R12: r.R12, R13: r.R13, R14: r.R14, R15: r.R15,
	}}
	for n := p.most; n > 0; n /= 2 { // as much as there is
		if p.memory.Read(r.Rsp, p.copied[:n]) == nil {
			m.Stack = p.copied[:n]
			break
		}
	}
	p.extend(m)
	return m
}

// extend copies the rest of a stack that a power of 2 has cut.
func (p *prober) extend(m *process.Moment) {
	for n := len(m.Stack); n < p.most; {
		step := 4096 - int((m.Regs.SP+uint64(n))%4096)
		if n+step > p.most || p.memory.Read(m.Regs.SP+uint64(n), p.copied[n:n+step]) != nil {
			break
		}
		n += step
		m.Stack = p.copied[:n]
	}
	m.Cut = len(m.Stack) == p.most
}

var started = time.Now().Add(-time.Hour)

// figures counts samples.
type figures struct {
	java, javaRooted     int // the top is in generated code
	native, nativeRooted int // native code under a Java thread that has Java frames
	other                int // threads without Java
	frames, noBCI        int
	why                  map[string]int
}

func (f *figures) add(st *unwind.Stack, inCode bool) {
	switch {
	case st.Why == unwind.NotJava:
		f.other++
		return
	case inCode:
		f.java++
		if st.Rooted {
			f.javaRooted++
		}
	default:
		f.native++
		if st.Rooted {
			f.nativeRooted++
		}
	}
	if !st.Rooted {
		if f.why == nil {
			f.why = map[string]int{}
		}
		f.why[fmt.Sprintf("%v stub=%q code=%v", st.Why, st.Stub, inCode)]++
	}
	for _, fr := range st.Frames {
		f.frames++
		if fr.BCI == unwind.NoBCI && fr.Kind != unwind.Native {
			f.noBCI++
		}
	}
}

// describe names the frames of a stack, for a test's log.
func (p *prober) describe(st *unwind.Stack) string {
	var b strings.Builder
	for _, f := range st.Frames {
		name := "?"
		if m, err := p.table.Method(f.Method); err == nil {
			name = m.FullName()
		}
		fmt.Fprintf(&b, "\n  %s@%d kind %d pc %#x", name, f.BCI, f.Kind, f.PC)
	}
	return b.String()
}

// sample takes samples of all running threads until there are enough of threads that run Java. The
// JVM's own threads may run as often: on a slow machine it compiles for long.
func (p *prober) sample(want int) figures {
	var f figures
	logged := 0
	p.last = make(map[uint32]process.Registers)
	for f.java+f.native < want {
		for _, tid := range p.running() {
			look := func(m *process.Moment) {
				if p.last[tid] == m.Regs {
					return // on a busy machine it has not run since: one moment counts once
				}
				p.last[tid] = m.Regs
				p.unwind.Unwind(m, &p.stack)
				p.wantsDump = p.wantsDump || p.stack.WantDump
				if p.look != nil && p.stack.Why != unwind.NotJava {
					p.look(&p.stack)
				}
				f.add(&p.stack, p.unwind.InCode(m.Regs.IP))
				if !p.stack.Rooted && p.stack.Why != unwind.NotJava && logged < 3 {
					logged++
					p.t.Logf("%v slot %#x sp %#x ip %#x bp %#x stub %q native %#x, copied %d:%s", p.stack.Why, p.stack.Slot, m.Regs.SP, m.Regs.IP, m.Regs.BP, p.stack.Stub, p.stack.Native, len(m.Stack), p.describe(&p.stack))
				}
			}
			err := p.probe(tid, look)
			if err != nil && !errors.Is(err, unix.ESRCH) {
				p.t.Log(err)
			}
		}
		time.Sleep(time.Millisecond)
	}
	return f
}

// matches reports whether a stack has a shape: names of methods, innermost first, each with
// + if it may be repeated, ? if it may be missing.
func matches(names []string, shape ...string) bool {
	for _, want := range shape {
		many, maybe := strings.HasSuffix(want, "+"), strings.HasSuffix(want, "?")
		want = strings.TrimRight(want, "+?")
		n := 0
		for len(names) > 0 && names[0] == want && (many || n == 0) {
			names, n = names[1:], n+1
		}
		if n == 0 && !maybe {
			return false
		}
	}
	return true
}

// names returns the methods of a stack, innermost first.
func (p *prober) names(st *unwind.Stack) []string {
	var names []string
	for _, f := range st.Frames {
		name := "?"
		if m, err := p.table.Method(f.Method); err == nil {
			name = m.FullName()
		}
		names = append(names, name)
	}
	return names
}

// checkShapes takes samples, and fails if a stack that reaches its root does not have a shape
// from the innermost method of Loop on. What that has called is the JDK's: it loads classes.
func (p *prober) checkShapes(want int, shapes ...[]string) {
	p.look = func(st *unwind.Stack) {
		names := p.names(st)
		own := slices.IndexFunc(names, func(name string) bool { return strings.HasPrefix(name, "Loop") })
		if own < 0 {
			return // another thread
		}
		names = names[own:]
		if slices.ContainsFunc(shapes, func(shape []string) bool { return matches(names, shape...) }) {
			p.shaped++
		} else if st.Rooted {
			p.t.Errorf("a stack looks wrong: %q", names)
		}
	}
	p.sample(want)
	if p.shaped < want/2 {
		p.t.Errorf("%d of %d stacks look right", p.shaped, want)
	}
}

func TestShapes(t *testing.T) {
	for _, jdk := range jvmtest.JDKs(t) {
		for _, flags := range [][]string{nil, {"-Xint"}, {"-XX:TieredStopAtLevel=1"}} {
			t.Run(jdk.Name+"/loop"+strings.Join(flags, ""), func(t *testing.T) {
				p := attach(t, jdk.Start(t, flags, "Loop"))
				p.checkShapes(200, []string{"Loop$Circle.area?", "Loop$Square.area?", "Loop.call?", "Loop.deep+", "Loop.work", "Loop$$Lambda.run", "java.lang.Thread.runWith?", "java.lang.Thread.run"}, []string{"Loop.main"}, []string{"Loop.work", "Loop$$Lambda.run", "java.lang.Thread.runWith?", "java.lang.Thread.run"})
			})
		}
		t.Run(jdk.Name+"/nested", func(t *testing.T) {
			p := attach(t, jdk.Start(t, nil, "Nested"))
			p.look = func(st *unwind.Stack) {
				names := p.names(st)
				if !st.Rooted || !slices.Contains(names, "Nested$Initialized.compute") {
					return
				}
				i := slices.Index(names, "Nested$Initialized.<clinit>")
				if i < 0 || !matches(names[i+1:], "Nested.outer", "Nested.outer+") || !slices.Contains(names, "java.lang.Thread.run") {
					t.Errorf("a stack looks wrong: %q", names)
				}
				p.shaped++
			}
			p.sample(100)
			if p.shaped < 50 {
				t.Errorf("%d of 100 stacks reach their root", p.shaped)
			}
		})
	}
}

func TestShortCopy(t *testing.T) {
	p := attach(t, jvmtest.JDKs(t)[0].Start(t, nil, "Loop"))
	p.most = 512
	f := p.sample(100)
	ended := 0
	for why, n := range f.why {
		if strings.HasPrefix(why, unwind.EndOfCopy.String()) {
			ended += n
		}
	}
	if ended < f.java/2 || !p.wantsDump {
		t.Errorf("%d of %d stacks end with the copy, a longer one is wanted: %v; %v", ended, f.java, p.wantsDump, f.why)
	}
}

func TestVirtualThreads(t *testing.T) {
	for _, jdk := range jvmtest.JDKs(t) {
		if jdk.Name == "17" {
			continue // it has none
		}
		p := attach(t, jdk.Start(t, nil, "Virtual"))
		p.look = func(st *unwind.Stack) {
			names := p.names(st)
			at := slices.Index(names, "Virtual.below")
			if at >= 0 && matches(names[at:], "Virtual.below+", "Virtual.work?") && (st.Rooted || st.Why == unwind.Continuation) {
				p.shaped++
			}
		}
		f := p.sample(200)
		if 2*p.shaped < f.java {
			t.Errorf("%d of %d stacks of virtual threads look right: %v", p.shaped, f.java, f.why)
		}
	}
}

func TestRoots(t *testing.T) {
	for _, jdk := range jvmtest.JDKs(t) {
		for _, c := range []struct {
			name    string
			flags   []string
			program string
		}{
			{"compiled", nil, "Loop"},
			{"interpreted", []string{"-Xint"}, "Loop"},
			{"c1", []string{"-XX:TieredStopAtLevel=1"}, "Loop"},
			{"serial", []string{"-XX:+UseSerialGC"}, "Loop"},
			{"zgc", []string{"-XX:+UseZGC"}, "Loop"},
			{"javac", nil, "Javac"},
			{"moving", nil, "Javac"},
			{"wide", []string{"-XX:-UseCompressedClassPointers"}, "Loop"},
		} {
			t.Run(jdk.Name+"/"+c.name, func(t *testing.T) {
				p := attach(t, jdk.Start(t, c.flags, c.program))
				p.moving = c.name == "moving"
				f := p.sample(300)
				t.Logf("Java tops %d of %d rooted, native %d of %d, %d without Java, %d of %d frames without bci; %v",
					f.javaRooted, f.java, f.nativeRooted, f.native, f.other, f.noBCI, f.frames, f.why)
				if f.java == 0 || f.java-f.javaRooted > 1+f.java/100 {
					t.Errorf("%d of %d stacks with Java on top reach their root", f.javaRooted, f.java)
				}
				if f.native-f.nativeRooted > 3+f.native/20 {
					t.Errorf("%d of %d stacks with native code on top reach their root", f.nativeRooted, f.native)
				}
				if 5*f.noBCI > f.frames {
					t.Errorf("%d of %d frames have no bytecode index", f.noBCI, f.frames)
				}
			})
		}
	}
}
