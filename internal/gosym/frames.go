package gosym

import (
	"math"
	"strings"

	"github.com/ianlancetaylor/demangle"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/ehframe"
)

// Kind is the sort of code that an address belongs to.
type Kind uint8

const (
	KindUnknown Kind = iota // no code that is known
	KindGo                  // a function of the program counter table
	KindC                   // another ELF file's, or not Go's in the program's
	KindVDSO                // the kernel's code in user space
)

// Func returns the physical function that contains pc. It does not allocate.
func (t *Table) Func(pc uint64) (Func, bool) {
	m := t.module(pc)
	if m == nil {
		return Func{}, false
	}
	r, ok := m.find(pc)
	if !ok {
		return Func{}, false
	}
	return Func{
		Name: m.name(r.nameOff), Entry: r.entry, End: r.end,
		StartLine: r.startLine, ID: m.ids[r.rawID], Flags: r.flags,
	}, true
}

// Kind returns the sort of code at pc.
func (t *Table) Kind(pc uint64) Kind {
	if t.module(pc) != nil {
		return KindGo
	}
	switch im := t.image(pc); {
	case im == nil:
		return KindUnknown
	case im.isVDSO():
		return KindVDSO
	default:
		return KindC
	}
}

// Limit sets how many steps look-ups may take from now on. A step takes some ns, and
// most addresses a hundred. Beyond the limit what is not in a cache is unknown.
// Without a call there is no limit but the one of a single address.
func (t *Table) Limit(steps int) { t.steps = steps }

// Spend takes steps for the caller's work on an answer.
func (t *Table) Spend(steps int) { t.steps -= steps }

// Exceeded says whether look-ups have met the limit. Then answers are
// incomplete that were given since it was set.
func (t *Table) Exceeded() bool { return t.steps <= 0 }

// maxLookUp bounds the steps that are taken for one address. The largest
// generated functions have tables of some 100,000.
const maxLookUp = 1 << 18

// lookUp gives f the steps that one address may take.
func (t *Table) lookUp(f func(*budget)) {
	b := budget{steps: min(t.steps, maxLookUp), look: math.MinInt}
	before := b.steps
	f(&b)
	t.steps -= before - max(b.steps, 0)
}

// SPDelta returns how many bytes above SP the return address lies when pc is
// the next instruction to execute, and whether that is known: it is not outside
// of Go and in the few functions without a table. It does not allocate for a pc
// that was asked for before. The value is meaningless where the function's
// flags have FlagSPWrite.
func (t *Table) SPDelta(pc uint64) (delta int, ok bool) {
	if d, hit := t.deltas[pc]; hit {
		return int(d), d >= 0
	}
	d := int32(-1)
	if m := t.module(pc); m != nil {
		if r, found := m.find(pc); found {
			t.lookUp(func(b *budget) { d = m.value(b, r, r.pcsp, pc) })
		}
	}
	if t.Exceeded() {
		return int(d), false
	}
	if len(t.deltas) >= maxCached {
		clear(t.deltas)
	}
	t.deltas[pc] = d
	return int(d), d >= 0
}

// CallFrame returns where the code at pc, which is not Go's, keeps the registers
// of its caller, and whether the file that pc belongs to tells. For a return
// address ask one byte before it. It computes the row anew each time.
func (t *Table) CallFrame(pc uint64) (*ehframe.Row, bool) {
	im := t.image(pc)
	if im == nil {
		return nil, false
	}
	return t.row(im, pc)
}

// SymbolEntry returns where the function at pc begins, which is not Go's, and
// whether the file that pc belongs to has a symbol for it.
func (t *Table) SymbolEntry(pc uint64) (uint64, bool) {
	im := t.image(pc)
	if im == nil {
		return 0, false
	}
	_, entry, ok := t.lookup(im, pc)
	return entry, ok
}

// SymbolName returns the name of the function at pc, which is not Go's, and whether the file that pc belongs to
// has a symbol for it.
func (t *Table) SymbolName(pc uint64) (string, bool) {
	im := t.image(pc)
	if im == nil {
		return "", false
	}
	name, _, ok := t.lookup(im, pc)
	return name, ok
}

