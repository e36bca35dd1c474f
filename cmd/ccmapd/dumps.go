package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/manager"
)

// pidMark in the name of an output becomes the pid of the sampled process.
const pidMark = "%p"

// defaultOutput is written where no output is named, so that nothing that was
// sampled is lost. Only a further session with the same pid replaces it.
const defaultOutput = "ccmapd-" + pidMark + ".pb.gz"

// checkOutputs checks what can be checked before a long session: formats, and
// that the directories can be written to. Where the pid is part of a
// directory's name that is not known yet.
func checkOutputs(patterns []string) error {
	for i, pattern := range patterns {
		if slices.Contains(patterns[:i], pattern) {
			return usagef("output %s is named twice", pattern)
		}
		if _, _, err := export.FormatOf(pattern); err != nil {
			return usagef("output %s: %w", pattern, err)
		}
		if dir := filepath.Dir(pattern); !strings.Contains(dir, pidMark) {
			if err := checkWritable(pattern, dir); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkWritable checks that a file can be created in dir. The kernel is asked
// rather than a file created, so that nothing is left behind.
func checkWritable(path, dir string) error {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return usagef("output %s is a directory", path)
	}
	info, err := os.Stat(dir)
	switch {
	case err != nil:
		return explainWrite(fmt.Errorf("output %s: %w", path, err))
	case !info.IsDir():
		return usagef("output %s: %s is not a directory", path, dir)
	}
	if err := unix.Faccessat(unix.AT_FDCWD, dir, unix.W_OK|unix.X_OK, unix.AT_EACCESS); err != nil {
		return explainWrite(fmt.Errorf("output %s: write to directory %s: %w", path, dir, err))
	}
	return nil
}

// fileDumps returns the dumps into the files that the patterns mean for a pid.
func fileDumps(patterns []string, pid int) []manager.Dump {
	var dumps []manager.Dump
	for _, pattern := range patterns {
		path := strings.ReplaceAll(pattern, pidMark, strconv.Itoa(pid))
		dumps = append(dumps, manager.Dump{Name: path, Write: func(s *ccmap.Snapshot) error {
			return explainWrite(export.WriteFile(path, s))
		}})
	}
	return dumps
}
