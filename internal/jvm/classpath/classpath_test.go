package classpath

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// disk has the files of a target by their paths. A path that ends with a slash is a folder.
type disk map[string]content

type content struct {
	data             []byte
	written, changed time.Time
	secret           bool // it may not be read
}

func (d disk) stat(name string) (facts, error) {
	if c, ok := d[name]; ok {
		return facts{isFile, int64(len(c.data)), c.written, c.changed}, nil
	}
	for other := range d {
		if strings.HasPrefix(other, name+"/") {
			return facts{kind: isFolder}, nil
		}
	}
	return facts{}, fs.ErrNotExist
}

func (d disk) open(name string, k kind) (file, error) {
	if d[name].secret {
		return nil, fs.ErrPermission
	}
	if k == isFile {
		return inMemory{bytes.NewReader(d[name].data), nil}, nil
	}
	names := make(map[string]bool)
	for other := range d {
		if rest, below := strings.CutPrefix(other, name+"/"); below {
			first, _, _ := strings.Cut(rest, "/")
			names[first] = true
		}
	}
	return inMemory{nil, slices.Sorted(maps.Keys(names))}, nil
}

type inMemory struct {
	*bytes.Reader
	names []string
}

func (f inMemory) List() ([]string, error) { return f.names, nil }
func (f inMemory) Close() error            { return nil }

var (
	began  = time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	before = began.Add(-time.Hour)
)

// keyOf returns the sum of a class path.
func keyOf(d disk, entries ...string) (key string, changed bool) {
	h := sha256.New()
	changed = sum(h, d, began, entries)
	return hex.EncodeToString(h.Sum(nil)), changed
}

// archiveOf returns an archive of files, which were written at a time.
func archiveOf(files map[string]string, at time.Time, method uint16) []byte {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		f, _ := w.CreateHeader(&zip.FileHeader{Name: name, Method: method, Modified: at}) // in memory
		fmt.Fprint(f, files[name])
	}
	w.Close()
	return b.Bytes()
}

// drawFiles draws classes of a program, by their paths.
func drawFiles(t *rapid.T) map[string]string {
	name := rapid.StringMatching(`([a-c]/){0,2}[A-C]\.class`)
	return rapid.MapOfN(name, rapid.String(), 1, 6).Draw(t, "classes")
}

// TestSameContent: neither place nor time of an archive or a folder counts, nor how an archive was packed; each byte
// of a class does, and its name.
func TestSameContent(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		files := drawFiles(t)
		other := maps.Clone(files)
		name := rapid.SampledFrom(slices.Sorted(maps.Keys(files))).Draw(t, "changed")
		other[name] += "x"
		put := func(files map[string]string, at time.Time, root string, method uint16) disk {
			d := disk{root + ".jar": {data: archiveOf(files, at, method), written: at, changed: before}}
			for name, text := range files {
				d[root+"/"+name] = content{data: []byte(text), written: at, changed: before}
			}
			return d
		}
		for _, entry := range []string{"", ".jar"} {
			want, changed := keyOf(put(files, before, "/srv/a", zip.Store), "/srv/a"+entry)
			same, _ := keyOf(put(files, began, "/opt/b", zip.Deflate), "/opt/b"+entry)
			if want != same || changed {
				t.Errorf("%q: a copy is another build (changed: %v)", entry, changed)
			}
			if is, _ := keyOf(put(other, before, "/srv/a", zip.Store), "/srv/a"+entry); is == want {
				t.Errorf("%q: another %s is the same build", entry, name)
			}
		}
	})
}

// TestRule goes through the rule of the package, with one thing changed at a time.
func TestRule(t *testing.T) {
	t.Parallel()
	jar := func(text string) content {
		return content{data: archiveOf(map[string]string{"A.class": text}, before, zip.Deflate), written: before, changed: before}
	}
	class := func(text string) content { return content{data: []byte(text), written: before, changed: before} }
	base := disk{"/l/a.jar": jar("a"), "/l/b.JAR": jar("b"), "/l/notes.txt": class("n"), "/c/p/A.class": class("a"), "/c/data": class("d"), "/Main.java": class("m"), "/locked/x.jar": {data: []byte("x"), written: before, changed: before, secret: true}}
	entries := []string{"/l/*", "/c", "/Main.java", "/locked/x.jar", "/none.jar"}
	want, _ := keyOf(base, entries...)
	for name, c := range map[string]struct {
		path    string
		is      content
		differs bool
		changed bool
	}{
		"an archive among all of a folder": {"/l/a.jar", jar("c"), true, false},
		"a new archive there":              {"/l/c.jar", jar("c"), true, false},
		"another file there":               {"/l/notes.txt", class("m"), false, false},
		"a class":                          {"/c/p/A.class", class("b"), true, false},
		"a new class":                      {"/c/B.class", class("b"), true, false},
		"no class":                         {"/c/data", class("e"), false, false},
		"a source file":                    {"/Main.java", class("o"), true, false},
		"a file that may not be read":      {"/locked/x.jar", content{data: []byte("y"), written: began, changed: before, secret: true}, true, false},
		"a file that was missing":          {"/none.jar", jar("d"), true, false},
		"after the JVM began":              {"/l/a.jar", content{data: jar("a").data, written: before, changed: began.Add(time.Second)}, false, true},
	} {
		d := maps.Clone(base)
		d[c.path] = c.is
		got, changed := keyOf(d, entries...)
		if (got != want) != c.differs || changed != c.changed {
			t.Errorf("%s: differs %v, want %v; changed %v, want %v", name, got != want, c.differs, changed, c.changed)
		}
	}
}

// TestBounds: a class path without an end is read to a bound, and the rest counts by names.
func TestBounds(t *testing.T) {
	t.Parallel()
	d := disk{}
	for i := range 20 {
		d[fmt.Sprintf("/c/%c.class", 'a'+i)] = content{data: make([]byte, maxRead/8), changed: before}
	}
	deep := "/d"
	for range 2 * maxDepth {
		deep = path.Join(deep, "d")
	}
	d[deep+"/A.class"] = content{changed: before}
	s := summer{files: d, began: began, h: sha256.New(), left: maxRead, count: maxFiles}
	s.entry("/c")
	s.entry("/d")
	if read := maxRead - s.left; read > maxRead || read < maxRead-maxRead/8 {
		t.Errorf("%d bytes were read, of at most %d", read, maxRead)
	}
	if looked := maxFiles - s.count; looked > 25+maxDepth {
		t.Errorf("%d files were looked at", looked)
	}
}

// FuzzDirectory takes any bytes for an archive. What archive/zip can read has the sum of its files.
func FuzzDirectory(f *testing.F) {
	for _, files := range []map[string]string{{}, {"A.class": "a"}, {"a/B.class": "b", "META-INF/MANIFEST.MF": "Main-Class: B\n"}} {
		f.Add(archiveOf(files, before, zip.Deflate))
		f.Add(append([]byte("#!/bin/sh\n"), archiveOf(files, before, zip.Store)...))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		directory, err := readDirectory(bytes.NewReader(b), int64(len(b)), maxRead)
		if err != nil {
			return
		}
		if len(directory) > len(b) {
			t.Fatalf("a directory of %d bytes in %d", len(directory), len(b))
		}
		var sum bytes.Buffer
		if err := sumDirectory(&sum, directory); err == nil && sum.Len() > 5*len(directory)+20 {
			t.Errorf("%d bytes are summed up of %d", sum.Len(), len(directory))
		}
	})
}
