// Package files makes profiles that attack their reader: small files that take much
// memory or time. Each kind has a size that grows it, so that tests can make it small and
// a campaign large.
//
//	kinds ─▶ text of XML, JSON and folded stacks, messages of profile.proto ─▶ gzip, zstd ─▶ file
//
// Nothing is held in memory: a kind writes as it goes.
package files

import (
	"bufio"
	"compress/gzip"
	"fmt"
	"io"
	"os"

	"github.com/klauspost/compress/zstd"
)

// Kind is a kind of hostile files.
type Kind struct {
	Name string // also the file's, with the extension
	What string // its attack, for a table
	Size int    // in a campaign: number of repeats
	// Amplifies says that a reader without bounds would take more than a gigabyte for a
	// file of Size. Such a file is made, and refused or read, within seconds.
	Amplifies bool
	Least     int // a size that exceeds the bounds of campaigns still, and takes less time; 0: Size

	Make func(w *bufio.Writer, size int)

	wrap func(io.Writer) io.WriteCloser // nil: gzip
}

// Kinds returns all kinds.
func Kinds() []Kind {
	var all []Kind
	for _, list := range [][]Kind{pprofTables, pprofSamples, pprofText, documents, points, folded, compressed} {
		all = append(all, list...)
	}
	return all
}

// Write makes a file of a kind.
func (k Kind) Write(path string, size int) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	wrap := k.wrap
	if wrap == nil {
		wrap = gzipped
	}
	z := wrap(f)
	w := bufio.NewWriterSize(z, 64<<10)
	k.Make(w, size)
	for _, end := range []func() error{w.Flush, z.Close, f.Close} {
		if endErr := end(); err == nil {
			err = endErr
		}
	}
	if err != nil {
		return fmt.Errorf("make %s: %w", k.Name, err)
	}
	return nil
}

func gzipped(w io.Writer) io.WriteCloser {
	z, _ := gzip.NewWriterLevel(w, gzip.BestSpeed) // the level is a valid one
	return z
}

// zstdOf returns a wrapper of a window, in bytes.
func zstdOf(window int) func(io.Writer) io.WriteCloser {
	return func(w io.Writer) io.WriteCloser {
		z, err := zstd.NewWriter(w, zstd.WithWindowSize(window), zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest))
		if err != nil {
			panic(err) // no such window
		}
		return z
	}
}

// plain wraps nothing.
func plain(w io.Writer) io.WriteCloser { return unclosed{w} }

type unclosed struct{ io.Writer }

func (unclosed) Close() error { return nil }

// layers wraps in several compressions, the outermost first.
func layers(wraps ...func(io.Writer) io.WriteCloser) func(io.Writer) io.WriteCloser {
	return func(w io.Writer) io.WriteCloser {
		var stack layered
		for _, wrap := range wraps {
			z := wrap(w)
			stack, w = append(stack, z), z
		}
		return stack
	}
}

// layered are compressions around each other, the outermost first.
type layered []io.WriteCloser

func (l layered) Write(p []byte) (int, error) { return l[len(l)-1].Write(p) }

func (l layered) Close() error {
	for i := len(l) - 1; i >= 0; i-- {
		if err := l[i].Close(); err != nil {
			return err
		}
	}
	return nil
}

var compressed = []Kind{
	{Name: "gzip.folded.gz", What: "blank lines, a thousand to a byte of gzip", Size: 3 << 30, Make: blankLines},
	{Name: "zstd.folded.zst", What: "blank lines, thirty thousand to a byte of zstd", Size: 3 << 30, Make: blankLines, wrap: zstdOf(8 << 20)},
	{Name: "window.folded.zst", What: "four layers of zstd, each with a window of 128 MiB", Size: 1 << 30, Amplifies: true, Least: 1 << 24, Make: blankLines,
		wrap: layers(zstdOf(128<<20), zstdOf(128<<20), zstdOf(128<<20), zstdOf(128<<20))},
	{Name: "layers.folded.gz", What: "four layers of gzip", Size: 1 << 30, Make: blankLines,
		wrap: layers(gzipped, gzipped, gzipped, gzipped)},
}

// repeat writes a text n times.
func repeat(w *bufio.Writer, n int, text string) {
	for range n {
		w.WriteString(text)
	}
}

func blankLines(w *bufio.Writer, size int) {
	line := make([]byte, 32<<10)
	for i := range line {
		line[i] = '\n'
	}
	for ; size > 0; size -= len(line) {
		w.Write(line)
	}
	w.WriteString("a 1\n")
}
