package goproc

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/ehframe"
	"github.com/ccmapd/ccmapd/internal/gosym"
	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/sampler/internal/indirect"
)

// place holds the facts that an unwinder needs about an address.
type place struct {
	kind       gosym.Kind
	id         gosym.FuncID
	entry      uint64        // of the function; the address itself outside functions
	end        uint64        // of the function; 0 outside functions
	delta      int           // from SP to the return address
	hasDelta   bool          // delta is known and means something
	root       bool          // nothing called the function
	callsVDSO  bool          // one of the runtime's functions that call the vDSO
	asm        bool          // written in assembly
	crosscall2 bool          // runtime/cgo's, through which C calls back into Go
	racecall   bool          // the runtime's, through which Go calls the race detector
	preempts   bool          // the goroutine gives the thread up
	catchable  bool          // calls in the function are of interest; see catchable
	call       indirect.Call // that the address is the return address of; see callBefore
}

// stackSwitch says whether the function's caller is on another stack than its
// callee.
func (p *place) stackSwitch() bool {
	return p.id == gosym.FuncSystemstack || p.id == gosym.FuncMorestack || p.id == gosym.FuncAsmcgocall
}

// injected says whether the function is called as if by an instruction that is
// no call (runtime.unwinder.next, Go 1.26).
func (p *place) injected() bool {
	return p.id == gosym.FuncSigpanic || p.id == gosym.FuncAsyncPreempt
}

// maxPlaces bounds the cache of places, and maxRows the cache of rows, which can
// have 1 KB. A full cache is emptied: what is hot comes back at once.
const (
	maxPlaces = 1 << 16
	maxRows   = 1 << 13
)

// stepsPerSample bounds the look-ups of one sample, in steps of some ns. A
// stack of 1,000 addresses that were never met takes a third of it. Beyond the bound
// addresses are unknown: the target has made its tables so that they take long.
const stepsPerSample = 1 << 22

// code is the target's code, with a cache by address. It belongs to the
// engine's goroutine. Before the table is ready every address is unknown.
type code struct {
	pid     int
	options gosym.Options
	table   *gosym.Table
	cache   map[uint64]*place
	rows    map[uint64]*ehframe.Row // of C code; nil where the file has no row

	next    time.Time     // when symbols may be loaded again, or for the first time
	spent   time.Duration // on loading, until next was set
	renewed time.Time     // when look-ups were last given time to load for
}

var nowhere = place{kind: gosym.KindUnknown}

// at returns the place of an address. It does not allocate for an address that
// was asked for before.
func (c *code) at(pc uint64) *place {
	if c.table == nil {
		return &nowhere
	}
	if p, ok := c.cache[pc]; ok {
		return p
	}
	if len(c.cache) >= maxPlaces {
		clear(c.cache)
	}
	p := c.look(pc)
	if !c.table.Exceeded() {
		c.cache[pc] = p
	}
	return p
}

// beginSample begins a sample.
func (c *code) beginSample() {
	if c.table != nil {
		c.table.Limit(stepsPerSample)
	}
}

// spend takes steps of the sample, and says whether it had them.
func (c *code) spend(steps int) bool {
	if c.table == nil {
		return true
	}
	c.table.Spend(steps)
	return !c.table.Exceeded()
}

// bound ends all loading for samples when ctx is done.
func (c *code) bound(ctx context.Context) {
	if c.table != nil {
		c.table.Bound(ctx)
	}
}

// loadShare is the part of the time that loading symbols may take, one in so many,
// and loadPause the least time between two loads: the target decides how often it
// maps code, and how much.
const (
	loadShare = 20
	loadPause = 20 * time.Millisecond
)

// due says whether symbols may be loaded again.
func (c *code) due(now time.Time) bool { return !now.Before(c.next) }

// pace sets when symbols may be loaded again, after a load that has begun at start.
func (c *code) pace(start time.Time) {
	took := time.Since(start)
	if c.table != nil { // the loads of look-ups since the last time count, too
		took, c.spent = c.table.LoadTime()-c.spent, c.table.LoadTime()
	}
	c.next = time.Now().Add(max(loadPause, (loadShare-1)*took))
}

// renew gives look-ups their share of the time since the last call, to load for: files
// that took too much are tried again.
func (c *code) renew(now time.Time) {
	share := now.Sub(c.renewed) / loadShare
	c.renewed = now
	if c.table == nil {
		return
	}
	if stale := c.table.Renew(share); stale != nil {
		maps.DeleteFunc(c.cache, func(pc uint64, _ *place) bool { return stale(pc) })
		maps.DeleteFunc(c.rows, func(pc uint64, _ *ehframe.Row) bool { return stale(pc) })
	}
}

func (c *code) look(pc uint64) *place {
	p := &place{kind: c.table.Kind(pc), entry: pc}
	f, ok := c.table.Func(pc)
	if !ok {
		if p.kind == gosym.KindGo {
			p.kind = gosym.KindUnknown // between functions
		} else if entry, ok := c.table.SymbolEntry(pc); ok {
			p.entry = entry
		}
		return p
	}
	p.id, p.entry, p.end, p.root = f.ID, f.Entry, f.End, f.IsRoot()
	p.delta, p.hasDelta = c.table.SPDelta(pc)
	// cgocallback writes SP, too, but its frame is valid on either stack.
	if f.Flags&gosym.FlagSPWrite != 0 && pc != f.Entry && !p.stackSwitch() && p.id != gosym.FuncCgocallback {
		p.hasDelta = false
	}
	p.catchable = p.kind == gosym.KindGo && catchable(f)
	p.asm = f.Flags&gosym.FlagAsm != 0
	p.crosscall2, p.racecall = f.Name == "crosscall2", f.Name == "racecall"
	p.preempts = f.Name == "runtime.gopreempt_m" || f.Name == "runtime.goschedImpl" // Go 1.26 inlines the former
	p.callsVDSO = f.Name == "runtime.nanotime1" || f.Name == "runtime.walltime" || f.Name == "time.now"
	return p
}

