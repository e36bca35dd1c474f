package campaign

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// The tree has two modules. The laboratory is in a folder of the product.
const (
	product    = "module github.com/ccmapd/ccmapd\n"
	laboratory = "./scripts"
)

// EnterTree makes the folder of the product's module the current one, from any folder of the tree. Files that
// flags name are then the same, whether a command was started there or, as "go -C scripts run" does, in the
// laboratory.
func EnterTree() error {
	tree, err := findTree()
	if err != nil {
		return err
	}
	return os.Chdir(tree)
}

// findTree returns the folder of the product's module, which the current folder is in.
func findTree() (string, error) {
	folder, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for start := folder; ; folder = filepath.Dir(folder) {
		text, err := os.ReadFile(filepath.Join(folder, "go.mod"))
		switch {
		case err == nil && bytes.HasPrefix(text, []byte(product)):
			return folder, nil
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return "", err
		case folder == filepath.Dir(folder):
			return "", fmt.Errorf("find the source of ccmapd: no folder above %s has its go.mod", start)
		}
	}
}

// Build builds a command of either module: target is its folder in the tree, as ./cmd/ccmapd. Executable is an
// absolute path.
func Build(ctx context.Context, executable, target string, flags ...string) error {
	folder, err := findTree()
	if err != nil {
		return err
	}
	if inside, ok := strings.CutPrefix(target, laboratory+"/"); ok {
		folder, target = filepath.Join(folder, laboratory), "./"+inside
	}
	args := slices.Concat([]string{"-C", folder, "build", "-o", executable}, flags, []string{target})
	return Command(exec.CommandContext(ctx, "go", args...))
}
