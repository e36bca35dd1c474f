package moments

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"time"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/cursor"
)

// Bounds of a chunk, in bytes.
const (
	mostFrame = 2 * mostHeld
	mostPlain = 4 * mostHeld
)

// errDamaged says that the rest of a file cannot be read.
var errDamaged = errors.New("a chunk of moments is damaged")

// sinceBoot returns how much Unix time is ahead of CLOCK_MONOTONIC, which stands still while the machine sleeps, ns.
func sinceBoot() int64 {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) // Linux has the clock since 2.6 (clock_gettime(2))
	return time.Now().UnixNano() - t.Nano()
}

// Read calls each with the moments of a file, or of several in a row, until it returns false, and returns how many
// samples were lost before they were written. A file that ends in a chunk was cut by a kill: that is no error. The
// error of a damaged one comes after the moments before it.
func Read(r io.Reader, each func(ccmap.Moment) bool) (lost uint64, err error) {
	in := bufio.NewReader(r)
	z, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(mostPlain))
	if err != nil {
		return 0, err
	}
	defer z.Close()
	var f file
	for {
		body, begins, err := nextFrame(in)
		if body == nil || err != nil {
			return lost, err
		}
		if begins {
			f = file{}
		}
		plain, err := z.DecodeAll(body, f.plain[:0])
		if err != nil {
			return lost, fmt.Errorf("%w: %w", errDamaged, err)
		}
		f.plain = plain
		n, more, err := f.chunk(each)
		lost += n
		if err != nil || !more {
			return lost, err
		}
	}
}

// nextFrame returns the bytes of the next chunk, nil at the end, and whether it begins a file.
func nextFrame(in *bufio.Reader) (body []byte, begins bool, err error) {
	if ahead, _ := in.Peek(len(header)); string(ahead) == header {
		begins = true
		_, _ = in.Discard(len(header))
	}
	var head [8]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return nil, false, unlessCut(err)
	}
	size := binary.LittleEndian.Uint32(head[:])
	if size == 0 || size > mostFrame {
		return nil, false, errDamaged
	}
	body, err = io.ReadAll(io.LimitReader(in, int64(size))) // grows with what is there
	switch {
	case err != nil:
		return nil, false, err
	case len(body) < int(size):
		return nil, false, nil
	case crc32.Checksum(body, castagnoli) != binary.LittleEndian.Uint32(head[4:]):
		return nil, false, errDamaged
	}
	return body, begins, nil
}

func unlessCut(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	return err
}

// file is a file that is being read.
type file struct {
	paths []uint64
	plain []byte // scratch
}

// chunk reads a chunk. It returns false if each does.
func (f *file) chunk(each func(ccmap.Moment) bool) (lost uint64, more bool, err error) {
	c := &cursor.Cursor{Data: f.plain}
	at := int64(c.U64())
	lost = c.Uleb()
	fresh := c.Uleb()
	if fresh > uint64(len(c.Data)/8) || uint64(len(f.paths))+fresh > mostPaths {
		return 0, false, errDamaged
	}
	for range fresh {
		f.paths = append(f.paths, c.U64())
	}
	weight := uint64(0)
	for n := c.Uleb(); n > 0 && c.Err == nil; n-- {
		token := c.Uleb()
		if token&1 != 0 {
			weight = c.Uleb()
		}
		step := c.Uleb()
		at += int64(step>>1) ^ -int64(step&1)
		if c.Err != nil || token>>1 >= uint64(len(f.paths)) {
			return lost, false, errDamaged
		}
		m := ccmap.Moment{Time: inNanoseconds(at), Path: f.paths[token>>1], Weight: int64(unpackWeight(weight) & math.MaxInt64)}
		if !each(m) {
			return lost, false, nil
		}
	}
	if c.Err != nil {
		return lost, false, errDamaged
	}
	return lost, true, nil
}

// inNanoseconds returns a time; one beyond all bounds is 0.
func inNanoseconds(at int64) int64 {
	if at < 0 || at > math.MaxInt64/int64(unit) {
		return 0
	}
	return at * int64(unit)
}
