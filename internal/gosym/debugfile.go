package gosym

import (
	"cmp"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ccmapd/ccmapd/internal/privilege"
)

// Distributions strip their libraries: the symbol table (.symtab) goes into a debug file of its own, which
// another package installs. An image without the table gets it from the first of these files that is there:
//
//	/usr/lib/debug/.build-id/xx/yyyy.debug   by the build id xxyyyy
//	/usr/lib/debug/DIRECTORY/NAME            by section .gnu_debuglink: NAME, and a checksum of the file
//	CACHE/xxyyyy/debuginfo                   of the caller's debuginfod client, by the build id
//
// The first two are looked for in this process's root, and then in the target's. Only a file with the image's
// build id is taken. One that .gnu_debuglink names must also have its checksum, which is enough where the
// image has no build id. Such a file is no more trusted than the target's own: it draws from the same budget,
// must be a regular file, and its links cannot lead out of its root. A file in /usr/lib/debug must be readable
// by all users, because a daemon that is root gives its names to others.
//
// The paths are those of GDB (Debugging Information in Separate Files, GDB 17) and of debuginfod-find(1).

// debugDirectory is where packages install debug files.
const debugDirectory = "/usr/lib/debug"

// maxLink bounds section .gnu_debuglink, and maxChecked a file whose checksum is computed, bytes.
const (
	maxLink    = 1 << 10
	maxChecked = 128 << 20
)

// leastBuildID is the length of a build id that tells files apart, in hex digits. Linkers make 16 at least.
const leastBuildID = 16

// debugFiles says where to look for debug files. The zero value is nowhere.
type debugFiles struct {
	directory string // of this process's root
	inTarget  string // the same in the root of pid; "": not there
	pid       int
	cache     string // of the caller's debuginfod client
}

// debugFilesOf returns where to look for the debug files of a process. Its own root counts only if it differs.
func debugFilesOf(pid int, cache string) debugFiles {
	d := debugFiles{directory: debugDirectory, pid: pid, cache: cache}
	if !hasOurRoot(pid) {
		d.inTarget = debugDirectory
	}
	return d
}

// hasOurRoot reports whether paths mean the same to a process as to this one.
func hasOurRoot(pid int) bool {
	defer privilege.Raise().Lower()
	for _, name := range []string{"ns/mnt", "root"} {
		its, err1 := os.Readlink(fmt.Sprintf("/proc/%d/%s", pid, name))
		ours, err2 := os.Readlink("/proc/self/" + name)
		if err1 != nil || err2 != nil || its != ours {
			return false
		}
	}
	return true
}

// debugFile is a place where a debug file may be.
type debugFile struct {
	name    string // its path
	open    func() (*os.File, error)
	checked bool // its checksum must be sum
	sum     uint32
}

// of returns the places for an image with a build id and a link; either may be missing.
func (d debugFiles) of(buildID string, link debugLink) (all []debugFile) {
	var names []debugFile
	if len(buildID) >= leastBuildID {
		names = append(names, debugFile{name: path.Join(".build-id", buildID[:2], buildID[2:]+".debug")})
	}
	if link.name != "" {
		names = append(names, debugFile{name: path.Join(strings.TrimPrefix(link.directory, "/"), link.name), checked: true, sum: link.sum})
	}
	add := func(f debugFile, in string, open func() (*os.File, error)) {
		f.name, f.open = path.Join(in, f.name), open
		all = append(all, f)
	}
	for _, f := range names {
		if d.directory != "" {
			add(f, d.directory, func() (*os.File, error) { return openPublic(openBelow(d.directory, f.name)) })
		}
	}
	for _, f := range names {
		if d.inTarget != "" {
			add(f, d.inTarget, func() (*os.File, error) { return openPublic(openInTarget(d.pid, path.Join(d.inTarget, f.name))) })
		}
	}
	if d.cache != "" && len(buildID) >= leastBuildID {
		name := path.Join(buildID, "debuginfo")
		add(debugFile{name: name}, d.cache, func() (*os.File, error) { return openBelow(d.cache, name) })
	}
	return all
}

// openBelow opens a regular file with the rights of the caller. Links cannot lead out of the directory.
func openBelow(directory, name string) (*os.File, error) {
	dir, err := unix.Open(directory, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: directory, Err: err}
	}
	defer unix.Close(dir)
	fd, err := unix.Openat2(dir, name, &unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_NONBLOCK | unix.O_CLOEXEC | unix.O_NOCTTY,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS,
	})
	name = path.Join(directory, name)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	return regular(os.NewFile(uintptr(fd), name))
}

