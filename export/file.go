package export

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"

	"github.com/ccmapd/ccmapd/ccmap"
)

// WriteFile writes the snapshot to the file at path, in the format and
// compression of its name ([FormatOf]), with the permissions that the umask
// leaves. Of a name like default.pgo it writes what [ForPGO] leaves.
//
// The file appears as a whole or not at all: the content goes to a temporary
// file in the same directory, is synced, and is renamed. What stood at path,
// a symbolic link too, is replaced, and after an error still stands. Errors name
// the file.
func WriteFile(path string, s *ccmap.Snapshot) error {
	format, compression, err := FormatOf(path)
	if err == nil && IsPGO(path) {
		s, err = ForPGO(s)
	}
	if err == nil {
		err = replaceFile(path, func(w io.Writer) error {
			return writeCompressed(w, format, compression, s)
		})
	}
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

// replaceFile puts what write writes in the place of the file at path.
func replaceFile(path string, write func(io.Writer) error) error {
	f, err := createTemp(filepath.Dir(path))
	if err != nil {
		return err
	}
	err = write(f)
	if err == nil {
		err = f.Sync()
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name()) // the first error is the one to report
	}
	return err
}

// createTemp creates a file that did not exist, with the permissions of a new
// file rather than the 0600 of os.CreateTemp, and follows no link to it.
func createTemp(dir string) (*os.File, error) {
	const attempts = 100
	var err error
	for range attempts {
		var f *os.File
		name := filepath.Join(dir, fmt.Sprintf(".ccmapd-%016x.tmp", rand.Uint64()))
		f, err = os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o666)
		if !errors.Is(err, fs.ErrExist) {
			return f, err
		}
	}
	return nil, err
}
