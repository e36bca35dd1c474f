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
)

// Package is a module that a public package ships, pinned.
type Package struct {
	Registry string // "npm", or "go" for the module proxy
	Name     string
	Version  string
	File     string // slash-separated path of the module in the package
	SHA256   string // of the file, in hexadecimal
}

// maxFile bounds what is unpacked, in bytes.
const maxFile = 128 << 20

// Fetch returns the path of a package's module in the cache. It is fetched by the
// registry's own client, npm or go, unless it is there; either way its SHA-256 is
// checked. The name tells it from other files in the cache.
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

// unpack writes one file of a .tar.gz to path.
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

// client runs a registry's client and returns its standard output. What makes it
// fail is mostly a network that is not there.
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
