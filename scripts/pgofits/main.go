// Pgofits compares what 'ccmapd pgo check' says of the calls of an older build with a difference of the sources.
//
//	go -C scripts run ./pgofits commits [N [STEP]]       ccmapd itself: N commits ago, and each STEP-th since; minutes
//	go -C scripts run ./pgofits modules [NAME…]          three programs of the module proxy, two versions each, into
//	                                                     docs/pgo.md; ten minutes. With names it prints their rows
//	go -C scripts run ./pgofits stale [ROUNDS [NAME…]]   what a profile of ccmapd 40 commits ago, and of an older esbuild, keeps
//	                                                     of a fresh one's gain, into docs/pgo.md; ten minutes of a quiet machine
//	                                                     after 'stale 0', which makes the builds in a quarter of an hour
//	go -C scripts run ./pgofits minimal [NAME…]          decisions with whole and with minimal profiles of types2, a whole build,
//	                                                     ccmapd and caddy, and their bytes, into docs/pgo.md; 40 minutes
//	go -C scripts run ./pgofits short                    ten commits ago and now: half a minute
//
// The profile has every call of the older binary that its code names, a sample each, with the bodies of the
// functions. Programs of the proxy are sampled at work, too. The truth is a difference of the lines of each function,
// which knows nothing of the tables and the code of binaries, nor of what their source calls. Calls by functions of
// other modules are left out: they do not change.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
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
	case len(args) > 0 && args[0] == "modules":
		return modules(context.Background(), dir, args[1:])
	case len(args) > 0 && args[0] == "minimal":
		return minimal(context.Background(), args[1:])
	case len(args) > 0 && args[0] == "stale":
		rounds := staleRounds
		if len(args) > 1 {
			if rounds, err = strconv.Atoi(args[1]); err != nil {
				return err
			}
		}
		return stale(context.Background(), rounds, args[min(len(args), 2):])
	}
	return errors.New("want commits [N [STEP]], short, modules [NAME…], minimal [NAME…], or stale [ROUNDS [NAME…]]")
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
		right, err := compare(fmt.Sprintf("ccmapd, %d commits later", n-at), old, now, "github.com/ccmapd/ccmapd", "cmd/ccmapd")
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

func build(tree, cmd string) error { return buildAs(binaryOf(tree), tree, cmd) }

// buildAs builds a tree's program with flags.
func buildAs(executable, tree, cmd string, flags ...string) error {
	c := exec.Command("go", slices.Concat([]string{"build", "-trimpath", "-o", executable}, flags, []string{cmd})...)
	c.Dir = tree
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w: %s", tree, err, out)
	}
	return nil
}
