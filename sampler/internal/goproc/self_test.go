package goproc

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/gosym"
	"github.com/ccmapd/ccmapd/internal/perfevent"
	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/internal/testrun"
	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/sampler/internal/indirect"
)

// openSelf opens this program.
func openSelf(t testing.TB) *Process {
	t.Helper()
	p, err := Open(t.Context(), sampler.ProcessOptions{PID: os.Getpid(), Logger: slog.New(slog.DiscardHandler)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// sampleSelf samples a goroutine of this program, which works, until take wants no
// more moments. The thread of the goroutine is bound to one CPU and ends with it.
func sampleSelf(t testing.TB, take func(*process.Moment) (done bool)) {
	t.Helper()
	failed := make(chan error)
	go func() {
		defer close(failed)
		runtime.LockOSThread()
		if err := sampleThread(take); err != nil {
			failed <- err
		}
	}()
	err := <-failed
	refused := errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.ENOENT)
	if refused {
		testrun.Lacks(t, "%v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// sampleThread samples this thread.
func sampleThread(take func(*process.Moment) (done bool)) error {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return err
	}
	cpu := 0
	for !set.IsSet(cpu) {
		cpu++
	}
	set.Zero()
	set.Set(cpu)
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return err
	}
	r, err := perfevent.OpenRing(cpu, perfevent.RingBytes(1), 1)
	if err != nil {
		return err
	}
	defer r.Close()
	form := perfevent.Form{UserOnly: true, Dump: 1 << 15}
	timer, err := perfevent.OpenTimer(form, 200*time.Microsecond, unix.Gettid(), cpu)
	if err != nil {
		return err
	}
	defer timer.Close()
	if err := timer.SendTo(r); err != nil {
		return err
	}
	for done := false; !done; {
		work(depth)
		r.Refresh()
		for ok, _ := r.Peek(); ok && !done; ok, _ = r.Peek() {
			s := perfevent.Sample{CountsLost: true}
			if r.Next.Kind == unix.PERF_RECORD_SAMPLE && s.Decode(r.Next.Misc, r.Next.Body) == nil {
				done = take(&process.Moment{TID: s.TID, Time: s.Time, HasRegs: s.HasRegs,
					Regs: s.Regs, Chain: s.Chain, Stack: s.Stack, Cut: s.Cut})
			}
			r.Advance()
			r.Release()
		}
	}
	return nil
}

var words = regexp.MustCompile(`(\pL+|\d)+`)

// depth of the work in frames, at least.
const depth = 40

// work calls functions of many kinds, with and without frames, at a depth.
//
//go:noinline
func work(deep int) int {
	if deep > 0 {
		return work(deep-1) + 1
	}
	text := strings.Repeat("alpha 7 beta ", 50)
	found := words.FindAllString(text, -1)
	slices.SortFunc(found, strings.Compare)
	counts := make(map[string]int)
	for _, w := range found {
		counts[strings.ToUpper(w)]++
	}
	return len(counts)
}

// enough moments to compare.
const enough = 100

// TestRepairEqualsWalk compares the two ways to unwind: the kernel's frame
// pointer walk with its first caller repaired, and SP deltas from the innermost
// function to the root.
func TestRepairEqualsWalk(t *testing.T) {
	t.Parallel()
	u := &openSelf(t).unwinder
	var compared, equal, repaired int
	sampleSelf(t, func(m *process.Moment) bool {
		top := u.code.at(m.Regs.IP)
		if !m.HasRegs || top.kind != gosym.KindGo {
			return false
		}
		dump := stackView{base: m.Regs.SP, bytes: m.Stack}
		walked, end := u.unwindDump(m.Regs.IP, m.Regs.SP, dump, nil)
		if end != endAtRoot {
			return false
		}
		var st stack
		u.repair(m, top, dump, &st)
		if u.interrupted(st.PCs) {
			return false // unwind walks those
		}
		u.cutAtRoot(&st)
		compared++
		if st.Repaired {
			repaired++
		}
		if slices.Equal(st.PCs, walked) {
			equal++
		} else {
			t.Logf("repaired %#x\nwalked   %#x", st.PCs, walked)
		}
		return compared == enough
	})
	t.Logf("%d of %d chains equal, %d repaired", equal, compared, repaired)
	if repaired == 0 || float64(equal) < 0.99*float64(compared) {
		t.Errorf("%d of %d repaired chains equal the walk", equal, compared)
	}
}

// TestWithoutChain: an engine that has no chain of the kernel gets the same stacks and
// the same goroutine, where the whole stack was copied.
func TestWithoutChain(t *testing.T) {
	t.Parallel()
	p := openSelf(t)
	names := ccmap.NewNames()
	var with, without process.Stack
	var frames []ccmap.Frame
	compared, equal := 0, 0
	sampleSelf(t, func(m *process.Moment) bool {
		p.Unwind(m, &with)
		if !with.Rooted || with.Foreign || slices.ContainsFunc(with.PCs, p.leavesStack) {
			return false // on two stacks, and one of them was not copied
		}
		chainless := *m
		chainless.Chain = nil
		if p.Unwind(&chainless, &without); without.WantDump {
			return false
		}
		compared++
		if slices.Equal(with.PCs, without.PCs) && without.Rooted && without.Goroutine == with.Goroutine && without.Slot == with.Slot {
			equal++
			if without.Goroutine != 0 && len(without.PCs) > len(frames) {
				frames = p.Frames(&without, names, frames[:0])
			}
		} else {
			t.Logf("with a chain %#x\nwithout      %#x", with.PCs, without.PCs)
		}
		return compared == enough
	})
	if float64(equal) < 0.99*float64(compared) {
		t.Errorf("%d of %d stacks are the same without the kernel's chain", equal, compared)
	}
	if len(frames) < depth {
		t.Fatalf("%d frames, want %d at least", len(frames), depth)
	}
	if last := frames[len(frames)-1]; !strings.Contains(names.At(last.Method).Name, "sampleSelf") {
		t.Errorf("the outermost frame is %v", names.At(last.Method))
	}
}

// leavesStack reports whether a function runs on another stack than its caller, or calls
// the race detector, which does.
func (p *Process) leavesStack(pc uint64) bool {
	at := p.code.at(pc)
	return at.stackSwitch() || at.racecall || !at.hasDelta
}

// TestTwoStacks follows frame pointers from one copied piece of stack to the other, as
// they lead from the scheduler's stack to a goroutine's.
func TestTwoStacks(t *testing.T) {
	t.Parallel()
	bytes := func(words ...uint64) (b []byte) {
		for _, w := range words {
			b = binary.NativeEndian.AppendUint64(b, w)
		}
		return b
	}
	const g0, g = 0x7ffd00000000, 0xc000010000
	m := process.Moment{
		HasRegs: true, Regs: process.Registers{IP: 1, SP: g0, BP: g0 + 8},
		Stack: bytes(0, g+16, 2), Other: bytes(0, 0, 0, 3), OtherBase: g,
	}
	u := unwinder{code: new(code), memory: noise(nil)}
	if got, want := u.chain(&m, stackView{base: g0, bytes: m.Stack}), []uint64{1, 2}; !slices.Equal(got, want) {
		t.Errorf("with one stack: %v, want %v", got, want)
	}
	var st stack
	u.unwind(&m, &st)
	if want := []uint64{1, 2, 3}; !slices.Equal(u.chained, want) || m.Chain != nil {
		t.Errorf("with two stacks: %v, want %v; the moment has %v", u.chained, want, m.Chain)
	}
	buf := make([]byte, 8)
	if err := u.read(g+24, buf); err != nil || buf[0] != 3 {
		t.Errorf("read %v of the copied piece: %v", buf, err)
	}
	if err := u.read(g+25, buf); err == nil {
		t.Error("read beyond the copied piece without memory")
	}
}

// caller is called through a method table.
type caller interface{ back() uint64 }

type here struct{ _ int }

//go:noinline
func (*here) back() uint64 {
	var pcs [1]uintptr
	runtime.Callers(2, pcs[:])
	return uint64(pcs[0])
}

//go:noinline
func call(c caller) uint64 { return c.back() + 0 }

// TestCallBefore: a call is disassembled once.
func TestCallBefore(t *testing.T) {
	p := openSelf(t)
	c := &finding{Process: p, t: t, ret: call(new(here))}
	catcher := indirect.New(indirect.Options{Code: c, Memory: p.memory, Counts: new(indirect.Counts), Budget: 1, Log: slog.New(slog.DiscardHandler)})
	catcher.Turn(time.Now())
	catcher.Watch(7, []uint64{c.ret, 8})
	again := []uint64{c.ret}
	if allocs := testing.AllocsPerRun(100, func() { catcher.Watch(7, again) }); allocs > 0 {
		t.Errorf("a call that was seen before takes %v allocations", allocs)
	}
}

// finding checks the calls that are found in this program.
type finding struct {
	*Process
	t   *testing.T
	ret uint64
}

func (c *finding) CallBefore(ret uint64, f *indirect.Finder) indirect.Call {
	found := c.Process.CallBefore(ret, f)
	want := indirect.Unseen
	if ret == c.ret {
		want = indirect.Interface
	}
	if found.Kind != want {
		c.t.Errorf("call before %#x: %+v, want kind %d", ret, found, want)
	}
	return found
}

// TestExplainLoad: an error in loading symbols has a kind of package sampler, and a target that
// replaced itself can be attached to again.
func TestExplainLoad(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]struct {
		kind error
		text string
	}{
		gosym.ErrNotGo:       {sampler.ErrNotManaged, ""},
		gosym.ErrUnsupported: {sampler.ErrUnsupported, "load symbols: "},
		gosym.ErrReplaced:    {gosym.ErrReplaced, "; attach again"},
		fs.ErrNotExist:       {sampler.ErrNoProcess, "load symbols: "},
		fs.ErrPermission:     {sampler.ErrPermission, "another user"},
	} {
		if got := explainLoad(os.Getpid(), fmt.Errorf("wrapped: %w", err)); !errors.Is(got, want.kind) || !strings.Contains(got.Error(), want.text) {
			t.Errorf("%v becomes %v, want %v with %q", err, got, want.kind, want.text)
		}
	}
}

// Without a free descriptor it is not known whether the target has replaced itself: that is no exec.
// The test does not run in parallel: others open files.
func TestSameProgramWithoutDescriptors(t *testing.T) {
	p := openSelf(t)
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
			t.Error(err)
		}
	}()
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 0, Max: before.Max}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Open(os.DevNull); !errors.Is(err, unix.EMFILE) {
		t.Fatalf("open: %v, want %v", err, unix.EMFILE)
	}
	if err := p.SameProgram(); err != nil {
		t.Errorf("without descriptors: %v", err)
	}
}
