package deltalog

import (
	"bytes"
	"errors"
	"flag"
	"math"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/ccmapd/ccmapd/internal/store/internal/cutdisk"
)

var flips = flag.Int("flips", 300, "flipped `bits` of TestFlippedBits")

func newDisk() *cutdisk.Disk { return cutdisk.New(1, math.MaxInt) }

// testFrames are frames of all sizes. Their bodies are numbered.
func testFrames(n int) []Frame {
	rnd := rand.New(rand.NewPCG(2, 3))
	frames := make([]Frame, n)
	for i := range frames {
		head, body := make([]byte, rnd.IntN(50)), make([]byte, rnd.IntN(3000))
		for j := range body {
			body[j] = byte(rnd.Uint32())
		}
		frames[i] = Frame{Kind: Kind(i % 5), Encoding: 1, Stream: uint64(i % 7), Seq: uint64(i), Head: head, Body: body}
	}
	return frames
}

func equal(a, b []Frame) bool {
	return slices.EqualFunc(a, b, func(f, g Frame) bool {
		return f.Kind == g.Kind && f.Encoding == g.Encoding && f.Stream == g.Stream && f.Seq == g.Seq &&
			bytes.Equal(f.Head, g.Head) && bytes.Equal(f.Body, g.Body)
	})
}

func clone(f Frame) Frame {
	f.Head, f.Body = slices.Clone(f.Head), slices.Clone(f.Body)
	return f
}

func scanAll(t *testing.T, d Disk) ([]Frame, Damage) {
	t.Helper()
	l, err := Open(d, "log")
	if err != nil {
		t.Fatal(err)
	}
	var frames []Frame
	damage := l.Scan(func(p Position, f Frame) {
		again, err := l.Read(p)
		if err != nil || !equal([]Frame{f}, []Frame{again}) {
			t.Errorf("frame %d read again: error %v, or another frame", f.Seq, err)
		}
		frames = append(frames, clone(f))
	})
	return frames, damage
}

// What several processes have appended is read in order, with their segments.
func TestFramesComeBack(t *testing.T) {
	t.Parallel()
	d, frames := newDisk(), testFrames(40)
	for part := range slices.Chunk(frames, 10) {
		l, err := Open(d, "log")
		if err != nil {
			t.Fatal(err)
		}
		for pair := range slices.Chunk(part, 2) {
			places, err := l.Append(pair)
			if err != nil {
				t.Fatal(err)
			}
			if f, err := l.Read(places[1]); err != nil || f.Seq != pair[1].Seq {
				t.Errorf("frame %d, error %v; want %d", f.Seq, err, pair[1].Seq)
			}
		}
		l.Close()
	}
	got, damage := scanAll(t, d)
	if !equal(frames, got) || damage != (Damage{}) {
		t.Errorf("%d frames, want %d, or others; damage %v", len(got), len(frames), damage)
	}
}

var testSalt = salt{0xff, 1, 2, 3, 4, 5, 6, 7}

// segmentOf returns the bytes of frames, and where each ends.
func segmentOf(frames []Frame) (b []byte, ends []int) {
	for i := range frames {
		b, _ = appendFrame(b, testSalt, &frames[i])
		ends = append(ends, len(b))
	}
	return b, ends
}

func scanBytes(b []byte) (frames []Frame, d Damage) {
	d, _ = scan(bytes.NewReader(b), int64(len(b)), testSalt, func(f Frame, _, _ int64) { frames = append(frames, clone(f)) })
	return frames, d
}

// A flipped bit loses the frame that it is in, and no other; the frame is never taken for another one.
func TestFlippedBits(t *testing.T) {
	t.Parallel()
	frames := testFrames(60)
	whole, ends := segmentOf(frames)
	rnd := rand.New(rand.NewPCG(4, 5))
	for range *flips {
		b := slices.Clone(whole)
		bit := rnd.IntN(8 * len(b))
		b[bit/8] ^= 1 << (bit % 8)
		hit, _ := slices.BinarySearch(ends, bit/8+1)
		got, damage := scanBytes(b)
		if !equal(slices.Delete(slices.Clone(frames), hit, hit+1), got) {
			t.Fatalf("bit %d, in frame %d: %d frames, or others", bit, hit, len(got))
		}
		if damage.Stretches == 0 && damage.Torn == 0 {
			t.Errorf("bit %d: no damage", bit)
		}
	}
}

