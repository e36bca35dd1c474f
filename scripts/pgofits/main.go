// Pgofits compares what 'ccmapd pgo check' says of the calls of an older build with a difference of the sources.
//
//	go -C scripts run ./pgofits commits [N [STEP]]       ccmapd itself: N commits ago, and each STEP-th since; minutes
//	go -C scripts run ./pgofits modules PATH CMD OLD NEW…  a program of the module proxy, at pairs of versions
//	go -C scripts run ./pgofits short                    ten commits ago and now: half a minute
//
// The profile has every call of the older binary that its code names, a sample each, with the bodies of the
// functions. The truth is a difference of the lines of each function, which knows nothing of the tables and the code of
// binaries, nor of what their source calls. Calls by functions of other modules are left out: they do not change.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "pgofits:", err)
		os.Exit(1)
	}
}

// leastRight is what the short form requires, percent.
const leastRight = 99

func run(args []string) error {
	dir, err := os.MkdirTemp("", "pgofits-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	switch {
	case len(args) > 0 && args[0] == "commits":
		n, step := 40, 1
		for i, to := range []*int{&n, &step} {
			if len(args) > i+1 {
				if *to, err = strconv.Atoi(args[i+1]); err != nil {
					return err
				}
			}
		}
		_, err = commits(dir, n, step)
		return err
	case len(args) == 1 && args[0] == "short":
		right, err := commits(dir, 10, 10)
		if err == nil && right < leastRight {
			err = fmt.Errorf("%.2f %% of the calls have the class that the sources give them, want %d", right, leastRight)
		}
		return err
	case len(args) >= 5 && args[0] == "modules" && len(args)%2 == 1:
		for i := 3; i < len(args); i += 2 {
			if err := versions(dir, args[1], args[2], args[i], args[i+1]); err != nil {
				return err
			}
		}
		return nil
	}
	return errors.New("want commits [N [STEP]], short, or modules PATH CMD OLD NEW…")
}

// commits compares the build of n commits ago with later ones, and returns the lowest share that was right.
func commits(dir string, n, step int) (lowest float64, err error) {
	old, err := checkout(dir, n)
	if err != nil {
		return 0, err
	}
	if err := build(old, "./cmd/ccmapd"); err != nil {
		return 0, err
	}
	lowest = 100
	for at := n - step; at >= 0; at -= step {
		now, err := checkout(dir, at)
		if err != nil {
			return 0, err
		}
		if err := build(now, "./cmd/ccmapd"); err != nil {
			return 0, err
		}
		right, err := compare(fmt.Sprintf("ccmapd, %d commits later", n-at), old, now, "github.com/ccmapd/ccmapd")
		if err != nil {
			return 0, err
		}
		lowest = min(lowest, right)
		if err := os.RemoveAll(now); err != nil {
			return 0, err
		}
	}
	return lowest, nil
}

// checkout writes the tree of some commits ago to a directory.
func checkout(dir string, ago int) (string, error) {
	to := filepath.Join(dir, strconv.Itoa(ago))
	if err := os.Mkdir(to, 0o700); err != nil {
		return "", err
	}
	root, err := exec.Command("git", "rev-parse", "--show-toplevel").Output()
	if err != nil {
		return "", fmt.Errorf("find repository: %w", err)
	}
	archive := exec.Command("git", "archive", fmt.Sprintf("HEAD~%d", ago))
	archive.Dir = string(bytes.TrimSpace(root))
	tree, err := archive.Output()
	if err != nil {
		return "", fmt.Errorf("git archive HEAD~%d: %w", ago, err)
	}
	tar := exec.Command("tar", "-x", "-C", to)
	tar.Stdin = bytes.NewReader(tree)
	return to, tar.Run()
}

// binaryOf is where a tree's program is.
func binaryOf(tree string) string { return filepath.Join(tree, "pgofits.program") }

func build(tree, cmd string) error {
	c := exec.Command("go", "build", "-trimpath", "-o", binaryOf(tree), cmd)
	c.Dir = tree
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w: %s", tree, err, out)
	}
	return nil
}

// versions compares two versions of a module.
func versions(dir, path, cmd, old, now string) error {
	var trees [2]string
	for i, version := range []string{old, now} {
		out, err := exec.Command("go", "mod", "download", "-json", path+"@"+version).Output()
		if err != nil {
			return fmt.Errorf("download %s@%s: %w", path, version, err)
		}
		var module struct{ Dir string }
		if err := json.Unmarshal(out, &module); err != nil {
			return err
		}
		trees[i] = filepath.Join(dir, strings.ReplaceAll(path, "/", "_")+version)
		if out, err := exec.Command("cp", "-r", "--no-preserve=mode", module.Dir, trees[i]).CombinedOutput(); err != nil {
			return fmt.Errorf("copy %s: %w: %s", module.Dir, err, out)
		}
		if err := build(trees[i], cmd); err != nil {
			return err
		}
	}
	_, err := compare(fmt.Sprintf("%s %s → %s", filepath.Base(path), old, now), trees[0], trees[1], path)
	return err
}
