package export

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/ccmapd/ccmapd/ccmap"
)

// WriteFile writes the snapshot to the file at path, in the format and
// compression of its name ([FormatOf]). Of a name like default.pgo it writes what
// [ForPGO] leaves.
//
// The file appears as a whole or not at all, even if the process is killed or the
// machine stops: the content goes to a temporary file in the same directory, is
// synced, and is renamed. A file or symbolic link at path is replaced; after an
// error in writing it still stands. A new file is for its owner alone; a
// replaced one keeps its owner and permissions, as far as the process may set them.
// Temporary files of processes that were killed are removed by the next WriteFile to
// the directory, once they are a day old where other machines may write to it.
//
// A stream ([IsStream]) is written into as it is. Errors name the file.
func WriteFile(path string, s *ccmap.Snapshot) error {
	format, compression, err := FormatOf(path)
	if err == nil && IsPGO(path) {
		s, err = ForPGO(s)
	}
	if err == nil {
		err = writeFile(path, format, compression, s)
	}
	return nameFile(path, err)
}

// WriteFileAs is [WriteFile] in a format that the name need not tell, uncompressed:
// for streams such as /dev/fd/3.
func WriteFileAs(path string, f Format, s *ccmap.Snapshot) error {
	return nameFile(path, writeFile(path, f, Plain, s))
}

func writeFile(path string, f Format, c Compression, s *ccmap.Snapshot) error {
	write := func(w io.Writer) error { return writeCompressed(w, f, c, s) }
	if IsStream(path) {
		return writeStream(path, write)
	}
	return replaceFile(path, write)
}

func nameFile(path string, err error) error {
	if err != nil {
		return fmt.Errorf("write %s: %w", path, cause(err))
	}
	return nil
}

// cause drops from a file error the path, which is that of the temporary file.
func cause(err error) error {
	var onPath *fs.PathError
	if errors.As(err, &onPath) {
		return onPath.Err
	}
	var onRename *os.LinkError
	if errors.As(err, &onRename) {
		return onRename.Err
	}
	return err
}

func writeCompressed(w io.Writer, f Format, c Compression, s *ccmap.Snapshot) error {
	z, err := compress(w, c)
	if err != nil {
		return err
	}
	if err := Write(z, f, s); err != nil {
		z.Close()
		return err
	}
	return z.Close()
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
