// Package cutdisk is a file system in memory whose power is cut, for tests. It keeps no promise that POSIX does not
// make: what was not synced may be there after the cut, or not, or in part, or as zeros; names that were made,
// replaced or removed in a directory that was not synced may be as before or after, each for itself.
package cutdisk

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/ccmapd/ccmapd/internal/store/internal/disk"
)

// ErrOff is the error of all calls after the cut.
var ErrOff = errors.New("the power is off")

// Disk is a file system. Any goroutine may call its methods.
type Disk struct {
	// Fail, if it is set, may end a call with an error before it does anything: of "write", "sync", "create",
	// "rename", "link", "remove" or "syncdir".
	Fail func(call, name string) error

	mu    sync.Mutex
	rnd   *rand.Rand
	root  *node
	left  int // calls that change something until the cut
	clock int64
}

// New returns an empty disk, whose power is cut before the call with a number.
func New(seed uint64, calls int) *Disk {
	return &Disk{rnd: rand.New(rand.NewPCG(seed, 0)), root: newDir(), left: calls}
}

// node is a file or directory.
type node struct {
	ino          uint64
	time         int64
	data, synced []byte
	names, saved map[string]*node // of a directory; nil: a file
	changes      []change
}

// change is what a directory has not synced: all of it happens, or nothing.
type change map[string]*node // nil: the name is gone

func newDir() *node {
	return &node{ino: rand.Uint64(), names: make(map[string]*node), saved: make(map[string]*node)}
}

// Left returns how many calls there are until the cut.
func (d *Disk) Left() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.left
}

// Cut returns the disk as it may be after the cut, with calls until the next.
func (d *Disk) Cut(calls int) *Disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	after := &Disk{rnd: d.rnd, left: calls, clock: d.clock}
	after.root = d.cutDir(d.root, make(map[*node]*node))
	return after
}

// cutDir returns a directory after the cut. Files with two names stay one file.
func (d *Disk) cutDir(dir *node, files map[*node]*node) *node {
	names := dir.saved
	for _, c := range dir.changes {
		if d.rnd.IntN(2) == 0 {
			continue
		}
		for name, n := range c {
			names[name] = n
			if n == nil {
				delete(names, name)
			}
		}
	}
	after := newDir()
	for _, name := range sorted(names) {
		n := names[name]
		if files[n] == nil {
			if n.names != nil {
				files[n] = d.cutDir(n, files)
			} else {
				data := d.cutFile(n)
				files[n] = &node{ino: n.ino, time: n.time, data: data, synced: slices.Clone(data)}
			}
		}
		after.names[name], after.saved[name] = files[n], files[n]
	}
	return after
}

// cutFile returns the bytes of a file after the cut.
func (d *Disk) cutFile(n *node) []byte {
	data := slices.Clone(n.data)
	common := 0
	for common < min(len(n.synced), len(data)) && n.synced[common] == data[common] {
		common++
	}
	switch d.rnd.IntN(4) {
	case 0:
		return slices.Clone(n.synced)
	case 1:
		return data
	case 2: // a part
		if common < len(n.synced) {
			return slices.Clone(n.synced)
		}
		return data[:common+d.rnd.IntN(len(data)-common+1)]
	}
	if common < len(n.synced) {
		return data
	}
	for from := common + d.rnd.IntN(len(data)-common+1); from < len(data); from++ { // the file grew, its bytes are missing
		data[from] = 0
	}
	return data
}

