package gosym

import (
	"cmp"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/hang"
)

// Options of a Table. The zero value is useful.
type Options struct {
	Logger *slog.Logger // told which files have no symbols, and why; may be nil
	Watch  *hang.Watch  // sees the reads that the target can keep waiting; nil: nothing does

	// Native says that the process is no Go program: no Go code is looked for, and all of its
	// files hold code of C, or of C++, whose names are demangled.
	Native bool

	// SymbolCache is the directory of the caller's debuginfod client, which may hold debug files of C. It is
	// opened with the caller's rights; "": none is looked for.
	SymbolCache string
}

// Table holds the symbols of one process.
//
// One goroutine owns a Table: look-ups fill its caches. The strings that it
// gives stay valid after Close.
//
//	modules   Go code; each immutable once loaded, and independent of the target
//	images    ELF files and vDSO; symbols are loaded when asked for
//	frames    cache: pc → logical frames, with methods of names; emptied when full
//	deltas    cache: pc → SP delta; emptied when full
type Table struct {
	pid   int
	mem   memory
	log   *slog.Logger
	watch *hang.Watch // nil in tests
	debug debugFiles

	distribution *distribution // of the process; nil: not read yet

	program   program // that the process ran when its symbols were loaded
	native    bool    // see Options
	exe       string  // path of the executable, as the target sees it
	goVersion string
	commit    time.Time // of the program's source; zero: not known
	layout    Layout
	hasLayout bool

	modules []*module
	images  []*image // the executable's first
	areas   []area   // of the images, in the order of addresses
	ids     funcIDs

	names   *ccmap.Names // that frames refers to
	frames  map[frameKey]frameEntry
	cached  int // frames in frames
	deltas  map[uint64]int32
	logical []LogicalFrame // scratch of resolve
	bodies  bodies

	// The costs of the target so far, and their bounds.
	held   int           // bytes of modules and images
	common int           // of them, in tables that other processes may hold, too
	named  int           // bytes of names that were given
	late   late          // for which look-ups may load
	steps  int           // of look-ups; see Limit
	loaded time.Duration // see LoadTime
	delay  delayReader   // tells the waits for a processor
}

// area is a mapping of an image.
type area struct {
	start, end uint64
	image      *image
}

// Open reads the symbols of a running process. The caller needs the right to trace the
// process (ptrace(2), PTRACE_MODE_READ). Open ends within seconds, and when ctx is
// done. A process whose symbols take too much time or memory gives
// [ErrTooMuch] or, if some of its modules could be loaded, a table of these.
func Open(ctx context.Context, pid int, o Options) (*Table, error) {
	of := func() (program, error) { return programOf(pid, o.Watch) }
	b, end := beginLoad(newBudget(ctx, 0), readRunDelay)
	defer end()
	return loadOne(of, b, func(p program) (*Table, error) {
		t := newTable(pid, &processMemory{pid: pid, watch: o.Watch}, p.exe, o)
		t.program, t.debug = p, debugFilesOf(pid, o.SymbolCache)
		if _, err := t.reload(b); err != nil {
			return nil, errors.Join(err, t.Close())
		}
		return t, nil
	})
}

func newTable(pid int, mem memory, exe string, o Options) *Table {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	t := &Table{
		pid: pid, mem: mem, native: o.Native, exe: exe, log: o.Logger, watch: o.Watch,
		frames: map[frameKey]frameEntry{},
		deltas: map[uint64]int32{},
		late:   late{ctx: context.Background(), parts: maxLate / 2, pages: maxLate / 2},
		delay:  readRunDelay,
	}
	t.Limit(math.MaxInt)
	return t
}

// Refresh looks at the memory map again, for libraries and plugins that were
// loaded since, and says whether anything has changed. Libraries that are gone are
// forgotten. After an exec it returns [ErrReplaced]: the table describes a program that
// no longer runs.
func (t *Table) Refresh(ctx context.Context) (changed bool, err error) {
	if err := t.SameProgram(); err != nil {
		return false, err
	}
	b, end := beginLoad(newBudget(ctx, t.held), t.delay)
	defer end()
	if changed, err = t.reload(b); changed {
		t.forget()
	}
	return changed, cmp.Or(t.SameProgram(), err)
}

