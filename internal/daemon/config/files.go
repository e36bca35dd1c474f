package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ccmapd/ccmapd/internal/safepath"
)

const (
	// partsSuffix is what the directory with further targets has after the name of the file.
	partsSuffix = ".d"
	partType    = ".toml"
	// mostParts bounds the files of that directory.
	mostParts = 1024
)

// Load reads a file, and then the files *.toml of the directory FILE.d, by name, which have [[target]] alone. There
// need be no such directory. Others than root and the user of this process must not be able to change or replace any
// of them, because they name files and addresses that the daemon opens with its own rights. The error has what is
// wrong in all files.
func Load(path string) (*Config, error) {
	files := []file{{name: path}}
	parts, err := partsOf(path + partsSuffix)
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	for _, part := range parts {
		files = append(files, file{name: part})
	}
	left := MaxBytes
	for i := range files {
		if files[i].text, err = readFile(files[i].name, left); err != nil {
			return nil, fmt.Errorf("read configuration: %w", err)
		}
		left -= len(files[i].text)
	}
	return parse(files)
}

// partsOf returns the paths of the files with further targets, by name. Without the directory there are none.
func partsOf(path string) (parts []string, err error) {
	dir, err := safepath.OpenDir(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	all, err := os.ReadDir(safepath.At(dir, "."))
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", path, errors.Unwrap(err)) // whose own path is of a descriptor
	}
	for _, one := range all {
		name := one.Name()
		if strings.HasSuffix(name, partType) && !strings.HasPrefix(name, ".") { // as what editors leave
			parts = append(parts, filepath.Join(path, name))
		}
	}
	if len(parts) > mostParts {
		return nil, fmt.Errorf("%s has more than %d files", path, mostParts)
	}
	slices.Sort(parts)
	return parts, nil
}

// readFile reads a file of at most so many bytes, or one more.
func readFile(path string, most int) ([]byte, error) {
	f, err := safepath.OpenFile(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, int64(most)+1))
	if err == nil && len(text) > most {
		err = fmt.Errorf("the configuration is longer than %d KiB", MaxBytes>>10)
	}
	return text, err
}

// CheckOwner refuses a file that others than root and the user of this process can change or
// replace.
func CheckOwner(path string) error {
	f, err := safepath.OpenFile(path)
	if err != nil {
		return fmt.Errorf("read configuration: %w", err)
	}
	return f.Close()
}