// openPublic passes a file on that all users may read, and closes any other.
func openPublic(f *os.File, err error) (*os.File, error) {
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && info.Mode()&0o004 == 0 {
		err = fmt.Errorf("%s is not for all users: its mode is %v", f.Name(), info.Mode())
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// debugLink is what section .gnu_debuglink says of a file's debug file.
type debugLink struct {
	directory string // of the file itself
	name      string // "": there is no such section
	sum       uint32 // CRC-32 of the debug file
}

// debugLink reads the link of an image.
func (im *image) debugLink(b *budget) debugLink {
	s := im.file.section(".gnu_debuglink")
	if s == nil || s.size > maxLink {
		return debugLink{}
	}
	raw, err := im.file.content(b, s)
	if err != nil {
		return debugLink{}
	}
	name, sum, ok := parseDebugLink(raw)
	if !ok {
		return debugLink{}
	}
	return debugLink{directory: path.Dir(im.path), name: name, sum: sum}
}

// parseDebugLink reads a file name, which ends with a zero, and after up to three more of them the checksum.
func parseDebugLink(raw []byte) (name string, sum uint32, ok bool) {
	name, _, ok = strings.Cut(string(raw), "\x00")
	at := (len(name) + 1 + 3) &^ 3
	if !ok || len(raw) < at+4 || name == "" || name == "." || name == ".." || strings.Contains(name, "/") {
		return "", 0, false
	}
	return name, binary.LittleEndian.Uint32(raw[at:]), true
}

// symbolsOf returns the functions of an image: out of its symbol table, out of the one in its debug file,
// or those that it exports.
func (t *Table) symbolsOf(b *budget, im *image) symbols {
	if s, ok := im.file.functions(b, elf.SHT_SYMTAB); ok {
		return s
	}
	if s, ok := t.separateSymbols(b, im); ok {
		return s
	}
	s, _ := im.file.functions(b, elf.SHT_DYNSYM)
	return s
}

// separateSymbols returns the functions in the debug file of an image. A debug file may take half of the
// budget: the functions that the image exports need the rest.
func (t *Table) separateSymbols(b *budget, im *image) (s symbols, ok bool) {
	if im.isVDSO() {
		return s, false
	}
	id, _ := identifiers(im.file.notes(b, im.file.segments))
	for _, place := range t.debug.of(id, im.debugLink(b)) {
		f := &watchedFile{watch: t.watch}
		err := t.watch.Call(func() (err error) {
			f.File, err = place.open()
			return err
		})
		if err == nil {
			err = b.half(func(b *budget) (err error) {
				s, err = place.read(b, f, id)
				return err
			})
			f.Close()
		}
		switch {
		case err == nil:
			return s, true
		case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENOTDIR):
			t.log.Warn("debug file is not used", "file", place.name, "of", im.path, "reason", err)
		}
	}
	return symbols{}, false
}

// read returns the functions of a debug file, if it is of the build.
func (d debugFile) read(b *budget, r io.ReaderAt, buildID string) (s symbols, err error) {
	f, err := readELF(b, r)
	if err != nil {
		return s, err
	}
	// Segments of a debug file are those of the image: what they cover is not in it.
	if got, _ := identifiers(f.notes(b, nil)); got != buildID {
		return s, cmp.Or(b.spent, fmt.Errorf("it is of another build: %.40q", got))
	}
	if d.checked {
		sum, err := checksum(b, r)
		if err != nil {
			return s, err
		}
		if sum != d.sum {
			return s, fmt.Errorf("its checksum is %08x, and not %08x", sum, d.sum)
		}
	}
	s, ok := f.functions(b, elf.SHT_SYMTAB)
	if !ok {
		return s, cmp.Or(b.spent, errors.New("it has no symbol table"))
	}
	return s, nil
}

// checksum returns the CRC-32 of a file.
func checksum(b *budget, r io.ReaderAt) (sum uint32, err error) {
	buf := make([]byte, piece)
	for at := int64(0); ; at += int64(len(buf)) {
		if at >= maxChecked {
			return 0, fmt.Errorf("it has more than %d bytes, too many for a checksum", maxChecked)
		}
		if err := b.reading(len(buf)); err != nil {
			return 0, err
		}
		start := time.Now()
		n, err := r.ReadAt(buf, at)
		if err := b.waited(start); err != nil {
			return 0, err
		}
		sum = crc32.Update(sum, crc32.IEEETable, buf[:n])
		if err == io.EOF {
			return sum, nil
		}
		if err != nil {
			return 0, err
		}
	}
}
