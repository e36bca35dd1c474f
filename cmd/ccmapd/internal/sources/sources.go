// Package sources answers with lines of source files out of one directory, for the pages of the user who has named it.
//
// The paths are of profiles, so anybody may have chosen them: whatever they are, nothing outside of the directory is
// opened, nothing but regular files is read, and no more than a bounded part.
package sources

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	mostBytes = 1 << 20 // of a file
	mostPath  = 4 << 10 // bytes
)

// Dir is a directory with source files. Any goroutine may call its methods.
type Dir struct {
	root *os.Root
	name string // of the directory, without those above
}

// Open opens a directory.
func Open(dir string) (*Dir, error) {
	whole, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("open sources: %w", err)
	}
	root, err := os.OpenRoot(whole)
	if err != nil {
		return nil, fmt.Errorf("open sources: %w", err)
	}
	return &Dir{root, filepath.Base(whole)}, nil
}

// Handler answers GET /v1/source?file=PATH, and passes all other requests on. Without a directory it is next.
func (d *Dir) Handler(next http.Handler) http.Handler {
	if d == nil {
		return next
	}
	mux := http.NewServeMux()
	mux.Handle("/", next)
	mux.HandleFunc("GET /v1/source", d.answer)
	return mux
}

// answerJSON has no lines if there is no such file.
type answerJSON struct {
	File  string   `json:"file,omitempty"` // below the directory
	Lines []string `json:"lines"`
}

func (d *Dir) answer(w http.ResponseWriter, r *http.Request) {
	a := answerJSON{Lines: []string{}}
	if name, text, err := d.Read(r.URL.Query().Get("file")); err == nil {
		a.File, a.Lines = name, strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_ = json.NewEncoder(w).Encode(a) // the client may have gone
}

// errNone says that a path is of no file in the directory.
var errNone = errors.New("there is no such source file")

// Read returns the file that a path of a profile means, and its name below the directory. Programs are built
// elsewhere: the longest end of the path counts that is a file here. The name of the file alone is enough only if the
// path has no more, or goes through a directory of the same name.
func (d *Dir) Read(file string) (name string, text []byte, err error) {
	parts := strings.Split(strings.TrimPrefix(path.Clean("/"+filepath.ToSlash(file)), "/"), "/")
	if len(file) > mostPath || file == "" || strings.ContainsRune(file, 0) {
		return "", nil, errNone
	}
	for i := range parts {
		name := strings.Join(parts[i:], "/")
		if i == len(parts)-1 && i > 0 && parts[i-1] != d.name {
			break
		}
		if text, err = d.read(name); err == nil || !errors.Is(err, fs.ErrNotExist) {
			return name, text, err
		}
	}
	return "", nil, errNone
}

// read reads a regular file, and waits for nothing.
func (d *Dir) read(name string) ([]byte, error) {
	f, err := d.root.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, errNone
	case info.Size() > mostBytes:
		return nil, errNone
	}
	return io.ReadAll(io.LimitReader(f, mostBytes))
}
