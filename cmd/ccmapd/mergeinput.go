package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/ccmapd/ccmapd/export"
)

// mergeInput is a profile to be merged.
type mergeInput struct {
	path   string
	weight export.Weight
}

// mergeInputs returns what the arguments and the list name.
func mergeInputs(env *environment, args []string, list string) ([]mergeInput, error) {
	if list != "" {
		more, err := readList(env, list)
		if err != nil {
			return nil, err
		}
		args = append(args, more...)
	}
	var inputs []mergeInput
	var paths []string
	for _, arg := range args {
		in, err := parseMergeInput(arg)
		if err != nil {
			return nil, err
		}
		inputs, paths = append(inputs, in), append(paths, in.path)
	}
	if len(inputs) == 0 {
		return nil, usagef("merge wants a profile at least")
	}
	if list == stdPath {
		paths = append(paths, stdPath)
	}
	return inputs, checkStdinOnce(paths)
}

// parseMergeInput takes FILE=WEIGHT apart, unless a file has that name as a
// whole, or what follows the last '=' is no number: then it belongs to the name.
func parseMergeInput(arg string) (mergeInput, error) {
	in := mergeInput{path: arg}
	cut := strings.LastIndexByte(arg, '=')
	if cut < 0 {
		return in, nil
	}
	if _, err := os.Lstat(arg); !errors.Is(err, fs.ErrNotExist) {
		return in, nil
	}
	weight, err := export.ParseWeight(arg[cut+1:])
	if err != nil {
		return in, usagef("%s: weight %q: %w", arg[:cut], arg[cut+1:], err)
	}
	return mergeInput{arg[:cut], weight}, nil
}

// readList returns the lines of a file or of standard input that are not blank.
func readList(env *environment, path string) ([]string, error) {
	if path == stdPath {
		return nonBlankLines(env.stdin, "standard input")
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, explainRead(err)
	}
	defer f.Close()
	return nonBlankLines(f, path)
}

func nonBlankLines(r io.Reader, name string) ([]string, error) {
	var lines []string
	scanner := bufio.NewScanner(r)
	for scanner.Scan() {
		if line := scanner.Text(); strings.TrimSpace(line) != "" {
			lines = append(lines, line)
		}
	}
	if err := scanner.Err(); err != nil {
		return nil, fmt.Errorf("read list %s: %w", name, err)
	}
	return lines, nil
}
