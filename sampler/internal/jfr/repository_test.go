package jfr

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	recording "github.com/ccmapd/ccmapd/internal/jvm/jfr"
)

// here opens files of this process.
type here struct{}

func (here) OpenFolder(path string) (*os.File, error) { return os.Open(path) }
func (here) OpenIn(folder *os.File, name string) (*os.File, error) {
	return os.OpenFile(filepath.Join(folder.Name(), name), os.O_RDONLY|unix.O_NONBLOCK, 0)
}

// chunkFile makes a chunk without events, of a time in ms.
func chunkFile(t *testing.T, path string, start, end int64, generation uint8) *os.File {
	t.Helper()
	b := make([]byte, recording.HeaderSize)
	copy(b, recording.Magic)
	binary.BigEndian.PutUint16(b[4:], 2)
	for at, v := range map[int]int64{8: recording.HeaderSize, 40: (end - start) * int64(time.Millisecond), 48: start, 56: 1000} {
		binary.BigEndian.PutUint64(b[at:], uint64(v))
	}
	b[64], b[67] = generation, 1
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(b, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// Chunks are read one after the other, in the order of their times, though they have begun and
// ended between two looks. A repository elsewhere is found when the last chunk has ended.
func TestRepository(t *testing.T) {
	t.Parallel()
	folder := func() string {
		dir := filepath.Join(t.TempDir(), "2026_11_23_15_40_12_4711")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	dir := folder()
	file := func(name string) string { return filepath.Join(dir, name) }
	if err := unix.Mkfifo(file("0.jfr"), 0o600); err != nil {
		t.Fatal(err)
	}
	fifo, err := os.OpenFile(file("0.jfr"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer fifo.Close()
	chunkFile(t, file("old.jfr"), 1, 10, recording.Finished).Close()
	first := chunkFile(t, file("e.jfr"), 10, 20, 1)

	tail := &tail{repository: repository{pid: os.Getpid(), files: here{}}}
	defer tail.close()
	read := func() {
		t.Helper()
		if err := tail.read(func(*recording.Chunk) {}); err != nil {
			t.Fatal(err)
		}
	}
	at := func(what string, start int64) {
		t.Helper()
		tries := headerTries
		if h, ok := readHeader(tail.file, &tries); !ok || h.StartTicks != start || tail.missing != 0 {
			t.Errorf("%s: the chunk of %d ms is read, want %d; %v are missing", what, h.StartTicks, start, tail.missing)
		}
	}
	r := &tail.repository
	if r.isChunk("/tmp/dump.jfr") || r.isChunk(file("x.txt")) || !r.isChunk(file("x.jfr")) {
		t.Error("names of chunks")
	}
	read()
	at("the one that is written, and not a FIFO", 10)

	chunkFile(t, file("e.jfr"), 10, 20, recording.Finished).Close()
	first.Close()
	chunkFile(t, file("d.jfr"), 20, 30, recording.Finished).Close()
	chunkFile(t, file("b.jfr"), 40, 50, 7).Close()
	chunkFile(t, file("c.jfr"), 30, 40, recording.Finished).Close()
	if err := os.WriteFile(file("a.jfr"), nil, 0o600); err != nil { // the JVM makes the next one
		t.Fatal(err)
	}
	read()
	at("three later", 40)

	chunkFile(t, file("b.jfr"), 40, 50, recording.Finished).Close()
	read()
	if !tail.done {
		t.Error("there is a chunk after the last one")
	}
	dir = folder()
	last := chunkFile(t, file("x.jfr"), 50, 60, 1)
	read()
	at("another repository", 50)
	last.Close()

	chunkFile(t, file("x.jfr"), 50, 60, recording.Finished).Close()
	chunkFile(t, file("z.jfr"), 75, 80, 1).Close()
	read()
	if tail.missing != 15*time.Millisecond {
		t.Errorf("%v are missing, want 15 ms", tail.missing)
	}
}