func sorted(names map[string]*node) []string {
	var all []string
	for name := range names {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}

// change counts a call that changes something.
func (d *Disk) changes(call, name string) error {
	if d.left <= 0 {
		return ErrOff
	}
	d.left--
	d.clock++
	if d.Fail != nil {
		return d.Fail(call, name)
	}
	return nil
}

func (d *Disk) find(name string) (*node, error) {
	if d.left <= 0 {
		return nil, ErrOff
	}
	n := d.root
	for _, part := range strings.Split(path.Clean(name), "/") {
		if part == "." {
			continue
		}
		next := n.names[part]
		if next == nil {
			return nil, &fs.PathError{Op: "open", Path: name, Err: syscall.ENOENT}
		}
		n = next
	}
	return n, nil
}

// set gives a directory a name, or takes it.
func (n *node) set(c change) {
	for name, to := range c {
		n.names[name] = to
		if to == nil {
			delete(n.names, name)
		}
	}
	n.changes = append(n.changes, c)
}

// Create is as [disk.Dir.Create].
func (d *Disk) Create(name string) (disk.File, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.changes("create", name); err != nil {
		return nil, err
	}
	dir := d.root
	for _, part := range strings.Split(path.Dir(name), "/") {
		if part == "." {
			continue
		}
		if dir.names[part] == nil {
			dir.set(change{part: newDir()})
		}
		dir = dir.names[part]
	}
	if dir.names[path.Base(name)] != nil {
		return nil, &fs.PathError{Op: "create", Path: name, Err: syscall.EEXIST}
	}
	n := &node{ino: rand.Uint64(), time: d.clock}
	dir.set(change{path.Base(name): n})
	return &file{disk: d, node: n, name: name}, nil
}

// Extend is as [disk.Dir.Extend].
func (d *Disk) Extend(name string) (disk.File, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n, err := d.find(name)
	if err != nil {
		return nil, err
	}
	return &file{disk: d, node: n, name: name}, nil
}

// Open is as [disk.Dir.Open].
func (d *Disk) Open(name string) (disk.Source, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n, err := d.find(name)
	if err != nil {
		return nil, err
	}
	return &source{Reader: io.NewSectionReader(reader{d, n}, 0, 1<<62), reader: reader{d, n}, info: info{path.Base(name), n}}, nil
}

// Stat is as [disk.Dir.Stat].
func (d *Disk) Stat(name string) (fs.FileInfo, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n, err := d.find(name)
	if err != nil {
		return nil, err
	}
	return info{path.Base(name), n}, nil
}

// List is as [disk.Dir.List].
func (d *Disk) List(name string) ([]fs.FileInfo, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	dir, err := d.find(name)
	if err != nil {
		return nil, err
	}
	var infos []fs.FileInfo
	for _, name := range sorted(dir.names) {
		infos = append(infos, info{name, dir.names[name]})
	}
	return infos, nil
}

// Rename is as [disk.Dir.Rename].
func (d *Disk) Rename(from, to string) error {
	return d.inDir("rename", from, to, func(dir, n *node) {
		dir.set(change{path.Base(from): nil, path.Base(to): n})
	})
}

// Link is as [disk.Dir.Link].
func (d *Disk) Link(from, to string) error {
	return d.inDir("link", from, to, func(dir, n *node) { dir.set(change{path.Base(to): n}) })
}

func (d *Disk) inDir(call, from, to string, do func(dir, n *node)) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.changes(call, to); err != nil {
		return err
	}
	dir, err := d.find(path.Dir(from))
	if err != nil {
		return err
	}
	n := dir.names[path.Base(from)]
	if n == nil {
		return &fs.PathError{Op: call, Path: from, Err: syscall.ENOENT}
	}
	do(dir, n)
	return nil
}

// Remove is as [disk.Dir.Remove].
func (d *Disk) Remove(name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.changes("remove", name); err != nil {
		return err
	}
	n, err := d.find(name)
	if err != nil {
		return err
	}
	if len(n.names) > 0 {
		return &fs.PathError{Op: "remove", Path: name, Err: syscall.ENOTEMPTY}
	}
	dir, err := d.find(path.Dir(name))
	if err != nil {
		return err
	}
	dir.set(change{path.Base(name): nil})
	return nil
}

// SyncDir is as [disk.Dir.SyncDir].
func (d *Disk) SyncDir(name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.changes("syncdir", name); err != nil {
		return err
	}
	for ; ; name = path.Dir(name) {
		dir, err := d.find(name)
		if err != nil {
			return err
		}
		dir.changes = nil
		dir.saved = make(map[string]*node)
		for name, n := range dir.names {
			dir.saved[name] = n
		}
		if name == "." {
			return nil
		}
	}
}

// file is a new file.
type file struct {
	disk *Disk
	node *node
	name string
}

func (f *file) Write(b []byte) (int, error) {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if err := f.disk.changes("write", f.name); err != nil {
		n := 0
		if !errors.Is(err, ErrOff) {
			n = f.disk.rnd.IntN(len(b) + 1) // a disk that is full takes a part
		}
		f.node.data = append(f.node.data, b[:n]...)
		return n, err
	}
	f.node.data = append(f.node.data, b...)
	return len(b), nil
}

func (f *file) Sync() error {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if err := f.disk.changes("sync", f.name); err != nil {
		return err
	}
	f.node.synced = slices.Clone(f.node.data)
	return nil
}

func (f *file) Truncate(size int64) error {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if err := f.disk.changes("truncate", f.name); err != nil {
		return err
	}
	f.node.data = slices.Clone(f.node.data[:size])
	return nil
}

func (f *file) Close() error { return nil }

// reader reads a file as it is at the moment.
type reader struct {
	disk *Disk
	node *node
}

func (r reader) ReadAt(b []byte, off int64) (int, error) {
	r.disk.mu.Lock()
	defer r.disk.mu.Unlock()
	return bytes.NewReader(r.node.data).ReadAt(b, off)
}

// source is a file that is read.
type source struct {
	io.Reader
	reader
	info info
}

func (s *source) Close() error               { return nil }
func (s *source) Stat() (fs.FileInfo, error) { return s.info, nil }

// info describes a name.
type info struct {
	name string
	node *node
}

func (i info) Name() string { return i.name }
func (i info) Size() int64  { return int64(len(i.node.data)) }
func (i info) Mode() fs.FileMode {
	if i.IsDir() {
		return fs.ModeDir | 0o750
	}
	return 0o600
}
func (i info) ModTime() time.Time { return time.Unix(0, i.node.time) }
func (i info) IsDir() bool        { return i.node.names != nil }
func (i info) Sys() any           { return &syscall.Stat_t{Ino: i.node.ino} }
