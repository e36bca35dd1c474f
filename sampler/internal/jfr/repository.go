package jfr

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	recording "github.com/ccmapd/ccmapd/internal/jvm/jfr"
	"golang.org/x/sys/unix"
)

// files opens files of the target: an [attach.Target].
type files interface {
	OpenFolder(path string) (*os.File, error)
	OpenIn(folder *os.File, name string) (*os.File, error)
}

// repository is the folder where a JVM has its chunks: one that it writes, and finished ones that
// its recordings keep. The goroutine of Run owns it.
//
// The chunk that the JVM writes is found among its open files, which says where the folder is. The
// folder is then opened inside the target's root directory, if the chunk is there: the names of open
// files are not true for a JVM whose root directory was changed.
type repository struct {
	pid    int
	files  files
	path   string   // as the target sees it; empty: not known yet
	folder *os.File // nil: it cannot be opened
}

func (r *repository) close() {
	if r.folder != nil {
		r.folder.Close()
		r.folder = nil
	}
}

// repositoryName is how the JVM names the folder of its chunks: by time and pid.
var repositoryName = regexp.MustCompile(`^[0-9]{4}(_[0-9]{2}){5}_[0-9]+$`)

const chunkSuffix = ".jfr"

// written opens the chunk that the JVM writes now, unless it is the last one, of an inode. A dump is
// an open .jfr, too, but lies elsewhere.
func (r *repository) written(last uint64) (*os.File, error) {
	fds := fmt.Sprintf("/proc/%d/fd", r.pid)
	dir, err := os.Open(fds)
	if err != nil {
		return nil, fmt.Errorf("list open files: %w", err)
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil && !errors.Is(err, unix.ESRCH) && !errors.Is(err, unix.ENOENT) {
		return nil, fmt.Errorf("list open files: %w", err)
	}
	for _, name := range names {
		link := filepath.Join(fds, name)
		target, err := os.Readlink(link)
		target = strings.TrimSuffix(target, " (deleted)")
		if err != nil || !r.isChunk(target) || !r.isWritten(name) {
			continue
		}
		if f := openChunk(link, last); f != nil {
			r.enter(filepath.Dir(target), filepath.Base(target), f)
			return f, nil
		}
	}
	return nil, nil
}

// isChunk reports whether a path can be a chunk's, if the folder does not have it.
func (r *repository) isChunk(path string) bool {
	dir := filepath.Dir(path)
	switch {
	case filepath.Ext(path) != chunkSuffix:
		return false
	case dir == r.path:
		return r.folder == nil
	}
	return repositoryName.MatchString(filepath.Base(dir)) // the JVM can be told to use another
}

// isWritten reports whether the JVM has the file open for writing.
func (r *repository) isWritten(fd string) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/fdinfo/%s", r.pid, fd))
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(text)) {
		if flags, found := strings.CutPrefix(line, "flags:"); found {
			v, err := strconv.ParseUint(strings.TrimSpace(flags), 8, 64)
			return err == nil && v&unix.O_ACCMODE != unix.O_RDONLY
		}
	}
	return false
}

// openChunk opens the file that a link leads to, if it is a regular one and not the last one.
func openChunk(link string, last uint64) *os.File {
	f, err := os.OpenFile(link, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return nil
	}
	if st, err := fileStat(f); err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG || st.Ino == last {
		f.Close()
		return nil
	}
	return f
}

func fileStat(f *os.File) (st unix.Stat_t, err error) {
	err = unix.Fstat(int(f.Fd()), &st)
	return st, err
}

// enter opens the folder of a chunk, if the chunk is in it.
func (r *repository) enter(path, name string, chunk *os.File) {
	r.close()
	r.path = path
	folder, err := r.files.OpenFolder(path)
	if err != nil {
		return
	}
	of, err1 := fileStat(chunk)
	var there unix.Stat_t
	err2 := unix.Fstatat(int(folder.Fd()), name, &there, unix.AT_SYMLINK_NOFOLLOW)
	if errors.Join(err1, err2) != nil || of.Ino != there.Ino || of.Dev != there.Dev {
		folder.Close()
		return
	}
	r.folder = folder
}

// mostFiles bounds the files of a folder that are looked at. A thousand chunks have 12 GB.
const mostFiles = 1 << 12

// after opens the first chunk in the folder that began after a time, ns by the clock of events. It
// returns nil if no chunk did. All files share the tries of one header.
func (r *repository) after(start int64) (first *os.File, its recording.Header) {
	if _, err := r.folder.Seek(0, io.SeekStart); err != nil {
		return nil, its
	}
	names, _ := r.folder.Readdirnames(mostFiles)
	tries := headerTries
	for _, name := range names {
		if filepath.Ext(name) != chunkSuffix {
			continue
		}
		f, err := r.files.OpenIn(r.folder, name)
		if err != nil {
			continue
		}
		h, ok := readHeader(f, &tries)
		began := h.Nanoseconds(h.StartTicks)
		if !ok || began <= start || first != nil && began >= its.Nanoseconds(its.StartTicks) {
			f.Close()
			continue
		}
		if first != nil {
			first.Close()
		}
		first, its = f, h
	}
	return first, its
}

// headerTries is how often a header is read again that is being written.
const headerTries = 10

// readHeader reads the header of a chunk, if it is not being written. It tries again while there are
// tries left, and takes them.
func readHeader(f *os.File, tries *int) (recording.Header, bool) {
	var head, again [recording.HeaderSize]byte
	for {
		if _, err := f.ReadAt(head[:], 0); err != nil {
			return recording.Header{}, false
		}
		if _, err := f.ReadAt(again[:], 0); err != nil {
			return recording.Header{}, false
		}
		h, err := recording.ParseHeader(head[:])
		if err == nil && h.Generation != recording.Writing && head == again {
			return h, true
		}
		if *tries <= 0 {
			return recording.Header{}, false
		}
		*tries--
		time.Sleep(time.Millisecond)
	}
}
