package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/klauspost/compress/zstd"
)

// objects are the files of a bucket whose hubs have ended.
type objects struct {
	manifests, named int
	orphans          []string // files that no manifest names
	files            []string // all that belong to builds
}

// readObjects compares what manifests name with what there is. A manifest that names what is missing is an error.
func readObjects(root string) (o objects, err error) {
	named := make(map[string]bool)
	err = filepath.WalkDir(filepath.Join(root, "agg"), func(name string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		o.files = append(o.files, name)
		if e.Name() != "manifest" {
			return nil
		}
		o.manifests++
		keys, err := namedBy(name)
		for _, key := range keys {
			named[filepath.Join(root, key)] = true
		}
		return err
	})
	if err != nil {
		return o, err
	}
	o.named = len(named)
	for _, name := range o.files {
		if !named[name] && filepath.Base(name) != "manifest" {
			o.orphans = append(o.orphans, name)
		}
	}
	for name := range named {
		if _, err := os.Lstat(name); err != nil {
			return o, fmt.Errorf("a manifest names an object that is missing: %w", err)
		}
	}
	return o, nil
}

// namedBy returns the keys that a manifest names.
func namedBy(name string) ([]string, error) {
	packed, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	z, err := zstd.NewReader(nil)
	if err != nil {
		return nil, err
	}
	defer z.Close()
	text, err := z.DecodeAll(packed, nil)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	var m struct {
		Parts []struct {
			Key string `json:"key"`
		} `json:"parts"`
	}
	if err := json.Unmarshal(text, &m); err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	var keys []string
	for _, p := range m.Parts {
		keys = append(keys, p.Key)
	}
	return keys, nil
}

// nothingWaits returns an error if a contribution waits to be merged, or was set aside.
func nothingWaits(root string) error {
	return errors.Join(empty(filepath.Join(root, "seg")), empty(filepath.Join(root, "bad")))
}

// empty returns an error if a folder has a file.
func empty(dir string) error {
	return filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err == nil && e.Type().IsRegular():
			return fmt.Errorf("%s is left", name)
		}
		return err
	})
}

// age has all objects look as if they were written so long ago.
func (o objects) age(by time.Duration) (failed error) {
	at := time.Now().Add(-by)
	for _, name := range o.files {
		failed = errors.Join(failed, os.Chtimes(name, at, at))
	}
	return failed
}
