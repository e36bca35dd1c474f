package main

import (
	"fmt"
	"os"
	"path"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/ccmapd/ccmapd/cmd/ccmapd/internal/session"
	"github.com/ccmapd/ccmapd/cmd/internal/usage"
	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/internal/terminal"
	"github.com/ccmapd/ccmapd/sampler"
)

// processOf is the process that attach means. One that was found by name is pinned.
type processOf struct {
	pid    int
	pinned *process.Pinned // nil: the user gave the number
}

// findProcess finds the process that the arguments of attach mean: a number, a name, or the
// expression of --match. Several matches are an error that lists them: to attach to the
// wrong one would be a profile that misleads.
func findProcess(args []string, match string) (processOf, error) {
	if match != "" {
		return findByCommandLine(match)
	}
	if strings.Trim(args[0], "+-0123456789") != "" {
		return findByName(args[0])
	}
	pid, err := strconv.Atoi(args[0])
	if err != nil || pid <= 0 {
		return processOf{}, withHint(usage.Errorf("%q is not a process id", args[0]), "'pgrep -l NAME' finds it.")
	}
	return processOf{pid: pid}, nil
}

func findByName(name string) (processOf, error) {
	return findOne(fmt.Sprintf("is named %q", name), func(f process.Facts) bool { return isNamed(f, name) })
}

// isNamed reports whether a process or its executable has a name; a name with a slash is
// the executable's path.
func isNamed(f process.Facts, name string) bool {
	if strings.Contains(name, "/") {
		return f.Executable == name
	}
	return f.Name == name || f.Executable != "" && path.Base(f.Executable) == name
}

// findByCommandLine leaves out the processes that this one descends from: a shell, sudo or
// timeout has the expression in its own command line.
func findByCommandLine(match string) (processOf, error) {
	expr, err := regexp.Compile(match)
	if err != nil {
		return processOf{}, usage.Errorf("--match %q is not a regular expression: %w", match, err)
	}
	ours := ancestors()
	return findOne(fmt.Sprintf("has a command line like %q", match), func(f process.Facts) bool {
		return !ours[f.PID] && expr.MatchString(strings.Join(f.CommandLine, " "))
	})
}

// ancestors returns the processes that this one descends from.
func ancestors() map[int]bool {
	all := make(map[int]bool)
	for pid := os.Getppid(); pid > 0 && !all[pid]; {
		all[pid] = true
		stat, err := process.ReadStat(pid)
		if err != nil {
			break
		}
		pid = stat.Parent
	}
	return all
}

// findOne finds the only process that is accepted.
func findOne(what string, accept func(process.Facts) bool) (processOf, error) {
	found, err := process.Find(accept)
	switch {
	case err != nil:
		return processOf{}, err
	case len(found) == 0:
		return processOf{}, withHint(fmt.Errorf("no process %s: %w", what, sampler.ErrNoProcess), "'ps -e' lists the names of processes.")
	case len(found) == 1:
		return processOf{found[0].PID, found[0]}, nil
	}
	for _, p := range found {
		p.Close()
	}
	return processOf{}, withHint(usage.Errorf("each of %d processes %s: give the id of one", len(found), what), "%s", listProcesses(found))
}

// mostListed bounds the processes that an error lists.
const mostListed = 20

// listProcesses prints processes so that a user can choose one.
func listProcesses(all []*process.Pinned) string {
	var out strings.Builder
	p := terminal.NewPrinter(&out, false)
	table := terminal.Table{Columns: []terminal.Column{
		{Title: "PID", Right: true}, {Title: "user"}, {Title: "started"},
		{Title: "command line", Shorten: terminal.ShortenMiddle, Least: 20},
	}}
	for _, f := range all[:min(len(all), mostListed)] {
		started := terminal.Unknown
		if at, err := f.Begin(); err == nil {
			started = at.Format(time.DateTime)
		}
		table.Add(strconv.Itoa(f.PID), f.User(), started, strings.Join(f.CommandLine, " "))
	}
	p.Table("", &table)
	if more := len(all) - mostListed; more > 0 {
		p.Line("… and %d more", more)
	}
	return strings.Trim(out.String(), "\n")
}

// checked returns an opener that refuses a process which has ended since it was found.
func (p processOf) checked(open session.Opener) session.Opener {
	if p.pinned == nil {
		return open
	}
	return session.Pinned(p.pinned.PID, p.pinned, open)
}

// close releases the process.
func (p processOf) close() {
	if p.pinned != nil {
		p.pinned.Close()
	}
}