// reload loads the parts of the memory map that the table lacks, within a budget.
func (t *Table) reload(b *budget) (changed bool, err error) {
	defer t.clock(b.stopwatch())
	maps, err := readMaps(b, t.pid)
	if err != nil {
		return false, err
	}
	if len(maps) == maxMappings {
		t.log.Warn("memory map is too long: the code in the rest of it is unknown", "mappings", maxMappings)
	}
	l := &load{budget: b, mem: t.mem, maps: maps}
	modules := len(t.modules)
	if modules == 0 && !t.native {
		if err := l.permitted(); err != nil {
			return false, err
		}
	}
	changed = t.adopt(l)
	if !t.native {
		err = t.loadModules(l)
	}
	if err == nil && modules == 0 && !t.native {
		t.identify(b)
		t.findLayout(b)
	}
	if err == nil && b.ended() {
		err = b.spent
	}
	return changed || len(t.modules) > modules, err
}

// clock counts the time of a stopwatch as loading.
func (t *Table) clock(s stopwatch) { t.loaded += s.took() }

// LoadTime returns how long loading has taken so far, in Open, Refresh and look-ups
// of C: CPU time, and waits for the target. A caller that refreshes often can pace itself by it.
func (t *Table) LoadTime() time.Duration { return t.loaded }

// forget empties the caches.
func (t *Table) forget() {
	clear(t.frames)
	clear(t.deltas)
	t.cached = 0
	clear(t.bodies.known) // a library may lie elsewhere now
	clear(t.bodies.pending)
}

// identity tells images apart. The path does only where there is no file: the path of a
// file changes when the file is renamed or removed.
type identity struct {
	device, inode uint64
	path          string // where inode is 0
	start         uint64
}

func (im *image) identity() identity {
	if m := im.maps[0]; m.inode != 0 {
		return identity{device: m.device, inode: m.inode, start: im.start}
	}
	return identity{path: im.path, start: im.start}
}

// adopt takes over the images of a memory map, and keeps an image that is still in
// it. It reports whether an image lies elsewhere now.
func (t *Table) adopt(l *load) (changed bool) {
	old := make(map[identity]*image, len(t.images))
	for _, im := range t.images {
		old[im.identity()] = im
	}
	t.images = groupImages(l.maps)
	for i, im := range t.images {
		id := im.identity()
		if known := old[id]; known != nil {
			known.maps, known.text, known.end = im.maps, im.text, im.end
			t.images[i] = known
			delete(old, id)
		} else {
			t.openImage(l, im)
		}
	}
	slices.SortStableFunc(t.images, func(a, b *image) int {
		return cmp.Compare(t.rank(a), t.rank(b))
	})
	for _, im := range old {
		t.held -= im.held
		t.common -= im.common
		im.close()
	}
	before := t.areas
	t.areas = areasOf(t.images)
	return !slices.Equal(before, t.areas)
}

// areasOf returns where images lie.
func areasOf(images []*image) []area {
	var areas []area
	for _, im := range images {
		for _, m := range im.maps {
			areas = append(areas, area{m.start, m.end, im})
		}
	}
	slices.SortFunc(areas, func(a, b area) int { return cmp.Compare(a.start, b.start) })
	return areas
}

// rank puts the executable first, so that its runtime is found before a
// plugin's.
func (t *Table) rank(im *image) int {
	if im.path == t.exe {
		return 0
	}
	return 1
}

// openImage makes an image's symbols readable, if they can be.
func (t *Table) openImage(l *load, im *image) {
	if l.spent != nil {
		return // which was said of the file that it ended with
	}
	var err error
	if im.isVDSO() {
		err = im.openVDSO(l)
	} else if err = t.openImageFile(l, im); err != nil {
		err = fmt.Errorf("open %s: %w", im.path, err)
	}
	if err != nil {
		t.log.Warn("no symbols", "file", im.path, "reason", err)
	}
}

func (t *Table) openImageFile(l *load, im *image) error {
	open := openInTarget
	if im.path == t.exe {
		open = func(pid int, _ string) (*os.File, error) { return openExecutable(pid) }
	}
	f, start := &watchedFile{watch: t.watch}, time.Now()
	err := t.watch.Call(func() (err error) {
		f.File, err = open(t.pid, im.path)
		return err
	})
	spent := l.waited(start)
	if err != nil {
		return err
	}
	if spent != nil {
		return errors.Join(spent, f.Close())
	}
	return im.openFile(l, f)
}

