// Bundle makes the files of the pages, web/dist, from web/src. Equal sources give equal files, byte for byte.
//
//	go generate ./web              writes them
//	go -C web/internal run ./bundle -check   fails if they are not what the sources give
package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/evanw/esbuild/pkg/api"
)

// ours are names of members that neither the API nor the browser has: they are shortened as variables are. What is
// spelt in a string, as data-state, must not be among them.
const ours = "^(is(File|Rest|Text|Sorted|Process|Best)|element|page|address|source|actions|params|announce|askAfter|compares|spots|lane|describe|reveal|follow|hatch|outline|picture|pick|upload|leave|poll|again|setBase|spanOf|cell|finds|redraw)$"

// mostBytes bounds the files of the pages together, as they are before compression.
const mostBytes = 70 << 10

func main() {
	check := flag.Bool("check", false, "compare web/dist with what web/src gives, and write nothing")
	flag.Parse()
	if err := run("..", *check); err != nil {
		fmt.Fprintln(os.Stderr, "bundle:", err)
		os.Exit(1)
	}
}

func run(root string, check bool) error {
	files, err := build(filepath.Join(root, "src"))
	if err != nil {
		return err
	}
	size := 0
	for _, text := range files {
		size += len(text)
	}
	if size > mostBytes {
		return fmt.Errorf("the files have %d bytes, more than %d", size, mostBytes)
	}
	dist := filepath.Join(root, "dist")
	if check {
		return compare(dist, files)
	}
	fmt.Printf("web/dist: %d bytes\n", size)
	return write(dist, files)
}

// build returns the files of dist by their names.
func build(src string) (map[string][]byte, error) {
	result := api.Build(api.BuildOptions{
		EntryPoints:       []string{filepath.Join(src, "main.ts"), filepath.Join(src, "app.css")},
		Bundle:            true,
		Format:            api.FormatIIFE,
		Target:            api.ES2022,
		Charset:           api.CharsetUTF8,
		MinifySyntax:      true,
		MinifyWhitespace:  true,
		MinifyIdentifiers: true,
		MangleProps:       ours,
		LegalComments:     api.LegalCommentsNone,
		Outdir:            "out",
	})
	if len(result.Errors) > 0 {
		return nil, errors.New(strings.Join(api.FormatMessages(result.Errors, api.FormatMessagesOptions{}), ""))
	}
	files := make(map[string][]byte)
	named := make(map[string]string) // by extension
	for _, out := range result.OutputFiles {
		sum := sha256.Sum256(out.Contents)
		ext := filepath.Ext(out.Path)
		named[ext] = "app-" + hex.EncodeToString(sum[:6]) + ext
		files[named[ext]] = out.Contents
	}
	index, err := os.ReadFile(filepath.Join(src, "index.html"))
	if err != nil {
		return nil, err
	}
	index = bytes.Replace(index, []byte("app.css"), []byte(named[".css"]), 1)
	files["index.html"] = bytes.Replace(index, []byte("app.js"), []byte(named[".js"]), 1)
	files["LICENSES"], err = os.ReadFile(filepath.Join(src, "LICENSES"))
	return files, err
}

// write replaces a folder's files.
func write(dist string, files map[string][]byte) error {
	if err := os.RemoveAll(dist); err != nil {
		return err
	}
	if err := os.MkdirAll(dist, 0o755); err != nil {
		return err
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dist, name), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// compare fails if a folder has other files.
func compare(dist string, files map[string][]byte) error {
	entries, err := os.ReadDir(dist)
	if err != nil {
		return err
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if want := slices.Sorted(maps.Keys(files)); !slices.Equal(names, want) {
		return fmt.Errorf("web/dist has %v, and web/src gives %v: go generate ./web", names, want)
	}
	for name, text := range files {
		got, err := os.ReadFile(filepath.Join(dist, name))
		if err != nil {
			return err
		}
		if !bytes.Equal(got, text) {
			return fmt.Errorf("web/dist/%s is not what web/src gives: go generate ./web", name)
		}
	}
	return nil
}
