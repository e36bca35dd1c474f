package jfr

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/ccmapd/ccmapd/sampler"
	recording "github.com/ccmapd/ccmapd/sampler/hotspot/jfr"
	"golang.org/x/sys/unix"
)

// tail reads the chunk that a JVM writes. It belongs to the goroutine of Run, except Chunks.
type tail struct {
	pid    int
	dir    string   // of chunks, as the target sees it: the JVM's repository; never opened
	file   *os.File // stays open until the next chunk, so that its inode is no other's
	inode  uint64   // of file
	done   bool     // file was read to its end
	chunk  *recording.Chunk
	at     int64 // bytes of the chunk that were read
	broken bool  // the chunk is corrupt: only its end is waited for
	opened atomic.Int64

	corrupt uint64        // chunks
	end     int64         // of the last chunk that was read to its end, ns by the clock of events; 0: none
	gaps    int           // between chunks: one in between was missed
	missing time.Duration // in gaps
}

// Chunks returns how many chunks have been opened. Any goroutine may call it.
func (t *tail) Chunks() int64 { return t.opened.Load() }

func (t *tail) close() {
	if t.file != nil {
		t.file.Close()
		t.file = nil
	}
	if t.chunk != nil {
		t.chunk.Close()
		t.chunk = nil
	}
}

// firstChunkTime is how long the first chunk may take, once the recording has started.
const firstChunkTime = 10 * time.Second

// await waits until there is a chunk.
func (t *tail) await(ctx context.Context) error {
	for deadline := time.Now().Add(firstChunkTime); ; time.Sleep(pollTime / 10) {
		if err := t.find(); err != nil || t.file != nil {
			return err
		}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case time.Now().After(deadline):
			return fmt.Errorf("%w: the JVM records, but has no chunk open", sampler.ErrUnsupported)
		}
	}
}

// repositoryName is how the JVM names the directory of its chunks: by time and pid.
var repositoryName = regexp.MustCompile(`^[0-9]{4}(_[0-9]{2}){5}_[0-9]+$`)

// find opens the chunk that the JVM writes now, if it is another than the last one. A dump is
// an open .jfr, too, but lies elsewhere.
func (t *tail) find() error {
	fds := fmt.Sprintf("/proc/%d/fd", t.pid)
	dir, err := os.Open(fds)
	if err != nil {
		return fmt.Errorf("list open files: %w", err)
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil && !errors.Is(err, unix.ESRCH) && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("list open files: %w", err)
	}
	for _, name := range names {
		link := filepath.Join(fds, name)
		target, err := os.Readlink(link)
		if err != nil || !t.isChunk(strings.TrimSuffix(target, " (deleted)")) || !t.isWritten(name) {
			continue
		}
		if t.open(link, filepath.Dir(target)) {
			return nil
		}
	}
	return nil
}

func (t *tail) isChunk(target string) bool {
	dir := filepath.Dir(target)
	return filepath.Ext(target) == ".jfr" && (dir == t.dir || t.dir == "" && repositoryName.MatchString(filepath.Base(dir)))
}

// isWritten reports whether the JVM has the file open for writing.
func (t *tail) isWritten(fd string) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/fdinfo/%s", t.pid, fd))
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

// open opens a chunk, unless it is the last one.
func (t *tail) open(link, dir string) bool {
	f, err := os.OpenFile(link, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return false
	}
	var st unix.Stat_t
	if unix.Fstat(int(f.Fd()), &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG || t.file != nil && st.Ino == t.inode {
		f.Close()
		return false
	}
	t.close()
	t.file, t.inode, t.done, t.dir = f, st.Ino, false, dir
	t.at, t.broken = recording.HeaderSize, false
	t.opened.Add(1)
	return true
}

// read reads what the JVM has added, and calls fold with each piece. At the end of a chunk it
// goes on with the next.
func (t *tail) read(fold func(*recording.Chunk)) error {
	for {
		if t.file == nil || t.done {
			if err := t.find(); err != nil {
				return err
			}
			if t.file == nil || t.done {
				return nil
			}
		}
		h, ok := t.header()
		if !ok {
			return nil
		}
		t.piece(h, fold)
		if h.Generation != recording.Finished {
			return nil
		}
		t.done, t.end = true, h.Nanoseconds(h.StartTicks)+h.Duration
	}
}

// longestSeam is the most time between the end of a chunk and the beginning of the next. OpenJDK 17
// has less than 1 µs, by clocks that differ so much.
const longestSeam = time.Millisecond

// noteGap notes whether there was a chunk between the last one and a new one: it began and ended
// between two looks.
func (t *tail) noteGap(h recording.Header) {
	if t.end == 0 {
		return
	}
	if gap := time.Duration(h.Nanoseconds(h.StartTicks) - t.end); gap > longestSeam {
		t.gaps++
		t.missing += gap
	}
	t.end = 0
}

// warnings says what readers of the profile must know of the chunks.
func (t *tail) warnings() []string {
	if t.gaps == 0 {
		return nil
	}
	return []string{fmt.Sprintf("%v of the recording are missing: others made dumps of it too soon after each other", t.missing.Round(time.Millisecond))}
}

// headerTries is how often a header is read that is being written.
const headerTries = 10

// header reads the header, if it is not being written.
func (t *tail) header() (recording.Header, bool) {
	var head, again [recording.HeaderSize]byte
	for range headerTries {
		if _, err := t.file.ReadAt(head[:], 0); err != nil {
			return recording.Header{}, false
		}
		if _, err := t.file.ReadAt(again[:], 0); err != nil {
			return recording.Header{}, false
		}
		h, err := recording.ParseHeader(head[:])
		if err == nil && h.Generation != recording.Writing && head == again {
			return h, true
		}
		time.Sleep(time.Millisecond)
	}
	return recording.Header{}, false
}

// largestChunk bounds what is held of a chunk. The JVM begins another at 12 MB.
const largestChunk = 256 << 20

// piece reads the events up to the end that the header says.
func (t *tail) piece(h recording.Header, fold func(*recording.Chunk)) {
	if t.chunk == nil {
		t.chunk = recording.NewChunk(h, budget(largestChunk))
		t.noteGap(h)
	}
	if t.broken || h.Size <= t.at {
		return
	}
	if err := t.add(h, fold); err != nil {
		t.broken = true
		t.corrupt++
	}
}

func (t *tail) add(h recording.Header, fold func(*recording.Chunk)) error {
	size := h.Size - t.at
	if h.Size > largestChunk {
		return fmt.Errorf("a chunk of %d bytes", h.Size)
	}
	events := make([]byte, size)
	if _, err := t.file.ReadAt(events, t.at); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return err
	}
	t.at = h.Size
	if err := t.chunk.Add(events); err != nil {
		return err
	}
	fold(t.chunk)
	return nil
}

var errBudget = errors.New("too much memory for a chunk")

// budget returns a function that gives out so many bytes.
func budget(most int64) func(int64) error {
	held := int64(0)
	return func(bytes int64) error {
		if held+bytes > most {
			return errBudget
		}
		held += bytes
		return nil
	}
}
