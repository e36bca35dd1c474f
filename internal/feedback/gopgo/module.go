package gopgo

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
)

// module is a Go module on disk, and says where the packages lie that it is built of.
type module struct {
	path, dir string
	required  map[string]string // versions by path
	replaced  map[string]string // directories, or PATH@VERSION
	root      string            // GOROOT; "": not found
	cache     string            // of modules
}

// ErrNoModule is the error of a directory that is in no Go module.
var ErrNoModule = errors.New("no go.mod in the directory or above it")

// openModule reads the go.mod of a directory, or of one above it.
func openModule(dir string) (*module, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("find go.mod: %w", err)
	}
	for at := dir; ; at = filepath.Dir(at) {
		text, err := readSource(filepath.Join(at, "go.mod"))
		if err == nil {
			m := &module{dir: at, required: map[string]string{}, replaced: map[string]string{}, root: goRoot(), cache: moduleCache()}
			m.parse(text)
			if m.path == "" {
				return nil, fmt.Errorf("read %s: it names no module", filepath.Join(at, "go.mod"))
			}
			return m, nil
		}
		if !errors.Is(err, os.ErrNotExist) {
			return nil, fmt.Errorf("read go.mod: %w", err)
		}
		if at == filepath.Dir(at) {
			return nil, fmt.Errorf("%s: %w", dir, ErrNoModule)
		}
	}
}

// parse reads the lines of a go.mod that say where packages lie (https://go.dev/ref/mod#go-mod-file).
func (m *module) parse(text []byte) {
	verb := ""
	for line := range bytes.Lines(text) {
		code, _, _ := strings.Cut(string(line), "//")
		words := strings.Fields(code)
		switch {
		case len(words) == 0:
		case words[0] == ")":
			verb = ""
		case len(words) == 2 && words[1] == "(":
			verb = words[0]
		case verb != "":
			m.directive(verb, words)
		default:
			m.directive(words[0], words[1:])
		}
	}
}

func (m *module) directive(verb string, words []string) {
	for i := range words {
		words[i] = strings.Trim(words[i], "\"`")
	}
	arrow := slices.Index(words, "=>")
	switch {
	case verb == "module" && len(words) == 1:
		m.path = words[0]
	case verb == "require" && len(words) == 2:
		m.required[words[0]] = words[1]
	case verb == "replace" && arrow > 0 && arrow == len(words)-2:
		m.replaced[words[0]] = filepath.Join(m.dir, words[arrow+1])
		if filepath.IsAbs(words[arrow+1]) {
			m.replaced[words[0]] = words[arrow+1]
		}
	case verb == "replace" && arrow > 0 && arrow == len(words)-3:
		m.replaced[words[0]] = words[arrow+1] + "@" + words[arrow+2]
	}
}

// dirOf returns the directory of a package, "" if nothing here says where it is.
func (m *module) dirOf(pkg string) string {
	if rest, ok := cutPath(pkg, m.path); ok {
		return filepath.Join(m.dir, rest)
	}
	if isStandard(pkg) {
		if m.root == "" || pkg == "" {
			return ""
		}
		return filepath.Join(m.root, "src", filepath.FromSlash(pkg))
	}
	if dir := filepath.Join(m.dir, "vendor", filepath.FromSlash(pkg)); isDir(dir) {
		return dir
	}
	best := ""
	for path := range m.required {
		if _, ok := cutPath(pkg, path); ok && len(path) > len(best) {
			best = path
		}
	}
	if best == "" {
		return ""
	}
	rest, _ := cutPath(pkg, best)
	to, replaced := m.replaced[best]
	switch {
	case replaced && filepath.IsAbs(to):
		return filepath.Join(to, rest)
	case !replaced:
		to = best + "@" + m.required[best]
	}
	if m.cache == "" {
		return ""
	}
	return filepath.Join(m.cache, filepath.FromSlash(escaped(to)), rest)
}

// cutPath returns the rest of a package's path below a module's.
func cutPath(pkg, module string) (rest string, ok bool) {
	rest, ok = strings.CutPrefix(pkg, module)
	return strings.TrimPrefix(rest, "/"), ok && (rest == "" || rest[0] == '/')
}

// escaped writes a path as the cache of modules does, which may lie on a file system without capitals.
func escaped(path string) string {
	var b strings.Builder
	for _, r := range path {
		if unicode.IsUpper(r) {
			b.WriteByte('!')
			r = unicode.ToLower(r)
		}
		b.WriteRune(r)
	}
	return b.String()
}

// goRoot finds Go's own source, without running anything: where GOROOT says, or beside the 'go' of PATH.
func goRoot() string {
	candidates := []string{os.Getenv("GOROOT")}
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		if program, err := filepath.EvalSymlinks(filepath.Join(dir, "go")); err == nil {
			candidates = append(candidates, filepath.Dir(filepath.Dir(program)))
		}
	}
	for _, root := range candidates {
		if root != "" && isDir(filepath.Join(root, "src", "runtime")) {
			return root
		}
	}
	return ""
}

// moduleCache returns where downloaded modules lie.
func moduleCache() string {
	if dir := os.Getenv("GOMODCACHE"); dir != "" {
		return dir
	}
	for _, dir := range filepath.SplitList(os.Getenv("GOPATH")) {
		return filepath.Join(dir, "pkg", "mod")
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	return filepath.Join(home, "go", "pkg", "mod")
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// mostSource bounds a source file, bytes. The largest known ones are generated, and have 3 MB.
const mostSource = 16 << 20

// readSource reads a file of a source, which must be a regular one.
func readSource(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > mostSource {
		return nil, fmt.Errorf("%s is no file of a source", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(bufio.NewReader(io.LimitReader(f, mostSource)))
}
