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
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/evanw/esbuild/pkg/api"
)

// ours are names of members that neither the API nor the browser has: they are shortened as variables are. What is
// spelt in a string, as data-state, must not be among them.
const ours = "^(is(File|Rest|Text|Sorted|Process|Best)|element|page|address|source|actions|params|announce|askAfter|compares|spots|lane|describe|reveal|follow|hatch|outline|picture|pick|upload|leave|poll|again|setBase|spanOf|cell|finds|redraw)$"

// mostBytes bounds what a browser loads for any page, as it is before compression.
const mostBytes = 70 << 10

// scripts are what pages begin with, by the names that they get: those that are served, and a single file's.
var scripts = map[string]string{"app": "main.ts", "file": "file.ts"}

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
	for script := range scripts {
		size := loaded(files, script)
		if size > mostBytes {
			return fmt.Errorf("a page with %s has %d bytes, more than %d", script, size, mostBytes)
		}
		if !check {
			fmt.Printf("web/dist: a page with %s has %d bytes\n", script, size)
		}
	}
	dist := filepath.Join(root, "dist")
	if check {
		return compare(dist, files)
	}
	return write(dist, files)
}

// loaded returns how many bytes a page with one of the scripts has: all files but the other scripts.
func loaded(files map[string][]byte, script string) (bytes int) {
	for name, text := range files {
		if path.Ext(name) != ".js" || strings.HasPrefix(name, script+"-") {
			bytes += len(text)
		}
	}
	return bytes
}

// build returns the files of dist by their names.
func build(src string) (map[string][]byte, error) {
	result := api.Build(api.BuildOptions{
		EntryPointsAdvanced: entries(src),
		Bundle:              true,
		Format:              api.FormatIIFE,
		Target:              api.ES2022,
		Charset:             api.CharsetUTF8,
		MinifySyntax:        true,
		MinifyWhitespace:    true,
		MinifyIdentifiers:   true,
		MangleProps:         ours,
		LegalComments:       api.LegalCommentsNone,
		Outdir:              "out",
	})
	if len(result.Errors) > 0 {
		return nil, errors.New(strings.Join(api.FormatMessages(result.Errors, api.FormatMessagesOptions{}), ""))
	}
	files := make(map[string][]byte)
	index, err := os.ReadFile(filepath.Join(src, "index.html"))
	if err != nil {
		return nil, err
	}
	for _, out := range result.OutputFiles {
		sum, plain := sha256.Sum256(out.Contents), filepath.Base(out.Path)
		ext := filepath.Ext(plain)
		name := strings.TrimSuffix(plain, ext) + "-" + hex.EncodeToString(sum[:6]) + ext
		files[name] = out.Contents
		index = bytes.ReplaceAll(index, []byte(plain), []byte(name))
	}
	files["index.html"] = index
	files["LICENSES"], err = os.ReadFile(filepath.Join(src, "LICENSES"))
	return files, err
}

// entries returns what is bundled, by the names of the files that come out.
func entries(src string) []api.EntryPoint {
	all := []api.EntryPoint{{InputPath: filepath.Join(src, "app.css"), OutputPath: "app"}}
	for _, name := range slices.Sorted(maps.Keys(scripts)) {
		all = append(all, api.EntryPoint{InputPath: filepath.Join(src, scripts[name]), OutputPath: name})
	}
	return all
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
