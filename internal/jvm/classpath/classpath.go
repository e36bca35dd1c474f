package classpath

import (
	"fmt"
	"hash"
	"io"
	"path"
	"strings"
	"time"
)

// The bounds of a class path.
const (
	maxEntries = 1 << 10  // of the class path
	maxFiles   = 1 << 14  // that are opened or listed
	maxRead    = 64 << 20 // bytes
	maxDepth   = 32       // of folders
)

// file is a file or folder of the target.
type file interface {
	io.ReaderAt
	io.Closer
	List() ([]string, error) // the names in a folder, in order; maxFiles: or more
}

// kind is what a file is.
type kind byte

const (
	isOther kind = iota // neither of these: it is not opened
	isFile
	isFolder
)

// facts are what is known of a file without opening it.
type facts struct {
	kind    kind
	size    int64
	written time.Time // its content
	changed time.Time // content, name or rights
}

// files opens the target's files by their paths.
type files interface {
	stat(name string) (facts, error)
	// open opens a file of a kind. The error of one that may not be read is any.
	open(name string, k kind) (file, error)
}

// summer sums up a class path.
type summer struct {
	files files
	began time.Time // the JVM
	h     hash.Hash
	left  int64 // bytes that may be read
	count int   // files that may be opened or listed

	changed bool // since the JVM began
}

// sum adds the entries of a class path to a hash, and reports whether any of it was changed after the JVM began.
func sum(h hash.Hash, of files, began time.Time, entries []string) (changed bool) {
	s := &summer{files: of, began: began, h: h, left: maxRead, count: maxFiles}
	for i, entry := range entries {
		if i == maxEntries {
			break
		}
		s.entry(entry)
	}
	return s.changed
}

// entry adds an entry of a class path. One that ends with an asterisk means all archives of a folder (java(1)).
func (s *summer) entry(entry string) {
	dir, all := strings.CutSuffix(entry, "*")
	if !all || dir != "" && !strings.HasSuffix(dir, "/") {
		s.path(entry)
		return
	}
	dir = path.Clean(dir) // "" is the working directory
	names, err := s.list(dir)
	if err != nil {
		s.byName(entry, facts{})
		return
	}
	for _, name := range names {
		if isArchive(name) {
			s.path(path.Join(dir, name))
		}
	}
}

func isArchive(name string) bool { return strings.EqualFold(path.Ext(name), ".jar") }

// path adds a file or a folder.
func (s *summer) path(name string) {
	f, err := s.stat(name)
	switch {
	case err != nil:
		s.byName(name, f)
	case f.kind == isFolder:
		s.folder(name, "", 0)
	default:
		if s.archive(name, f) != nil && s.content(name, "", f) != nil {
			s.byName(name, f)
		}
	}
}

// stat looks at a file, and notes whether it was changed after the JVM began.
func (s *summer) stat(name string) (facts, error) {
	if s.count--; s.count < 0 {
		return facts{}, errMuch
	}
	f, err := s.files.stat(name)
	if err == nil && f.kind == isFile && f.changed.After(s.began) {
		s.changed = true
	}
	return f, err
}

// byName adds what is known of a file that is not read.
func (s *summer) byName(name string, f facts) {
	fmt.Fprintf(s.h, "name %q %d %d\n", name, f.size, f.written.UnixNano())
}

// archive adds an archive by its directory.
func (s *summer) archive(name string, f facts) error {
	if f.kind != isFile {
		return errKind
	}
	in, err := s.files.open(name, isFile)
	if err != nil {
		return err
	}
	defer in.Close()
	directory, err := readDirectory(in, f.size, s.left)
	if err != nil {
		return err
	}
	s.left -= int64(len(directory))
	return sumDirectory(s.h, directory)
}

// content adds a file by its content, with the path that a class has in its folder.
func (s *summer) content(name, class string, f facts) error {
	if f.kind != isFile || f.size < 0 || f.size > s.left {
		return errMuch
	}
	in, err := s.files.open(name, isFile)
	if err != nil {
		return err
	}
	defer in.Close()
	all := make([]byte, f.size)
	if _, err := in.ReadAt(all, 0); err != nil && err != io.EOF {
		return err
	}
	s.left -= f.size
	fmt.Fprintf(s.h, "file %q %d\n", class, f.size)
	s.h.Write(all)
	return nil
}

// folder adds the class files below a folder, whose classes' names begin with a prefix.
func (s *summer) folder(name, prefix string, depth int) {
	names, err := s.list(name)
	if err != nil || depth == maxDepth {
		s.byName(name, facts{})
		return
	}
	for _, n := range names {
		at, class := path.Join(name, n), prefix+n
		isClass := strings.HasSuffix(n, ".class")
		if !isClass && strings.Contains(n, ".") {
			continue // the name of no package
		}
		f, err := s.stat(at)
		switch {
		case err != nil:
			s.byName(class, f)
		case f.kind == isFolder && !isClass:
			s.folder(at, class+"/", depth+1)
		case isClass && s.content(at, class, f) != nil:
			s.byName(class, f)
		}
	}
}

// list lists a folder.
func (s *summer) list(name string) ([]string, error) {
	in, err := s.files.open(name, isFolder)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	names, err := in.List()
	if len(names) == maxFiles {
		return nil, errMuch
	}
	return names, err
}
