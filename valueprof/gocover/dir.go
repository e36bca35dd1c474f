package gocover

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// ErrNoData says that a directory has no meta-data file.
var ErrNoData = errors.New("no coverage data")

// Data has the programs in a directory.
type Data struct {
	Programs []*Program // in the order of the names of their files
	Ignored  []error    // of files that could not be read

	metaSize int // bytes of the meta-data files of Programs
}

// The files of a GOCOVERDIR begin with these.
const (
	metaPrefix    = "covmeta."
	counterPrefix = "covcounters."
)

// ReadDir reads a directory that was the GOCOVERDIR of one or more programs. It fails if
// it can read no meta-data file there. It ignores other files that it cannot read.
func ReadDir(dir string) (*Data, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("read coverage data: %w", err)
	}
	d := new(Data)
	d.eachFile(dir, entries, metaPrefix, d.addProgram)
	if len(d.Programs) == 0 {
		return nil, fmt.Errorf("%s: %w", dir, errors.Join(append([]error{ErrNoData}, d.Ignored...)...))
	}
	d.eachFile(dir, entries, counterPrefix, d.addCounters)
	return d, nil
}

// eachFile calls add with the content of each file with a prefix.
func (d *Data) eachFile(dir string, entries []fs.DirEntry, prefix string, add func([]byte) error) {
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), prefix) {
			continue
		}
		b, err := readFile(filepath.Join(dir, e.Name()))
		if err == nil {
			err = add(b)
		}
		if err != nil {
			d.Ignored = append(d.Ignored, fmt.Errorf("%s: %w", e.Name(), err))
		}
	}
}

func (d *Data) addProgram(b []byte) error {
	if d.metaSize+len(b) > maxMetaSize {
		return fmt.Errorf("read coverage meta-data: %w: over %d MiB with those before", ErrTooLarge, maxMetaSize>>20)
	}
	p, err := ReadMeta(b)
	if err != nil {
		return err
	}
	if d.program(p.Hash) != nil {
		return errors.New("read coverage meta-data: there is a file of the same hash")
	}
	d.metaSize += len(b)
	d.Programs = append(d.Programs, p)
	return nil
}

// addCounters adds a counter file to its program.
func (d *Data) addCounters(b []byte) error {
	var err error
	for _, p := range d.Programs {
		if err = p.Add(b); !errors.Is(err, ErrOther) {
			break
		}
	}
	return err
}

func (d *Data) program(hash [16]byte) *Program {
	for _, p := range d.Programs {
		if p.Hash == hash {
			return p
		}
	}
	return nil
}

// readFile reads a regular file. A pipe of that name could block.
func readFile(name string) ([]byte, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("not a regular file")
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, MaxFileSize+1)) // the decoders refuse a longer file
}
