package hub

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/internal/column"
	"github.com/ccmapd/ccmapd/internal/contribution"
)

// within bounds the reading of a contribution, which is a hostile file: 100,000 contexts take 64 MiB.
var within = export.ReadOptions{MaxMemory: 96 << 20, MaxBytes: 64 << 20, MaxSteps: 1 << 28, MaxDepth: 4096}

// timeNoise is how much more CPU time than there was a contribution may have, as a share of it: samples are a measure.
const timeNoise = 0.25

var errNoMap = errors.New("it cannot be a profile of its key")

// readContribution returns the profile of a contribution. The error says why there is none: it is poison.
func readContribution(f contribution.Frame) (*ccmap.Snapshot, error) {
	m, format, err := export.Read(bytes.NewReader(f.Body), within)
	if err != nil {
		return nil, err
	}
	s := m.Snapshot()
	total := s.Total()
	most := f.Key.To.Sub(f.Key.From).Seconds()*float64(f.Key.CPUs)*(1+timeNoise) + 1
	switch {
	case format != export.JSON:
		return nil, fmt.Errorf("%w: it is %s, want JSON", errNoMap, format)
	case m.Meta().Unit != unitOf(f.Key):
		return nil, fmt.Errorf("%w: its unit is %s", errNoMap, m.Meta().Unit)
	case m.Meta().Unit == ccmap.CPUTime && time.Duration(total.Time).Seconds() > most:
		return nil, fmt.Errorf("%w: %s is more CPU time than there was", errNoMap, time.Duration(total.Time))
	case s.WithoutLabels() != s:
		return nil, fmt.Errorf("%w: it has labels, which may hold data of users", errNoMap)
	}
	return s, nil
}

func unitOf(k contribution.Key) ccmap.Unit { return ccmap.NewUnit(k.Kind, k.Base) }

// Profiles go to clients as the store has them, JSON under zstd. What lies in the bucket is columns of numbers under
// zstd, after a byte that says so: they take a small part of the time. Hubs before version 5 of manifests had JSON
// there, too.
const (
	inColumns    byte = 1       // no zstd begins so
	columnsShare      = 16      // what part of the memory of their reading columns may take themselves: one of so many
	window            = 1 << 20 // bytes that compression looks back: by default each encoder takes 16 MB
)

var (
	encoders = sync.Pool{New: func() any {
		z, _ := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(window), zstd.WithLowerEncoderMem(true))
		return z
	}}
	columnPacker, _   = zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithWindowSize(window), zstd.WithLowerEncoderMem(true))
	columnUnpacker, _ = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(partMemory/columnsShare))
)

// writeProfile writes a profile as the store does.
func writeProfile(s *ccmap.Snapshot) ([]byte, error) {
	var b bytes.Buffer
	z := encoders.Get().(*zstd.Encoder)
	defer encoders.Put(z)
	z.Reset(&b)
	if err := errors.Join(export.Write(z, export.JSON, s), z.Close()); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// errSumFull is the error of a sum that holds more than a hub may read, of what pruning keeps: names, totals of methods and
// of calls, points.
var errSumFull = errors.New("the sum has too many methods, calls or points for a hub")

// isFull reports whether a map holds too much to grow: reading it takes up to twice as much.
func isFull(m *ccmap.Map) bool { return m.Bytes()+m.Names().Bytes() > partMemory/2 }

// appendSum appends a map as the bucket has it. One that takes more memory than that to be read is pruned; if that is
// not enough, it is full.
func appendSum(dst []byte, m *ccmap.Map, memory int64) ([]byte, error) {
	buffer := buffers.Get().(*[]byte)
	defer keep(buffer)
	columns, takes := column.Append((*buffer)[:0], m.Snapshot())
	fits := func() bool { return takes <= memory && int64(len(columns)) <= memory/columnsShare }
	for bound := m.Bytes(); !fits() && bound > 1<<10; {
		bound /= 2
		m.SetMaxBytes(bound)
		columns, takes = column.Append(columns[:0], m.Snapshot())
	}
	*buffer = columns
	if !fits() {
		return dst, errSumFull
	}
	return columnPacker.EncodeAll(columns, append(dst, inColumns)), nil
}

// mostPooled bounds the buffers that are kept for the next sum, in bytes: most sums have some 100 kB.
const mostPooled = 1 << 20

// buffers have columns. Neither maps nor compressed bytes refer to them.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

func keep(buffer *[]byte) {
	if cap(*buffer) <= mostPooled {
		buffers.Put(buffer)
	}
}

// readSum returns a map of the bucket. Others may have changed it: it takes bounded memory, whatever it is.
func readSum(b []byte, within export.ReadOptions) (*ccmap.Map, error) {
	if len(b) == 0 || b[0] != inColumns {
		m, _, err := export.Read(bytes.NewReader(b), within)
		return m, err
	}
	buffer := buffers.Get().(*[]byte)
	defer keep(buffer)
	columns, err := columnUnpacker.DecodeAll(b[1:], (*buffer)[:0])
	*buffer = columns
	if err == nil && int64(len(columns)) > within.MaxMemory/columnsShare {
		err = export.ErrMemory
	}
	if err != nil {
		return nil, fmt.Errorf("decompress columns: %w", err)
	}
	return column.NewDecoder(ccmap.NewNames()).Decode(columns, within.MaxMemory)
}
