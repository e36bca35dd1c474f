package export

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// Compression is a compression of whole files.
type Compression uint8

const (
	Plain Compression = iota
	Gzip
	Zstd
)

func cutCompression(name string) (string, Compression) {
	if base, ok := strings.CutSuffix(name, ".gz"); ok {
		return base, Gzip
	}
	if base, ok := strings.CutSuffix(name, ".zst"); ok {
		return base, Zstd
	}
	return name, Plain
}

// compress returns a writer that must be closed, which leaves w open. The same
// content gives the same bytes: neither times nor names go into the headers.
func compress(w io.Writer, c Compression) (io.WriteCloser, error) {
	switch c {
	case Gzip:
		return gzip.NewWriter(w), nil
	case Zstd:
		return zstd.NewWriter(w, zstd.WithEncoderConcurrency(1))
	}
	return unclosed{w}, nil
}

type unclosed struct{ io.Writer }

func (unclosed) Close() error { return nil }

// maxLayers bounds compression in compression. Two happen in practice: an archive
// compresses a profile that was compressed already.
const maxLayers = 4

// maxWindow bounds the memory that a zstd frame may ask for: 128 MiB, as zstd's own
// command does without --long.
const maxWindow = 128 << 20

// usualWindow is the window of zstd by default, and the least that is allowed: 8 MiB.
const usualWindow = 8 << 20

var (
	gzipMagic = []byte{0x1f, 0x8b}
	zstdMagic = []byte{0x28, 0xb5, 0x2f, 0xfd}
)

// decompress unwraps gzip and zstd, as often as they were put around, within the bounds of a
// builder for each layer. release, never nil, frees the decoders.
func decompress(r io.Reader, b *builder) (plain *bufio.Reader, release func(), err error) {
	var closers []io.Closer
	release = func() {
		for _, c := range closers {
			c.Close()
		}
	}
	size := sizeOf(r)
	file := &countingReader{r: r, size: size}
	r = file
	for range maxLayers + 1 {
		content := newExpansionReader(r, b, file)
		plain = bufio.NewReaderSize(content, 64<<10)
		layer, err := unwrap(plain, b)
		if err != nil {
			return nil, release, err
		}
		if layer == nil {
			b.size, content.told = size, &b.told
			return plain, release, nil
		}
		closers = append(closers, layer)
		r, size = layer, 0
	}
	return nil, release, fmt.Errorf("%w: compressed more than %d times over", ErrTooDeep, maxLayers)
}

// sizeOf returns how many bytes a reader has left, 0 where it does not say that.
func sizeOf(r io.Reader) int64 {
	switch r := r.(type) {
	case interface{ Len() int }: // of bytes and strings
		return max(int64(r.Len()), 0)
	case *os.File:
		if info, err := r.Stat(); err == nil && info.Mode().IsRegular() {
			return info.Size()
		}
	}
	return 0
}

// unwrap returns the content of r if it is compressed, and nil if it is not.
func unwrap(r *bufio.Reader, b *builder) (io.ReadCloser, error) {
	head, err := r.Peek(zstd.HeaderMaxSize)
	if err != nil && err != io.EOF {
		return nil, err
	}
	switch {
	case bytes.HasPrefix(head, gzipMagic):
		z, err := gzip.NewReader(r)
		if err != nil {
			return nil, fmt.Errorf("decompress gzip: %w", orCut(err))
		}
		return &layer{name: "gzip", r: z, close: z.Close}, nil
	case bytes.HasPrefix(head, zstdMagic):
		return unwrapZstd(r, head, b)
	}
	return nil, nil
}

// unwrapZstd takes the memory of the window that the first frame asks for. Further frames
// may have as much.
func unwrapZstd(r io.Reader, head []byte, b *builder) (io.ReadCloser, error) {
	var first zstd.Header
	window := uint64(usualWindow)
	if first.Decode(head) == nil {
		window = min(max(window, first.WindowSize), maxWindow)
	}
	if err := b.memory.reserve(int64(window)); err != nil {
		return nil, fmt.Errorf("decompress zstd: %w", err)
	}
	goroutines := 1 // this one
	if b.limits.Ahead {
		goroutines = 2 // or more: a pipeline
	}
	z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(goroutines), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(window))
	if err != nil {
		return nil, fmt.Errorf("decompress zstd: %w", orCut(err))
	}
	return &layer{name: "zstd", r: z, close: func() error { z.Close(); return nil }}, nil
}

// layer is a decompressor that says in its errors which one it is.
type layer struct {
	name  string
	r     io.Reader
	close func() error
}

func (l *layer) Read(p []byte) (int, error) {
	n, err := l.r.Read(p)
	if err != nil && err != io.EOF {
		err = fmt.Errorf("decompress %s: %w", l.name, err)
	}
	return n, err
}

func (l *layer) Close() error { return l.close() }

// orCut makes the end of a file that should go on an unexpected one.
func orCut(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
