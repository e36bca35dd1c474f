package store

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/internal/process"
)

// found is a file of the store.
type found struct {
	target, build, event string // names of directories
	fileName
	path string // below the directory of the store
	info fs.FileInfo
}

// dirKey is what files have in common that can be merged.
type dirKey struct {
	target, build, event string
	owner                process.Owner
}

func (f *found) dirKey() dirKey { return dirKey{f.target, f.build, f.event, f.owner} }

// walker looks for files.
type walker struct {
	disk    fileSystem
	files   []found
	records []found // files of compile records: of their names the owner alone
	moments []found // files of moments, which end when they were written to last
	fanIns  []found // of what a hub knows: without an owner
	temps   []found // files that are being written, or that a kill has left: without an owner
	skipped int     // names that are no files of the store, and directories that cannot be read
	first   error
}

// walk returns all files of a store. Names of other kinds, links and what cannot be read are counted, and skipped.
func walk(d fileSystem) *walker {
	w := &walker{disk: d}
	for _, target := range w.dirs(targetsDir) {
		w.target(target)
	}
	return w
}

// walkOf returns the files of one target; "": of all.
func walkOf(d fileSystem, target string) *walker {
	if target == "" {
		return walk(d)
	}
	w := &walker{disk: d}
	if isName(target) { // or else there is none
		w.target(target)
	}
	return w
}

func (w *walker) target(target string) {
	for _, build := range w.dirs(path.Join(targetsDir, target)) {
		w.build(target, build)
	}
}

// list lists a directory.
func (w *walker) list(dir string) []fs.FileInfo {
	infos, err := w.disk.List(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		w.skip(err)
	}
	return infos
}

func (w *walker) skip(err error) {
	w.skipped++
	if w.first == nil {
		w.first = err
	}
}

// dirs returns the names of the directories in a directory.
func (w *walker) dirs(dir string) (names []string) {
	for _, info := range w.list(dir) {
		if info.IsDir() && isName(info.Name()) {
			names = append(names, info.Name())
		} else {
			w.skip(fmt.Errorf("%s is no directory of profiles", path.Join(dir, info.Name())))
		}
	}
	return names
}

// build looks into the directory of a build. Files of earlier versions of ccmapd lie there: they are of CPU time, and
// their owners are not known.
func (w *walker) build(target, build string) {
	dir := path.Join(targetsDir, target, build)
	for _, info := range w.list(dir) {
		if info.IsDir() && isName(info.Name()) {
			w.event(target, build, info.Name())
			continue
		}
		f := found{target: target, build: build, event: Event(ccmap.CPUTime)}
		if owner, ok := parseRecordsName(info.Name()); ok && info.Mode().IsRegular() {
			f.fileName, f.path, f.info = fileName{owner: owner}, path.Join(dir, info.Name()), info
			w.records = append(w.records, f)
			continue
		}
		if info.Name() == fanInName && info.Mode().IsRegular() {
			f.path, f.info = path.Join(dir, info.Name()), info
			w.fanIns = append(w.fanIns, f)
			continue
		}
		w.file(f, dir, info, func(n fileName) bool { return !n.best && n.owner == process.Unowned })
	}
}

func (w *walker) event(target, build, event string) {
	dir := path.Join(targetsDir, target, build, event)
	for _, info := range w.list(dir) {
		f := found{target: target, build: build, event: event}
		if n, ok := parseMomentsName(info.Name()); ok && info.Mode().IsRegular() {
			n.to = info.ModTime().UTC()
			f.fileName, f.path, f.info = n, path.Join(dir, info.Name()), info
			w.moments = append(w.moments, f)
			continue
		}
		w.file(f, dir, info, func(fileName) bool { return true })
	}
}

// file adds a file if its name may stand there.
func (w *walker) file(f found, dir string, info fs.FileInfo, may func(fileName) bool) {
	name, ok := parseFileName(info.Name())
	f.fileName, f.path, f.info = name, path.Join(dir, info.Name()), info
	switch {
	case ok && may(name) && info.Mode().IsRegular():
		w.files = append(w.files, f)
	case isTemporary(info.Name()):
		w.temps = append(w.temps, f)
	default:
		w.skip(fmt.Errorf("%s is no file of a profile", f.path))
	}
}

// isTemporary reports whether a file is one that is being written, under the lock or by [Add].
func isTemporary(name string) bool {
	return name == tempName || len(name) > 0 && name[0] == '.' && path.Ext(name) == tempType
}

// isLeft reports whether a kill has left a temporary file. The caller has the lock, and writes no file now. What is no
// file is not the store's.
func isLeft(temp fs.FileInfo) bool {
	return temp.Mode().IsRegular() && (temp.Name() == tempName || time.Since(temp.ModTime()) > tempAge)
}

// readMap reads a profile of the store.
func readMap(d fileSystem, name string, o export.ReadOptions) (*ccmap.Map, error) {
	f, err := d.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	m, format, err := export.Read(f, o)
	if err == nil && format != export.JSON {
		err = fmt.Errorf("%w: files of the store are JSON", export.ErrFormat)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return m, nil
}
