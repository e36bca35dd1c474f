package pages

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"mime"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/klauspost/compress/gzip"
)

// index is the file of all pages: the script in it shows the one that the address names.
const index = "index.html"

// pageAddresses are the addresses of pages, as patterns of [http.ServeMux].
var pageAddresses = []string{"/{$}", "/t/{rest...}", "/p/{rest...}", "/compare", "/fleet", "/doctor"}

// Shell has the files of the pages. It never changes.
type Shell struct {
	policy string
	files  map[string]file // by address
}

// file is a file as it is sent.
type file struct {
	contentType string
	text        []byte
	packed      []byte // gzip; nil: it is not smaller
	immutable   bool   // its name has the hash of its text
}

// NewShell reads the files: index.html and what it loads, whose names have hashes. The policy is the pages'
// Content-Security-Policy.
func NewShell(files fs.FS, policy string) (*Shell, error) {
	s := &Shell{policy: policy, files: make(map[string]file)}
	err := fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		s.files["/"+name], err = newFile(name, text)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read pages: %w", err)
	}
	if _, ok := s.files["/"+index]; !ok {
		return nil, errors.New("read pages: there is no " + index)
	}
	return s, nil
}

func newFile(name string, text []byte) (file, error) {
	f := file{contentType: mime.TypeByExtension(path.Ext(name)), text: text, immutable: strings.Contains(name, "-") && name != index}
	switch path.Ext(name) { // the machine's table may lack them
	case ".js":
		f.contentType = "text/javascript; charset=utf-8"
	case ".css":
		f.contentType = "text/css; charset=utf-8"
	case ".html":
		f.contentType = "text/html; charset=utf-8"
	case "":
		f.contentType = "text/plain; charset=utf-8"
	}
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return f, err
	}
	if _, err := z.Write(text); err != nil {
		return f, err
	}
	if err := z.Close(); err != nil {
		return f, err
	}
	if b.Len() < len(text) {
		f.packed = b.Bytes()
	}
	return f, nil
}

// Patterns returns the addresses of the pages and of their files, as patterns of [http.ServeMux] for the shell.
func (s *Shell) Patterns() []string {
	var all []string
	for _, address := range slices.Concat(pageAddresses, slices.Sorted(maps.Keys(s.files))) {
		all = append(all, http.MethodGet+" "+address)
	}
	return all
}

// Has reports whether an address is a page's or a file's.
func (s *Shell) Has(address string) bool {
	if _, ok := s.files[address]; ok {
		return true
	}
	return slices.ContainsFunc(pageAddresses, func(pattern string) bool {
		prefix, isTree := strings.CutSuffix(pattern, "{rest...}")
		return isTree && strings.HasPrefix(address, prefix) || strings.TrimSuffix(pattern, "{$}") == address
	})
}

// ServeHTTP answers with the file of an address, or with the page of all other addresses.
func (s *Shell) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f, ok := s.files[r.URL.Path]
	if !ok {
		f = s.files["/"+index]
	}
	s.serve(w, r, f)
}

func (s *Shell) serve(w http.ResponseWriter, r *http.Request, f file) {
	h := w.Header()
	Harden(h, s.policy)
	h.Set("Content-Type", f.contentType)
	h.Set("Vary", "Accept-Encoding")
	h.Set("Cache-Control", "no-cache")
	if f.immutable {
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	text := f.text
	if f.packed != nil && takesGzip(r.Header.Get("Accept-Encoding")) {
		h.Set("Content-Encoding", "gzip")
		text = f.packed
	}
	h.Set("Content-Length", strconv.Itoa(len(text)))
	w.WriteHeader(http.StatusOK)
	if r.Method != http.MethodHead {
		_, _ = w.Write(text) // the client may have gone
	}
}

func takesGzip(accepted string) bool {
	for part := range strings.SplitSeq(accepted, ",") {
		name, quality, _ := strings.Cut(part, ";")
		if strings.EqualFold(strings.TrimSpace(name), "gzip") {
			return strings.TrimSpace(quality) != "q=0"
		}
	}
	return false
}

// Harden sets the headers that keep a page from being framed, opened, read or guessed at by others.
func Harden(h http.Header, policy string) {
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cross-Origin-Embedder-Policy", "require-corp")
}