// A segment that was cut has all frames that end before the cut.
func TestTruncatedSegments(t *testing.T) {
	t.Parallel()
	frames := testFrames(20)
	whole, ends := segmentOf(frames)
	cuts := 0
	for cut := range whole {
		if cut%7 > 0 && cut%1000 > 50 {
			continue
		}
		cuts++
		count, _ := slices.BinarySearch(ends, cut+1)
		got, damage := scanBytes(whole[:cut])
		if !equal(frames[:count], got) {
			t.Fatalf("cut at %d: %d frames, want %d, or others", cut, len(got), count)
		}
		if damage.Stretches > 0 {
			t.Errorf("cut at %d: %v", cut, damage)
		}
	}
	t.Logf("cut at %d places", cuts)
}

// Zeros at the end are no damage: the file system has made the file longer, and not written to it. Zeros between are.
func TestZeros(t *testing.T) {
	t.Parallel()
	frames := testFrames(5)
	whole, ends := segmentOf(frames)
	got, damage := scanBytes(append(slices.Clone(whole), make([]byte, 1<<20)...))
	if len(got) != len(frames) || damage != (Damage{}) {
		t.Errorf("%d frames, %v", len(got), damage)
	}
	between := slices.Insert(slices.Clone(whole), ends[2], make([]byte, 600<<10)...)
	if got, damage = scanBytes(between); len(got) != len(frames) || damage != (Damage{Stretches: 1, Bytes: 600 << 10}) {
		t.Errorf("%d frames, %v", len(got), damage)
	}
}

// A body that holds frames of another segment is not looked into, even if its own frame is damaged: a target may
// choose the names of its methods.
func TestFramesInBodies(t *testing.T) {
	t.Parallel()
	other := salt{9, 9, 9, 9, 9, 9, 9, 9}
	inner, _ := appendFrame(nil, other, &Frame{Kind: 1, Stream: 666})
	b, _ := segmentOf([]Frame{{Kind: 1, Stream: 1, Body: inner}, {Kind: 1, Stream: 2}})
	b[headerLen-1] ^= 1
	got, _ := scanBytes(b)
	if len(got) != 1 || got[0].Stream != 2 {
		t.Errorf("%+v", got)
	}
}

// A hostile segment, full of beginnings that claim the rest of it, is scanned in a time that is linear in its size.
func TestHostileLengths(t *testing.T) {
	t.Parallel()
	var b []byte
	header, _ := appendFrame(nil, testSalt, &Frame{})
	for range 1 << 16 {
		b = append(b, header[:leastLen]...)
	}
	for off := 0; off < len(b); off += leastLen {
		rest := uint32(len(b) - off)
		b[off+sizeAt], b[off+sizeAt+1], b[off+sizeAt+2], b[off+sizeAt+3] = byte(rest), byte(rest>>8), byte(rest>>16), byte(rest>>24)
	}
	r := &countingReader{r: bytes.NewReader(b)}
	scan(r, int64(len(b)), testSalt, func(Frame, int64, int64) { t.Error("a frame") })
	if most := int64(4 * wasteLimit * len(b)); r.read > most {
		t.Errorf("%d bytes read, more than %d", r.read, most)
	}
}

type countingReader struct {
	r    *bytes.Reader
	read int64
}

func (c *countingReader) ReadAt(p []byte, off int64) (int, error) {
	n, err := c.r.ReadAt(p, off)
	c.read += int64(n)
	return n, err
}

