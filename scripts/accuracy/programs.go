package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// program is something to be sampled, again and again.
type program struct {
	name  string
	paper paperRow // zero for a program that is not in the paper

	// command returns the command line for a number of rounds; 1 is a run of
	// ordinary length of a program without rounds. A server has none.
	command func(c config, rounds int) ([]string, error)
	rounds  int // of an ordinary run; 0: to be found by calibration
}

// paperRow is a row of the paper's Table 1, in percent.
type paperRow struct{ correlation, overlap float64 }

var table1 = []struct {
	name string
	row  paperRow
}{
	{"int32", paperRow{99, 97}},
	{"int16", paperRow{99, 92}},
	{"sbyte", paperRow{99, 94}},
	{"intptr", paperRow{99, 98}},
	{"uint16", paperRow{99, 95}},
	{"uint32", paperRow{99, 95}},
	{"byte", paperRow{99, 97}},
	{"uintptr", paperRow{99, 97}},
	{"char", paperRow{99, 96}},
	{"boolean", paperRow{99, 96}},
	{"enum", paperRow{98, 75}},
	{"stringbuilder", paperRow{99, 67}},
	{"console", paperRow{99, 77}},
	{"single", paperRow{99, 98}},
}

// programs returns what is measured: the workloads and, unless it has to be
// quick, the programs that nobody here wrote.
func programs(c config) []program {
	var all []program
	for _, t := range table1 {
		all = append(all, program{name: t.name, paper: t.row, command: func(c config, rounds int) ([]string, error) {
			return []string{c.path("accuracy"), "-workload", t.name, "-rounds", strconv.Itoa(rounds)}, nil
		}})
	}
	if c.quick {
		return slices.DeleteFunc(all, func(p program) bool { return p.name != "int32" && p.name != "stringbuilder" })
	}
	return append(all,
		program{name: "compile", command: compileCommand, rounds: 1}, // the Go compiler on a large package
		program{name: "gojq", command: gojqCommand, rounds: 26},      // an interpreter of queries of JSON
		program{name: "fortio", rounds: 200_000},                     // an HTTP server under load
	)
}

func (p program) isWorkload() bool { return p.paper != paperRow{} }

// path returns the path of a file in the work folder.
func (c config) path(elements ...string) string {
	return filepath.Join(append([]string{c.work}, elements...)...)
}

// build makes the executables that are not there yet: all runs in a work folder
// are of the same builds, or they would not be comparable.
func build(ctx context.Context, c *config) error {
	if err := os.MkdirAll(c.work, 0o755); err != nil {
		return err
	}
	if c.ccmapd == "" {
		c.ccmapd = c.path("ccmapd")
		if err := once(c.ccmapd, func() error { return output(ctx, "go", "build", "-o", c.ccmapd, "./cmd/ccmapd") }); err != nil {
			return err
		}
	}
	workloads := c.path("accuracy")
	if err := once(workloads, func() error { return output(ctx, "go", "build", "-o", workloads, "./testdata/accuracy") }); err != nil {
		return err
	}
	if c.quick {
		return nil
	}
	return errors.Join(
		once(c.path("gojq"), func() error { return install(ctx, c, gojqModule) }),
		once(c.path("fortio"), func() error { return install(ctx, c, fortioModule) }),
	)
}

// once makes a file unless it is there.
func once(path string, make func() error) error {
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return make()
}

// install builds a command from the module proxy.
func install(ctx context.Context, c *config, module string) error {
	cmd := exec.CommandContext(ctx, "go", "install", module)
	cmd.Dir = c.work // outside this module
	cmd.Env = append(os.Environ(), "GOBIN="+c.work)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("install %s: %w\n%s", module, err, out)
	}
	return nil
}

// output runs a command that has nothing to say.
func output(ctx context.Context, name string, args ...string) error {
	if out, err := exec.CommandContext(ctx, name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, out)
	}
	return nil
}
