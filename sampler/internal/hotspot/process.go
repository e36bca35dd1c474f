package hotspot

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ccmapd/ccmapd/internal/gosym"
	"github.com/ccmapd/ccmapd/internal/hang"
	"github.com/ccmapd/ccmapd/internal/jvm/classpath"
	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/sampler/internal/hotspot/classes"
	"github.com/ccmapd/ccmapd/sampler/internal/hotspot/unwind"
	"github.com/ccmapd/ccmapd/sampler/internal/hotspot/vmstructs"
)

// Process is a HotSpot JVM. It belongs to the engine's goroutine, but for Count.
type Process struct {
	pid     int
	log     *slog.Logger
	watch   *hang.Watch
	vm      *vmstructs.VM
	classes *classes.Table
	java    *unwind.Unwinder
	native  *native

	caller  process.Moment // reused
	deep    deep
	threads map[uint32]string // names of threads, as of the last second

	nameThreads bool // in labels
	named       named

	hot hot // shared with the goroutine of Count
}

// methods tells the unwinder of methods.
type methods struct{ table *classes.Table }

// Bytecode is part of [unwind.Methods].
func (m methods) Bytecode(addr uint64) (begin uint64, size int, ok bool) {
	method, err := m.table.Method(addr)
	if err != nil {
		return 0, 0, false
	}
	return method.CodeBegin, method.CodeSize, true
}

var (
	_ process.Runtime  = (*Process)(nil)
	_ process.Nameless = (*Process)(nil)
)

// Open reads the JVM's tables and the symbols of its libraries. The watch gives up reads of the
// target's memory and files that never return.
//
// Errors wrap the errors of package sampler.
func Open(ctx context.Context, o sampler.ProcessOptions, w *hang.Watch) (*Process, error) {
	pid, log := o.PID, o.Logger
	p := &Process{pid: pid, log: log, watch: w, threads: make(map[uint32]string), deep: deep{memory: process.MemoryOf(pid, w)}, nameThreads: o.Threads}
	p.deep.renew()
	if err := p.open(ctx, o.SymbolCache); err != nil {
		p.Close()
		return nil, explain(pid, err)
	}
	return p, nil
}

func (p *Process) open(ctx context.Context, cache string) error {
	maps, err := process.OpenMaps(p.pid)
	if err != nil {
		return err
	}
	defer maps.Close()
	if p.vm, err = vmstructs.Open(ctx, process.MemoryOf(p.pid, p.watch), maps); err != nil {
		return err
	}
	if p.classes, err = classes.New(p.vm); err != nil {
		return err
	}
	if p.java, err = unwind.New(p.vm, methods{p.classes}); err != nil {
		return err
	}
	if p.native, err = openNative(ctx, p.pid, gosym.Options{Logger: p.log, Watch: p.watch, SymbolCache: cache}); err != nil {
		return err
	}
	p.native.load(p.vm.Low)
	return nil
}

// explain gives an error in reading the JVM its kind and, where there is one, a cure.
func explain(pid int, err error) error {
	if stat, gone := process.ReadStat(pid); gone != nil || stat.Zombie() { // what was read of it makes no sense
		return process.As(fmt.Errorf("read the JVM, which has ended: %w", err), sampler.ErrNoProcess)
	}
	switch {
	case errors.Is(err, vmstructs.ErrUnsupported):
		return process.As(fmt.Errorf("%w; HotSpot of JDK 17 to 25 is supported", err), sampler.ErrUnsupported)
	case errors.Is(err, vmstructs.ErrNotHotSpot): // its libjvm.so is another's, or the process is no JVM any more
		return process.As(err, sampler.ErrNotManaged)
	case errors.Is(err, fs.ErrPermission), errors.Is(err, unix.EPERM):
		return process.NoMemory(pid, err)
	case process.Gone(err):
		return process.As(fmt.Errorf("read the JVM: %w", err), sampler.ErrNoProcess)
	}
	return fmt.Errorf("read the JVM: %w", err)
}

// Close releases the files of the target's libraries.
func (p *Process) Close() {
	if p.native != nil {
		p.native.table.Close()
	}
}

// Bound is part of [process.Loader].
func (p *Process) Bound(ctx context.Context) { p.native.table.Bound(ctx) }

// Load is part of [process.Loader]. A JVM has its tables as soon as it is one.
func (p *Process) Load(context.Context) bool { return false }

// Refresh is part of [process.Loader].
func (p *Process) Refresh(ctx context.Context, now time.Time) (bool, error) {
	return p.native.refresh(ctx, now)
}

// Renew is part of [process.Loader]. It also drops what may have changed: the names of threads,
// and of classes that the JVM has unloaded.
func (p *Process) Renew(now time.Time) {
	p.native.renew(now)
	p.deep.renew()
	clear(p.threads)
	p.classes.Refresh()
}

// Remedy is part of [process.Nameless].
func (p *Process) Remedy(file string) string { return p.native.table.Remedy(file) }

// Bytes is part of [process.Loader].
func (p *Process) Bytes() (own, common int64) {
	own, common = p.native.table.Bytes()
	own += p.native.bytes() + p.classes.Bytes() + p.java.Bytes() + p.named.size()
	return own + int64(cap(p.deep.stack)), common
}

// Build is part of [process.Loader].
func (p *Process) Build() (id, version string) {
	return classpath.BuildOf(p.pid, p.vm.BuildID, p.watch), product(p.vm.Info) + " " + p.vm.Version
}

// product returns the name of the JVM, out of its own line about itself, such as
// "OpenJDK 64-Bit Server VM (17.0.15+6) for linux-amd64 JRE …".
func product(info string) string {
	name, _, _ := strings.Cut(info, " ")
	if name == "" || len(name) > 64 {
		return "HotSpot"
	}
	return name
}

// Lacks is part of [process.Lacking].
func (p *Process) Lacks() []string { return p.native.table.Lacks() }

// SameProgram is part of [process.Loader].
func (p *Process) SameProgram() error {
	err := p.native.table.SameProgram()
	if errors.Is(err, gosym.ErrReplaced) {
		return err
	}
	return nil // what is not known for want of descriptors, or because the process has ended
}

// stackBytes holds most stacks of servers: their hundred Java frames have about 100 bytes each.
const stackBytes = 32 << 10

// StackBytes is part of [process.Deep]. The copied stack is all that leads to Java callers.
func (p *Process) StackBytes() uint32 { return stackBytes }