// catchable reports whether calls in a function are of interest. Assembly is left out,
// because it need not keep a frame and may hold data, and so is the runtime.
func catchable(f gosym.Func) bool {
	return f.Flags&gosym.FlagAsm == 0 && !strings.HasPrefix(f.Name, "runtime.")
}

// callBefore returns the call that a return address in Go code belongs to. The finder
// reads it from the target's memory at the first time, or later when there was too much
// to read.
func (c *code) callBefore(ret uint64, f *indirect.Finder) indirect.Call {
	p := c.at(ret)
	if p.call.Kind == indirect.Unseen && p.catchable {
		p.call = f.Before(p.entry, ret, c.table.InWrapper)
	}
	return p.call
}

// row returns the call frame information of an instruction in C code.
func (c *code) row(pc uint64) (*ehframe.Row, bool) {
	if c.table == nil {
		return nil, false
	}
	r, ok := c.rows[pc]
	if !ok {
		if len(c.rows) >= maxRows {
			clear(c.rows)
		}
		r, _ = c.table.CallFrame(pc)
		if !c.table.Exceeded() {
			c.rows[pc] = r
		}
	}
	return r, r != nil
}

// isGo says whether an address is in Go code, without a trace in the cache.
func (c *code) isGo(pc uint64) bool {
	return c.table != nil && c.table.Kind(pc) == gosym.KindGo
}

// entry returns the entry of the function that an address belongs to.
func (c *code) entry(pc uint64) uint64 { return c.at(pc).entry }

// frames appends the logical frames of a stack, innermost first.
func (c *code) frames(pcs []uint64, names *ccmap.Names, dst []ccmap.Frame) []ccmap.Frame {
	if c.table == nil {
		return dst
	}
	return c.table.Stack(pcs, names, dst)
}

// target returns the method that begins at an address, wrappers included.
func (c *code) target(pc uint64, names *ccmap.Names) (ccmap.MethodID, bool) {
	if c.table == nil {
		return 0, false
	}
	return c.table.MethodAt(pc, names)
}

// openCode loads the target's symbols. It returns nil where the program was
// stopped right after exec and has not been relocated yet.
func openCode(ctx context.Context, pid int, o gosym.Options) (*code, error) {
	c := &code{pid: pid, options: o, cache: make(map[uint64]*place), rows: make(map[uint64]*ehframe.Row)}
	return c, c.load(ctx)
}

func (c *code) load(ctx context.Context) error {
	defer c.pace(time.Now())
	table, err := gosym.Open(ctx, c.pid, c.options)
	switch {
	case errors.Is(err, gosym.ErrNotReady):
		return nil
	case err != nil:
		return explainLoad(c.pid, err)
	}
	c.table, c.renewed = table, time.Now()
	c.forget()
	return nil
}

// explainLoad gives an error in loading symbols its kind and, where there is one, a cure.
func explainLoad(pid int, err error) error {
	switch {
	case errors.Is(err, gosym.ErrNotGo):
		return process.As(err, sampler.ErrNotManaged)
	case errors.Is(err, gosym.ErrUnsupported):
		return process.As(fmt.Errorf("load symbols: %w", err), sampler.ErrProgram)
	case errors.Is(err, fs.ErrPermission):
		return process.NoMemory(pid, err)
	case errors.Is(err, fs.ErrNotExist):
		return process.As(fmt.Errorf("load symbols: %w", err), sampler.ErrNoProcess)
	case errors.Is(err, gosym.ErrReplaced):
		return fmt.Errorf("load symbols: %w; attach again", err)
	}
	return fmt.Errorf("load symbols: %w", err)
}

// refresh takes up code that was mapped after the table was loaded.
func (c *code) refresh(ctx context.Context) error {
	if c.table == nil {
		return nil
	}
	defer c.pace(time.Now())
	changed, err := c.table.Refresh(ctx)
	if changed {
		c.forget()
	}
	if err != nil {
		return fmt.Errorf("refresh symbols: %w", err)
	}
	return nil
}

// same returns an error if the target no longer runs the program of the symbols. For want of
// descriptors or memory that is not known.
func (c *code) same() error {
	if c.table == nil {
		return nil
	}
	err := c.table.SameProgram()
	wants := errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) || errors.Is(err, unix.ENOMEM)
	if err == nil || wants || process.Gone(err) {
		return nil
	}
	return explainLoad(c.pid, err)
}

// hashBodies tells the bodies of sampled methods.
func (c *code) hashBodies(bytes int) {
	if c.table != nil {
		c.table.HashBodies(bytes)
	}
}

// bytes returns the memory of the table and the caches.
func (c *code) bytes() (own, common int64) {
	const of, ofRow = 192, 1 << 10 // an entry of the cache with its place, and one with a row, at most
	if c.table != nil {
		own, common = c.table.Bytes()
	}
	return own + of*int64(len(c.cache)) + ofRow*int64(len(c.rows)), common
}

// lacks returns comments on files, see [gosym.Table.Lacks].
func (c *code) lacks() []string {
	if c.table == nil {
		return nil
	}
	return c.table.Lacks()
}

// forget empties the caches.
func (c *code) forget() {
	clear(c.cache)
	clear(c.rows)
}

func (c *code) close() {
	if c.table != nil {
		c.table.Close()
	}
}