// Bytes returns the memory that the table holds, with its caches: common is what the tables of other processes with
// the same program and libraries share with it, own is the rest.
func (t *Table) Bytes() (own, common int64) {
	const frame, delta, function = 128, 32, 32 // bytes of an entry in a cache, about, and 8 more for each of its frames
	own = int64(t.held-t.common) + frame*int64(len(t.frames)) + 8*int64(t.cached) + delta*int64(len(t.deltas)) +
		function*int64(len(t.bodies.known)+len(t.bodies.pending))
	for _, m := range t.modules {
		if m.paged != nil {
			own += m.paged.held()
		}
	}
	return own, int64(t.common)
}

// Close releases files. Addresses can still be looked up, except in tables that are too large
// to hold.
func (t *Table) Close() error {
	var errs []error
	for _, im := range t.images {
		errs = append(errs, im.close())
	}
	if c, ok := t.mem.(io.Closer); ok {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

// module returns the Go module that contains pc, or nil.
func (t *Table) module(pc uint64) *module {
	for _, m := range t.modules {
		if m.contains(pc) {
			return m
		}
	}
	return nil
}

// image returns the image that contains pc, or nil.
func (t *Table) image(pc uint64) *image {
	i, _ := slices.BinarySearchFunc(t.areas, pc, func(a area, pc uint64) int {
		if a.end <= pc {
			return -1
		}
		return 1
	})
	if i < len(t.areas) && t.areas[i].start <= pc {
		return t.areas[i].image
	}
	return nil
}

// Commit returns when the program's source was committed; zero where unknown.
func (t *Table) Commit() time.Time { return t.commit }

// GoVersion returns the version of Go that built the program, for example "go1.26.8";
// empty where unknown.
func (t *Table) GoVersion() string { return t.goVersion }

// identify names a program without a build id by its code.
func (t *Table) identify(b *budget) {
	if im := t.modules[0].image; im.id == im.path && im.file != nil {
		im.id = cmp.Or(codeID(b, im.file), im.path)
	}
}

// BuildID returns the program's GNU build id in hex or, where it has none, its
// Go build id, or else the hash of its code; empty where that cannot be read. In a C program it is the
// Go library's.
// A native table has none.
func (t *Table) BuildID() string {
	if t.native {
		return ""
	}
	if im := t.modules[0].image; im.id != im.path {
		return im.id
	}
	return ""
}

// Origin says where the symbols of a program come from.
type Origin struct {
	FoundBy  string // how the tables of Go were found, for people
	Read     bool   // the program's file could be read
	Stripped bool   // the file has no symbol table: C functions that are not exported have no names
	Cgo      bool   // the program is linked with C
}

// Origin says where the symbols come from. The table must not be native.
func (t *Table) Origin() Origin {
	m := t.modules[0]
	o := Origin{FoundBy: m.image.foundBy, Cgo: strings.Contains(m.names, "\x00crosscall2\x00")} // runtime/cgo's
	if f := m.image.file; f != nil {
		symbols, _ := f.ofType(elf.SHT_SYMTAB)
		o.Read, o.Stripped = true, symbols == nil
	}
	return o
}

// Layouts returns the offsets of fields that the runtime's g and m can have, the likeliest
// first: by the program's Go version or debug information, if known says so, then
// the layouts of all versions, the newest first. Nothing here proves one of them.
func (t *Table) Layouts() (all []Layout, known bool) {
	if t.hasLayout {
		all = append(all, t.layout)
	}
	for minor := newestMinor; minor >= oldestMinor; minor-- {
		l, _ := layoutOf(minor)
		l.GLabels, l.LabelsAreMap = NoField, false // samples do not prove them
		if !slices.Contains(all, l) {
			all = append(all, l)
		}
	}
	return all, t.hasLayout
}

// Errors that [Open] and [Table.Refresh] wrap. A process that does
// not exist or may not be read gives errors for which errors.Is finds
// fs.ErrNotExist or fs.ErrPermission.
var (
	// ErrNotGo: no image of the process has a Go program counter table.
	ErrNotGo = errors.New("not a Go program")
	// ErrNotReady: the program has not been relocated yet; it was stopped, or
	// seen, right after exec. Try again once it has run.
	ErrNotReady = errors.New("program is not relocated yet")
	// ErrUnsupported: a Go program, of a version or form that is not known here.
	ErrUnsupported = errors.New("unsupported Go program")
	// ErrReplaced: the process has replaced itself by another program (exec).
	ErrReplaced = errors.New("the process replaced itself by another program (exec) meanwhile")
	// errCorrupt: tables that contradict themselves.
	errCorrupt = errors.New("corrupt symbol table")
)
