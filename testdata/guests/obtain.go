package guests

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
)

// Package is a module in a public package, pinned.
type Package struct {
	Registry string // "npm", or "go" for the module proxy
	Name     string
	Version  string
	File     string // slash-separated path of the module in the package
	SHA256   string // of the file, in hexadecimal
}

// maxFile bounds an unpacked file, in bytes.
const maxFile = 128 << 20

// Fetch returns the path of a package's module in the cache. The registry's own client,
// npm or go, fetches a missing module. Fetch always checks the SHA-256. The name
// identifies the file in the cache.
func Fetch(ctx context.Context, name string, p Package) (path string, err error) {
	dir, err := Dir()
	if err != nil {
		return "", err
	}
	path = filepath.Join(dir, name+".wasm")
	switch err := p.check(path); {
	case err == nil:
		return path, nil
	case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, errDigest):
		return "", err
	}
	return create(name, func(path string) error {
		if err := p.fetch(ctx, path); err != nil {
			return fmt.Errorf("fetch %s@%s: %w", p.Name, p.Version, err)
		}
		return p.check(path)
	})
}

var errDigest = errors.New("not the file whose SHA-256 is pinned")

func (p Package) check(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("open guest: %w", err)
	}
	defer file.Close()
	hash := sha256.New()
	if _, err := io.Copy(hash, file); err != nil {
		return fmt.Errorf("read guest: %w", err)
	}
	if got := hex.EncodeToString(hash.Sum(nil)); got != p.SHA256 {
		return fmt.Errorf("%w: %s has %s", errDigest, path, got)
	}
	return nil
}

func (p Package) fetch(ctx context.Context, path string) error {
	if p.Registry == "npm" {
		return p.fetchNPM(ctx, path)
	}
	return p.fetchGo(ctx, path)
}

// fetchGo copies the file from Go's module cache. The go command has checked the
// module against Go's checksum database.
func (p Package) fetchGo(ctx context.Context, path string) error {
	output, err := client(ctx, filepath.Dir(path), "go", "mod", "download", "-json", p.Name+"@"+p.Version)
	if err != nil {
		return err
	}
	var module struct{ Dir string }
	if err := json.Unmarshal(output, &module); err != nil {
		return fmt.Errorf("read the answer of go: %w", err)
	}
	file, err := os.Open(filepath.Join(module.Dir, filepath.FromSlash(p.File)))
	if err != nil {
		return fmt.Errorf("open file of module: %w", err)
	}
	defer file.Close()
	return write(path, file)
}

// fetchNPM unpacks the file from the package's archive. npm has checked the
// archive against the registry's digest.
func (p Package) fetchNPM(ctx context.Context, path string) error {
	dir := filepath.Dir(path)
	output, err := client(ctx, dir, "npm", "pack", "--json", "--pack-destination", dir, p.Name+"@"+p.Version)
	if err != nil {
		return err
	}
	var packed []struct{ Filename string }
	if err := json.Unmarshal(output, &packed); err != nil || len(packed) != 1 {
		return fmt.Errorf("read the answer of npm: %w\n%s", err, output)
	}
	archive, err := os.Open(filepath.Join(dir, packed[0].Filename))
	if err != nil {
		return fmt.Errorf("open archive: %w", err)
	}
	defer archive.Close()
	return unpack(archive, "package/"+p.File, path)
}

// unpack writes a file of a .tar.gz to path.
func unpack(archive io.Reader, name, path string) error {
	compressed, err := gzip.NewReader(archive)
	if err != nil {
		return fmt.Errorf("read archive: %w", err)
	}
	files := tar.NewReader(compressed)
	for {
		header, err := files.Next()
		if err != nil {
			return fmt.Errorf("find %s in archive: %w", name, err)
		}
		if header.Name == name {
			return write(path, files)
		}
	}
}

func write(path string, content io.Reader) error {
	file, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("make file: %w", err)
	}
	defer file.Close()
	if _, err := io.Copy(file, io.LimitReader(content, maxFile)); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return file.Close()
}

// client runs a registry's client and returns its standard output. It usually fails for
// lack of a network.
func client(ctx context.Context, dir, name string, args ...string) ([]byte, error) {
	command := exec.CommandContext(ctx, name, args...)
	command.Dir = dir
	var complaint bytes.Buffer
	command.Stderr = &complaint
	output, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("run %s: %w: %w\n%s", command, ErrUnavailable, err, complaint.Bytes())
	}
	return output, nil
}

// Go builds testdata/guests/go/NAME for wasip1 with the installed Go and returns the path
// of the module. Go's linker writes names, but no DWARF for WebAssembly.
func Go(ctx context.Context, name string) (path string, err error) {
	return create("go-"+name, func(path string) error {
		command := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", path, "./go/"+name)
		command.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm")
		return run(command)
	})
}

// C builds testdata/guests/c/NAME.c with Debian's clang, lld and wasi-libc (14.0 and
// 0.0~git20220510) and returns the path of the module: with DWARF and names, or with
// neither.
func C(ctx context.Context, name string, debug bool) (path string, err error) {
	made, flag := "c-"+name, "-Wl,--strip-all"
	if debug {
		made, flag = made+"-debug", "-g"
	}
	return create(made, func(path string) error {
		return run(exec.CommandContext(ctx, "clang", "--target=wasm32-wasi", "-O2", "-Wall", "-Werror", flag,
			"-fdebug-prefix-map="+sources()+"=.", "-o", path, filepath.Join("c", name+".c")))
	})
}

// run runs a toolchain's command in the folder of this package.
func run(command *exec.Cmd) error {
	command.Dir = sources()
	output, err := command.CombinedOutput()
	if errors.Is(err, exec.ErrNotFound) {
		return fmt.Errorf("run %s: %w: %w", command.Args[0], ErrUnavailable, err)
	}
	if err != nil {
		return fmt.Errorf("run %s: %w\n%s", command, err, output)
	}
	return nil
}

// sources returns the folder of this package's source.
func sources() string {
	_, file, _, ok := runtime.Caller(0)
	if !ok || !filepath.IsAbs(file) {
		panic("guests: this program was built without the paths of its sources (-trimpath)")
	}
	return filepath.Dir(file)
}

// dirVariable names the variable with the folder of built and fetched guests.
const dirVariable = "CCMAPD_GUESTS"

// ErrUnavailable is in the error of a guest that this machine can't obtain: a toolchain
// is missing, or a registry out of reach. Tests skip then.
var ErrUnavailable = errors.New("guest unavailable on this machine")

// Dir returns the folder of built and fetched guests, and makes it: $CCMAPD_GUESTS, else
// ccmapd-guests in the user's cache. It may be deleted at any time.
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

// create makes the file NAME.wasm in the cache and returns its path. make writes a file
// at another path. The file then replaces an older one at once, because tests of several
// packages run at the same time.
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
