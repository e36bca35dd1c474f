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
	memory   memory
}

// Memory returns how many bytes the programs take, at most.
func (d *Data) Memory() int64 { return d.memory.held }

// The files of a GOCOVERDIR begin with these.
const (
	metaPrefix    = "covmeta."
	counterPrefix = "covcounters."
)

// ReadDir reads a directory that was the GOCOVERDIR of one or more programs. It fails if
// it can read no meta-data file there. It ignores other files that it cannot read. If the
// programs and the largest file take more than maxMemory bytes, it fails with [ErrMemory].
func ReadDir(dir string, maxMemory int64) (*Data, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("read coverage data: %w", err)
	}
	d := &Data{memory: memory{limit: maxMemory}}
	if err := d.eachFile(dir, entries, metaPrefix, d.addProgram); err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	if len(d.Programs) == 0 {
		return nil, fmt.Errorf("%s: %w", dir, errors.Join(append([]error{ErrNoData}, d.Ignored...)...))
	}
	if err := d.eachFile(dir, entries, counterPrefix, d.addCounters); err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	return d, nil
}

// eachFile calls add with the content of each file with a prefix, up to one that takes too
// much memory.
func (d *Data) eachFile(dir string, entries []fs.DirEntry, prefix string, add func([]byte) error) error {
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), prefix) {
			continue
		}
		err := d.readFile(filepath.Join(dir, e.Name()), add)
		if err != nil {
			err = fmt.Errorf("%s: %w", e.Name(), err)
		}
		if errors.Is(err, ErrMemory) {
			return err
		}
		if err != nil {
			d.Ignored = append(d.Ignored, err)
		}
	}
	return nil
}

func (d *Data) addProgram(b []byte) error {
	if d.metaSize+len(b) > maxMetaSize {
		return fmt.Errorf("read coverage meta-data: %w: over %d MiB with those before", ErrTooLarge, maxMetaSize>>20)
	}
	held := d.memory.held
	p, err := readMetaIn(b, &d.memory)
	if err != nil {
		return err
	}
	if d.program(p.Hash) != nil {
		d.memory.held = held
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

// readFile calls add with the content of a regular file. A pipe of that name could block.
func (d *Data) readFile(name string, add func([]byte) error) error {
	info, err := os.Stat(name)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return errors.New("not a regular file")
	}
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	size := min(info.Size(), MaxFileSize) + 1 // the decoders refuse a longer file
	if err := d.memory.reserve(uint64(size), 1); err != nil {
		return err
	}
	defer func() { d.memory.held -= size }()
	b := make([]byte, size)
	n, err := io.ReadFull(f, b)
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return err
	}
	return add(b[:n])
}