// Stack appends the logical frames of a physical stack, innermost first, with
// methods of names. pcs[0] is the instruction that was interrupted, the others
// are return addresses. As in runtime.tracebackPCs, callers are looked up at
// the call, but a function that a signal handler interrupted at the exact
// instruction; and wrappers are left out, but where they called a panic.
//
// The Offset of a Go frame is its line minus the function's start line; of other
// code, bytes from the symbol's start, and the method is ccmap.UnknownName
// where there is no symbol, with the path of the file as signature. Stack
// allocates nothing for addresses that were asked for before with the same names,
// and tells these which calls were inlined and where the instructions lie.
func (t *Table) Stack(pcs []uint64, names *ccmap.Names, dst []ccmap.Frame) []ccmap.Frame {
	key, callee := frameKey{}, FuncNormal
	for _, pc := range pcs {
		key.pc, key.wrappers = pc, !callee.elidesWrapper()
		e := t.entry(key, names)
		dst = append(dst, e.frames...)
		callee = e.id
		key.caller = !callee.injected()
	}
	return dst
}

// MethodAt returns the method of the physical function that begins at entry,
// and whether one does. Unlike [Table.Stack] it names wrappers, as a call through
// an interface reaches them: the receiver of a promoted method's wrapper is the
// type that embeds. The receiver of the wrapper between a generic method and its
// dictionary is the type with its arguments. The receiver of (*T).M stands for T,
// too, where M is declared for T, because the two share the wrapper.
func (t *Table) MethodAt(entry uint64, names *ccmap.Names) (ccmap.MethodID, bool) {
	m := t.module(entry)
	if m == nil {
		return 0, false
	}
	r, ok := m.find(entry)
	if !ok || r.entry != entry {
		return 0, false
	}
	var method ccmap.Method
	t.lookUp(func(b *budget) { method = m.method(m.logical(b, r, entry, r.nameOff, r.startLine, r.rawID)) })
	return t.intern(names, method), true
}

// InWrapper says whether the instruction at pc belongs to a wrapper, which
// stacks leave out, and not to a function that was inlined into one.
func (t *Table) InWrapper(pc uint64) bool {
	m := t.module(pc)
	if m == nil {
		return false
	}
	r, ok := m.find(pc)
	if !ok {
		return false
	}
	t.lookUp(func(b *budget) { t.logical = m.expand(b, r, pc, t.logical[:0]) })
	return t.logical[0].ID == FuncWrapper
}

// frameKey holds all that the logical frames of a physical pc depend on.
type frameKey struct {
	pc       uint64
	caller   bool // pc is a return address
	wrappers bool // the callee is a panic: keep a wrapper that called it
}

// frameEntry is one expanded pc.
type frameEntry struct {
	frames []ccmap.Frame
	id     FuncID // of the physical function
}

// maxCached bounds the program counters in a cache, and maxFrames their frames. A
// cache that is full is emptied: what is hot comes back at once.
const (
	maxCached = 1 << 16
	maxFrames = 1 << 19
)

// entry returns the frames of a key, from the cache or, within the limit, anew.
func (t *Table) entry(key frameKey, names *ccmap.Names) frameEntry {
	if t.names != names {
		t.forget()
		t.names = names
	}
	if e, ok := t.frames[key]; ok {
		return e
	}
	e := t.resolve(key)
	if t.Exceeded() {
		return e
	}
	if t.cached += len(e.frames); len(t.frames) >= maxCached || t.cached > maxFrames {
		clear(t.frames)
		t.cached = len(e.frames)
	}
	t.frames[key] = e
	return e
}

// resolve turns the frames of a pc into methods of t.names.
func (t *Table) resolve(key frameKey) frameEntry {
	m := t.module(key.pc)
	if m == nil {
		frames := []ccmap.Frame{t.foreign(key)}
		t.locate(key, frames)
		return frameEntry{frames: frames}
	}
	logical, id := t.expand(key, t.logical[:0])
	t.logical = logical
	frames := make([]ccmap.Frame, len(logical))
	for i, l := range logical {
		frames[i] = ccmap.Frame{Method: t.intern(t.names, m.method(l)), Offset: l.offset()}
		if i > 0 {
			t.names.SetInlined(frames[i], frames[i-1].Method)
		}
	}
	t.locate(key, frames)
	if r, ok := m.find(key.pc); ok && len(frames) > 0 && id != FuncWrapper { // a wrapper may be left out
		t.wantBody(r.entry, frames[len(frames)-1].Method)
	}
	return frameEntry{frames, id}
}

// locate tells t.names where the instruction at key lies, whose frames these are.
func (t *Table) locate(key frameKey, frames []ccmap.Frame) {
	im := t.image(key.pc)
	if im == nil || im.isVDSO() {
		return
	}
	if code := im.text; code.start < key.pc && key.pc < code.end {
		t.names.SetMapping(im.id, ccmap.Mapping{File: im.path, Start: code.start, Limit: code.end, Offset: code.offset})
		offset := key.pc - code.start + code.offset
		if key.caller {
			offset-- // in the call, as runtime/pprof has it
		}
		t.names.SetAddress(frames, key.caller, offset)
	}
}

