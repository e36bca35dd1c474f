package coverage

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/cmd/ccmapd/internal/gocover"
)

// sources finds source files. Coverage files have import paths: "m/a/b.go" is a/b.go in the
// directory of module m. That directory is given, or the profile tells it: if a method of m
// is in "/src/m/a/b.go", the directory is "/src/m".
type sources struct {
	names  *ccmap.Names
	given  string
	roots  map[string]string          // directories of modules; "" if unknown
	parsed map[string]*gocover.Source // by path; nil if it cannot be read
	memory int64                      // of parsed, bytes
}

func newSources(names *ccmap.Names, given string) *sources {
	return &sources{names: names, given: given, roots: make(map[string]string), parsed: make(map[string]*gocover.Source)}
}

// learn looks for the directories of a program's modules in the profile.
func (s *sources) learn(p *gocover.Program) {
	for i := range p.Packages {
		pkg := &p.Packages[i]
		for _, f := range pkg.Functions {
			if s.roots[pkg.Module] != "" || s.given != "" {
				break
			}
			s.roots[pkg.Module] = s.rootOf(pkg, &f)
		}
	}
}

// rootOf returns the directory of a function's module, "" if the profile does not
// have the function, or not its full path.
func (s *sources) rootOf(pkg *gocover.Package, f *gocover.Function) string {
	id, ok := s.names.Lookup(pkg.Symbol(f), "")
	if !ok || filepath.IsAbs(f.File) {
		return ""
	}
	root, ok := strings.CutSuffix(s.names.At(id).File, "/"+fileInModule(pkg, f))
	if !ok || !filepath.IsAbs(root) {
		return ""
	}
	return root
}

// path returns where a function's source file should be, "" if that is unknown.
func (s *sources) path(pkg *gocover.Package, f *gocover.Function) string {
	root := s.given
	if root == "" {
		root = s.roots[pkg.Module]
	}
	switch {
	case filepath.IsAbs(f.File):
		return f.File
	case root == "":
		return ""
	}
	return filepath.Join(root, fileInModule(pkg, f))
}

// name returns the file of a function in the form that the profile uses for its module.
func (s *sources) name(pkg *gocover.Package, f *gocover.Function) string {
	if root := s.roots[pkg.Module]; root != "" && !filepath.IsAbs(f.File) {
		return root + "/" + fileInModule(pkg, f)
	}
	return f.File
}

// split splits a function if its source is found and is the source of the program. To parse
// it is an error where so much memory is not left.
func (s *sources) split(pkg *gocover.Package, f gocover.Function, mode gocover.Mode, left int64) ([]gocover.Function, bool, error) {
	path := s.path(pkg, &f)
	if path == "" {
		return nil, false, nil
	}
	source, known := s.parsed[path]
	if !known {
		var err error
		if source, err = s.parse(path, left); err != nil {
			return nil, false, err
		}
		s.parsed[path] = source
	}
	if source == nil {
		return nil, false, nil
	}
	parts, told := source.Split(f, mode)
	return parts, told, nil
}

// parse returns nil if the file cannot be read, or is not Go.
func (s *sources) parse(path string, left int64) (*gocover.Source, error) {
	text, err := readSourceFile(path)
	if err != nil {
		return nil, nil
	}
	takes := gocover.SourceMemory(text)
	if takes > left-int64(len(text)) {
		return nil, fmt.Errorf("parse %s: %w: it takes up to %d bytes", path, gocover.ErrMemory, takes)
	}
	source, err := gocover.ParseSource(text)
	if err != nil {
		return nil, nil
	}
	const kept = 4 // positions of statements are less than a quarter of the syntax tree
	s.memory += takes / kept
	return source, nil
}

// maxSourceBytes is more than any Go file that people or generators write.
const maxSourceBytes = 32 << 20

// readSourceFile reads a file whose name stands in a profile, so that it may be a
// pipe, a device or anything.
func readSourceFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxSourceBytes {
		return nil, errors.New("not a source file")
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxSourceBytes))
}
