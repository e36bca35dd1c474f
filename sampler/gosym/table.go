package gosym

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"

	"github.com/ccmapd/ccmapd/ccmap"
)

// Options of a Table. The zero value is useful.
type Options struct {
	Logger *slog.Logger // told which files have no symbols, and why; nil: nobody is
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
	pid       int // 0 for a file
	mem       memory
	log       *slog.Logger
	exe       string // path of the executable, as the target sees it
	goVersion string
	layout    Layout
	hasLayout bool

	modules []*module
	images  []*image // the executable's first
	ids     funcIDs

	names   *ccmap.Names // that frames refers to
	frames  map[frameKey]frameEntry
	deltas  map[uint64]int32
	logical []LogicalFrame // scratch of resolve
}

// Open reads the symbols of a running process. Who may trace the process may
// open it (ptrace(2), PTRACE_MODE_READ).
func Open(pid int, o Options) (*Table, error) {
	exe, err := executablePath(pid)
	if err != nil {
		return nil, fmt.Errorf("find executable of process %d: %w", pid, err)
	}
	maps, err := readMaps(pid)
	if err != nil {
		return nil, err
	}
	t := newTable(pid, &processMemory{pid: pid}, exe, o)
	t.adopt(maps)
	if err := t.loadModules(maps); err != nil {
		return nil, errors.Join(err, t.Close())
	}
	t.findLayout()
	return t, nil
}

func newTable(pid int, mem memory, exe string, o Options) *Table {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Table{
		pid: pid, mem: mem, exe: exe, log: o.Logger,
		frames: map[frameKey]frameEntry{},
		deltas: map[uint64]int32{},
	}
}

// Refresh looks at the memory map again, for libraries and plugins that were
// loaded since. Libraries that are gone are forgotten. It does not notice an
// exec: then the table describes a program that no longer runs. An error leaves
// the table as it was. A file does not change.
func (t *Table) Refresh() error {
	if t.pid == 0 {
		return nil
	}
	maps, err := readMaps(t.pid)
	if err != nil {
		return err
	}
	t.adopt(maps)
	clear(t.frames)
	clear(t.deltas)
	return t.loadModules(maps)
}

// adopt makes the images those of a memory map, keeping the ones that are still
// in it.
func (t *Table) adopt(maps space) {
	old := t.images
	t.images = nil
	for _, im := range groupImages(maps) {
		if i := slices.IndexFunc(old, im.replaces); i >= 0 {
			old[i].maps, old[i].end = im.maps, im.end
			im = old[i]
			old = slices.Delete(old, i, i+1)
		} else {
			t.openImage(im)
		}
		t.images = append(t.images, im)
	}
	slices.SortStableFunc(t.images, func(a, b *image) int {
		return cmp.Compare(t.rank(a), t.rank(b))
	})
	for _, im := range old {
		im.close()
	}
}

// rank puts the executable first, so that its runtime is found before a
// plugin's.
func (t *Table) rank(im *image) int {
	if im.path == t.exe {
		return 0
	}
	return 1
}

// openImage makes an image's symbols readable, if it has code and they can be.
func (t *Table) openImage(im *image) {
	if _, ok := im.code(); !ok {
		return
	}
	var err error
	if im.isVDSO() {
		err = im.openVDSO(t.mem)
	} else if err = t.openImageFile(im); err != nil {
		err = fmt.Errorf("open %s: %w", im.path, err)
	}
	if err != nil {
		t.log.Warn("no symbols", "file", im.path, "reason", err)
	}
}

func (t *Table) openImageFile(im *image) error {
	open := openInTarget
	if im.path == t.exe {
		open = func(pid int, _ string) (*os.File, error) { return openExecutable(pid) }
	}
	f, err := open(t.pid, im.path)
	if err != nil {
		return err
	}
	return im.openFile(f, t.mem)
}

// Close releases files. What was found so far can still be looked up.
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
	for _, im := range t.images {
		if im.contains(pc) {
			return im
		}
	}
	return nil
}

// Executable returns the path of the program as the target sees it.
func (t *Table) Executable() string { return t.exe }

// GoVersion returns what the program was built with, for example "go1.26.8";
// empty where unknown.
func (t *Table) GoVersion() string { return t.goVersion }

// BuildID returns the program's GNU build id in hex or, where it has none, its
// Go build id; empty where it has neither. In a C program it is that of the
// Go library.
func (t *Table) BuildID() string {
	if im := t.modules[0].image; im.id != im.path {
		return im.id
	}
	return ""
}

// Layout returns the offsets of fields of the runtime's g and m, and whether
// they are known for the program's Go version.
func (t *Table) Layout() (Layout, bool) { return t.layout, t.hasLayout }

// Layouts returns the layouts that the runtime's g and m can have, the likeliest
// first: by the program's Go version or debug information, if known says so, then
// those of all versions, the newest first. Nothing here proves one of them.
func (t *Table) Layouts() (all []Layout, known bool) {
	if t.hasLayout {
		all = append(all, t.layout)
	}
	for minor := newestMinor; minor >= oldestMinor; minor-- {
		if l, _ := layoutOf(minor); !slices.Contains(all, l) {
			all = append(all, l)
		}
	}
	return all, t.hasLayout
}