// expand appends the logical frames at key, with the role of the physical
// function.
func (t *Table) expand(key frameKey, dst []LogicalFrame) ([]LogicalFrame, FuncID) {
	m := t.module(key.pc)
	if m == nil {
		return dst, FuncNormal
	}
	r, ok := m.find(key.pc)
	if !ok {
		return dst, FuncNormal
	}
	pc := key.pc
	if key.caller && pc > r.entry {
		pc--
	}
	base := len(dst)
	t.lookUp(func(b *budget) { dst = m.expand(b, r, pc, dst) })
	return append(dst[:base], elide(dst[base:], key.wrappers)...), m.ids[r.rawID]
}

// elide leaves out the wrappers of frames, in place. keep says that the
// innermost one was called by a panic.
func elide(frames []LogicalFrame, keep bool) []LogicalFrame {
	kept := frames[:0]
	for _, f := range frames {
		if f.ID != FuncWrapper || keep {
			kept = append(kept, f)
		}
		keep = !f.ID.elidesWrapper()
	}
	return kept
}

// offset is the line from the start line, as two's complement. An unknown start line counts as 1 ([ccmap.Names.Line]).
func (l LogicalFrame) offset() uint32 {
	if l.Line == 0 {
		return ccmap.NoOffset
	}
	return uint32(l.Line - max(l.StartLine, 1))
}

func (m *module) method(l LogicalFrame) ccmap.Method {
	name := l.Name
	if name == "" {
		name = ccmap.UnknownName
	}
	return ccmap.Method{
		Name: name, Receiver: receiver(name),
		File: l.File, StartLine: l.StartLine, Module: m.image.id,
	}
}

// foreign returns the frame of an address outside of Go.
func (t *Table) foreign(key frameKey) ccmap.Frame {
	im := t.image(key.pc)
	if im == nil {
		return t.unknown(ccmap.Method{Name: ccmap.UnknownName})
	}
	pc := key.pc
	if key.caller {
		pc--
	}
	name, entry, ok := t.lookup(im, pc)
	if !ok {
		return t.unknown(ccmap.Method{Name: ccmap.UnknownName, Signature: im.path, Module: im.id})
	}
	if t.native {
		name = demangled(name)
	}
	id := t.intern(t.names, ccmap.Method{Name: name, Module: im.id})
	return ccmap.Frame{Method: id, Offset: uint32(pc - entry)}
}

// Bounds of names of C++: a short mangled name can stand for a very long one.
const (
	maxMangled       = 16 << 10 // bytes
	maxDemangledBits = 10       // 1 KiB
)

// demangled returns the plain form of a name of C++, without parameters, and any other name as
// it is.
func demangled(name string) string {
	if len(name) > maxMangled {
		return name
	}
	plain, err := demangle.ToString(name, demangle.NoParams, demangle.NoTemplateParams, demangle.MaxLength(maxDemangledBits))
	if err != nil || plain == "" {
		return name
	}
	return plain
}

// maxNamed bounds the bytes of all names that a table gives: a target can have a
// million functions of the longest name in a few MB of its memory, and a profile
// keeps each of them.
const maxNamed = 64 << 20

// intern returns the id of a method. Beyond the bound of names the method is
// an unknown one. A method gets texts of its own: profiles outlive programs, and one name
// would keep the table of all names of its program.
func (t *Table) intern(names *ccmap.Names, m ccmap.Method) ccmap.MethodID {
	if id, known := names.Lookup(m.Name, m.Signature); known {
		return id
	}
	size := len(m.Name) + len(m.Receiver) + len(m.Signature) + len(m.File)
	if t.named+size > maxNamed {
		if t.named <= maxNamed {
			t.log.Warn("too many names: further functions are "+ccmap.UnknownName, "bytes", t.named)
		}
		t.named = maxNamed + 1
		m = ccmap.Method{Name: ccmap.UnknownName}
	} else {
		t.named += size
	}
	m.Name, m.Receiver, m.File = strings.Clone(m.Name), strings.Clone(m.Receiver), strings.Clone(m.File)
	return names.Intern(m)
}

func (t *Table) unknown(m ccmap.Method) ccmap.Frame {
	return ccmap.Frame{Method: t.intern(t.names, m), Offset: ccmap.NoOffset}
}
