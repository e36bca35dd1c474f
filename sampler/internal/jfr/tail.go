package jfr

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	recording "github.com/ccmapd/ccmapd/internal/jvm/jfr"
	"github.com/ccmapd/ccmapd/sampler"
)

// tail reads the chunks that a JVM writes, in their order. It belongs to the goroutine of Run.
type tail struct {
	repository repository
	file       *os.File // stays open until the next chunk, so that its inode is no other's
	inode      uint64   // of file; 0: there was none
	done       bool     // file was read to its end
	chunk      *recording.Chunk
	at         int64 // bytes of the chunk that were read
	got        int64 // bytes that were read in this go, of all chunks
	broken     bool  // the chunk is corrupt: only its end is waited for

	corrupt uint64 // chunks
	seam    seam   // the last chunk that was read to its end
	missing time.Duration
}

// seam is where a chunk has ended. The zero value is before the first one.
type seam struct {
	start, end int64 // of the chunk, ns by the clock of events
	since1970  int64 // its end, ns
}

func (t *tail) close() {
	t.drop()
	t.repository.close()
}

// drop ends with a chunk.
func (t *tail) drop() {
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

// find opens the next chunk, if there is one. The JVM keeps the finished ones that it wrote for our
// recording, so none is missed where the folder can be read. Elsewhere the chunk is taken that the
// JVM has open.
func (t *tail) find() error {
	if t.done && t.repository.folder != nil {
		if f := t.follower(); f != nil {
			t.readChunk(f)
			return nil
		}
	}
	f, err := t.repository.written(t.inode)
	if f != nil {
		t.readChunk(f)
	}
	return err
}

// mostLooks is how often a chunk is looked for that is missing between two.
const mostLooks = 3

// follower opens the chunk after the last one. The folder is not read in one moment: a chunk whose
// header was not there yet is found by another look.
func (t *tail) follower() *os.File {
	for look := 1; ; look++ {
		f, h := t.repository.after(t.seam.start)
		if f == nil || t.gap(h) <= longestSeam || look == mostLooks {
			return f
		}
		f.Close()
		time.Sleep(time.Millisecond)
	}
}

// readChunk makes a file the chunk to be read.
func (t *tail) readChunk(f *os.File) {
	t.drop()
	st, _ := fileStat(f)
	t.file, t.inode, t.done = f, st.Ino, false
	t.at, t.broken = recording.HeaderSize, false
}

// Bounds of what is read in one go: the JVM's user can make chunks faster than they are read. The rest waits for
// the next go.
const (
	mostChunks = 1 << 10
	mostBytes  = largestChunk
)

// read reads what the JVM has added, and calls fold with each piece. At the end of a chunk it
// goes on with the next.
func (t *tail) read(fold func(*recording.Chunk)) error {
	t.got = 0
	for chunks := 0; chunks < mostChunks && t.got < mostBytes; chunks++ {
		if t.file == nil || t.done {
			if err := t.find(); err != nil {
				return err
			}
			if t.file == nil || t.done {
				return nil
			}
		}
		tries := headerTries
		h, ok := readHeader(t.file, &tries)
		if !ok {
			return nil
		}
		t.piece(h, fold)
		if h.Generation != recording.Finished {
			return nil
		}
		start := h.Nanoseconds(h.StartTicks)
		t.done, t.seam = true, seam{start, start + h.Duration, h.Start + h.Duration}
	}
	return nil
}

// longestSeam is the most time between the end of a chunk and the beginning of the next. OpenJDK 17
// has less than 1 µs, by clocks that differ so much.
const longestSeam = time.Millisecond

// gap returns the time between the last chunk and a new one. It is long where there was another, which
// cannot be read.
func (t *tail) gap(h recording.Header) time.Duration {
	if t.seam == (seam{}) {
		return 0
	}
	return time.Duration(h.Nanoseconds(h.StartTicks) - t.seam.end)
}

// noteGap notes what is missing before a new chunk.
func (t *tail) noteGap(h recording.Header) {
	if gap := t.gap(h); gap > longestSeam {
		t.missing += gap
	}
}

// Bounds of what is missing at the end: the JVM's clock of chunks has milliseconds, and a clock that
// was set says nothing.
const shortestEnd, longestEnd = 5 * time.Millisecond, commandTime

// noteEnd notes what is missing between the last chunk and the command that has stopped the
// recording.
func (t *tail) noteEnd(stopped time.Time) {
	if !t.done || stopped.IsZero() {
		return
	}
	if gap := stopped.Sub(time.Unix(0, t.seam.since1970)); gap > shortestEnd && gap < longestEnd {
		t.missing += gap
	}
}

// warnings says what readers of the profile must know of the chunks.
func (t *tail) warnings() []string {
	if t.missing == 0 {
		return nil
	}
	return []string{fmt.Sprintf("%v of the recording are missing: the JVM has removed them before they were read", t.missing.Round(time.Millisecond))}
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
	t.got += size
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