// After a write that failed the log goes on where it was; after a sync that failed it begins a new segment.
func TestFailures(t *testing.T) {
	t.Parallel()
	for call, segments := range map[string]int{"write": 1, "sync": 2, "syncdir": 1, "create": 1} {
		d, frames := newDisk(), testFrames(4)
		l, err := Open(d, "log")
		if err != nil {
			t.Fatal(err)
		}
		appendOne := func(i int) error {
			_, err := l.Append(frames[i : i+1])
			return err
		}
		if call != "create" && call != "syncdir" {
			if err := appendOne(0); err != nil {
				t.Fatal(err)
			}
		}
		d.Fail = func(failing, _ string) error {
			if failing == call {
				return syscall.EIO
			}
			return nil
		}
		if err := appendOne(1); !errors.Is(err, syscall.EIO) {
			t.Errorf("%s: error %v", call, err)
		}
		d.Fail = nil
		if err := errors.Join(appendOne(2), appendOne(3)); err != nil {
			t.Errorf("%s: after it: %v", call, err)
		}
		infos, _ := d.List("log")
		if len(infos) != segments {
			t.Errorf("%s: %d segments, want %d", call, len(infos), segments)
		}
		got, damage := scanAll(t, d)
		seqs := slices.DeleteFunc(got, func(f Frame) bool { return f.Seq < 2 })
		if len(seqs) != 2 || damage != (Damage{}) {
			t.Errorf("%s: %d frames, %v", call, len(seqs), damage)
		}
	}
}

func TestTooLarge(t *testing.T) {
	t.Parallel()
	l, err := Open(newDisk(), "log")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Append([]Frame{{Body: make([]byte, MaxFrame)}}); !errors.Is(err, ErrTooLarge) {
		t.Error(err)
	}
	if _, err := l.Append(testFrames(1)); err != nil {
		t.Error(err)
	}
}

// DropBefore removes whole segments, never the one that is written to, and numbers go on.
func TestDropBefore(t *testing.T) {
	t.Parallel()
	d := newDisk()
	l, err := Open(d, "log")
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := l.Append(testFrames(1)); err != nil {
			t.Fatal(err)
		}
		l.Roll()
	}
	if err := l.DropBefore(3); err != nil {
		t.Fatal(err)
	}
	infos, _ := d.List("log")
	if len(infos) != 1 || !strings.HasPrefix(infos[0].Name(), "0000000003-") {
		t.Errorf("%d segments", len(infos))
	}
	if _, err := l.Append(testFrames(1)); err != nil {
		t.Fatal(err)
	}
	if err := l.DropBefore(math.MaxUint64); err != nil {
		t.Fatal(err)
	}
	infos, _ = d.List("log")
	if len(infos) != 1 || !strings.HasPrefix(infos[0].Name(), "0000000004-") {
		t.Errorf("%d segments", len(infos))
	}
}

// Other names in the directory are no segments.
func TestNames(t *testing.T) {
	t.Parallel()
	d := newDisk()
	for _, name := range []string{"x", "1-00.seg", "0000000001-0011223344556677.seg.bak", "0000000001-00112233445566ZZ.seg", "-.seg"} {
		if _, err := d.Create(path.Join("log", name)); err != nil {
			t.Fatal(err)
		}
	}
	if l, err := Open(d, "log"); err != nil || l.Next() != 1 || len(l.segments) > 0 {
		t.Errorf("next %d, error %v", l.Next(), err)
	}
}

// FuzzScan: any bytes are scanned without a panic, and frames that are found lie in the segment, one after another.
func FuzzScan(f *testing.F) {
	whole, _ := segmentOf(testFrames(3))
	f.Add(whole)
	f.Add(whole[:len(whole)/2])
	f.Add(append(slices.Clone(testSalt[:]), make([]byte, 100)...))
	f.Fuzz(func(t *testing.T, b []byte) {
		end := int64(0)
		d, err := scan(bytes.NewReader(b), int64(len(b)), testSalt, func(frame Frame, off, size int64) {
			if off < end || size != int64(leastLen+len(frame.Head)+len(frame.Body)) {
				t.Errorf("frame of %d bytes at %d, after %d", size, off, end)
			}
			end = off + size
		})
		if err != nil || d.Bytes+d.Torn+end > int64(2*len(b)) {
			t.Errorf("%v, %v", d, err)
		}
	})
}
