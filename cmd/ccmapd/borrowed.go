package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/ccmapd/ccmapd/internal/privilege"
)

// samplers are the commands that call on other processes. Run decides later: a module
// needs no capability.
var samplers = []string{"attach", "run", "demo", "version"}

// dropUnused drops the capabilities that the caller has not and the command does not
// need.
func (env *environment) dropUnused(cmd *cobra.Command) error {
	if slices.Contains(samplers, cmd.Name()) {
		return nil
	}
	return env.process.Drop()
}

// explainStart adds to an error in lowering capabilities what to do about it.
func explainStart(err error) error {
	if errors.Is(err, privilege.ErrSetuid) {
		return withHint(err, "Take the bit off (chmod ug-s), and use setcap: see \"Permissions\" in the README.")
	}
	return err
}

// The most that sampling may cost a process that its caller could not sample without
// the capabilities of ccmapd.
const (
	borrowedOverhead = 5                // percent
	borrowedInterval = time.Millisecond // the shortest
	borrowedHits     = 1000             // calls caught a second: 1.6 % of one core
)

// borrows reports whether it takes capabilities that the caller has not to look into a
// process. They are not in effect here.
func (env *environment) borrows(pid int) bool {
	if !env.process.Granted() {
		return false
	}
	_, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	return errors.Is(err, fs.ErrPermission)
}

// toProcess returns what opens the source of a session with a process, unless ctx is
// done before it is open. Whose process it is, is looked at before and after: it may
// execute a program of another user meanwhile.
func (env *environment) toProcess(ctx context.Context, f *samplingFlags, pid int) opener {
	return func(s sampling) (chosen, error) {
		if err := env.holdBack(f, pid); err != nil {
			return chosen{}, err
		}
		got, err := attach(ctx, env.engines, f.engine.value, attachment{pid, s})
		if err != nil {
			return chosen{}, err
		}
		if err := env.holdBack(f, pid); err != nil {
			return chosen{}, errors.Join(err, got.Close())
		}
		return got, nil
	}
}

// holdBack bounds what sampling may cost a process where it takes borrowed capabilities:
// defaults are bounded silently, flags that ask for more are refused.
func (env *environment) holdBack(f *samplingFlags, pid int) error {
	if !env.borrows(pid) {
		return nil
	}
	switch {
	case f.interval < borrowedInterval:
		return tooMuch("--interval %v is too short, at least %v", f.interval, borrowedInterval)
	case f.min > 0 && f.min < borrowedInterval:
		return tooMuch("--min-interval %v is too short, at least %v", f.min, borrowedInterval)
	case f.overhead == 0 || f.overhead > borrowedOverhead:
		return tooMuch("--max-overhead %v is too much, at most %v percent", f.overhead, borrowedOverhead)
	case f.values.hits > borrowedHits:
		return tooMuch("--hits %v are too many, at most %v", f.values.hits, borrowedHits)
	}
	f.min = cmp.Or(f.min, borrowedInterval)
	if !f.tune && !f.overheadGiven {
		f.overhead, f.overheadGiven = borrowedOverhead, true
	}
	return nil
}

// tooMuch says which flag asks for too much, and what is permitted.
func tooMuch(format string, args ...any) error {
	return exitError{exitPermission, withHint(fmt.Errorf(format+", for another user's process", args...),
		"You sample it by capabilities that only ccmapd has: only root may slow it down more.")}
}
