package guests

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// dirVariable names the folder where built and fetched guests are kept.
const dirVariable = "CCMAPD_GUESTS"

// ErrUnavailable is in the error of a guest that this machine can't obtain: a
// toolchain is not installed, or a registry out of reach. Tests skip then.
var ErrUnavailable = errors.New("guest unavailable on this machine")

// Dir returns the folder where built and fetched guests are kept, and makes it:
// $CCMAPD_GUESTS, else ccmapd-guests in the user's cache. It may be deleted at any
// time.
func Dir() (string, error) {
	dir := os.Getenv(dirVariable)
	if dir == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return "", fmt.Errorf("find a cache (set %s to a folder): %w", dirVariable, err)
		}
		dir = filepath.Join(cache, "ccmapd-guests")
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("make the cache of guests: %w", err)
	}
	return dir, nil
}

// create makes the file NAME.wasm in the cache and returns its path. make writes a
// file at a path of its own, that takes the place of any older one at once: tests
// of several packages run at the same time.
func create(name string, make func(path string) error) (string, error) {
	dir, err := Dir()
	if err != nil {
		return "", err
	}
	work, err := os.MkdirTemp(dir, "make-")
	if err != nil {
		return "", fmt.Errorf("make a folder for a guest: %w", err)
	}
	defer os.RemoveAll(work)
	made, path := filepath.Join(work, "guest"), filepath.Join(dir, name+".wasm")
	if err := make(made); err != nil {
		return "", fmt.Errorf("make guest %s: %w", name, err)
	}
	if err := os.Rename(made, path); err != nil {
		return "", fmt.Errorf("keep guest %s: %w", name, err)
	}
	return path, nil
}
