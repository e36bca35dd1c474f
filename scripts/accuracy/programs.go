package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/ccmapd/ccmapd/scripts/campaign"
	"github.com/ccmapd/ccmapd/scripts/compiler"
)

// program is a program to sample, again and again.
type program struct {
	name  string
	paper paperRow // zero for a program that is not in the paper

	// command returns the command line for a number of rounds; 1 is a run of ordinary
	// length of a program without rounds. A server has none.
	command func(c config, rounds int) ([]string, error)
	rounds  int // of an ordinary run; 0: found by calibration
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

// programs returns the measured programs: the workloads and, unless the campaign is
// quick or about Table 1 alone, the foreign programs.
func programs(c config) []program {
	var all []program
	for _, t := range table1 {
		all = append(all, program{name: t.name, paper: t.row, command: func(c config, rounds int) ([]string, error) {
			return []string{c.Path("accuracy"), "-workload", t.name, "-rounds", strconv.Itoa(rounds)}, nil
		}})
	}
	if c.Quick {
		return slices.DeleteFunc(all, func(p program) bool { return p.name != "int32" && p.name != "stringbuilder" })
	}
	if c.table {
		return all
	}
	return append(all,
		program{name: "compile", command: compileCommand, rounds: 1}, // the Go compiler on a large package
		program{name: "gojq", command: gojqCommand, rounds: 26},      // an interpreter of queries of JSON
		program{name: "fortio", rounds: 200_000},                     // an HTTP server under load
	)
}

func (p program) isWorkload() bool { return p.paper != paperRow{} }

// build makes the missing executables: all runs in a work folder are of the same builds,
// or they would not be comparable.
func build(ctx context.Context, c *config) error {
	if err := os.MkdirAll(c.Work, 0o755); err != nil {
		return err
	}
	if c.Ccmapd == "" {
		c.Ccmapd = c.Path("ccmapd")
		if err := campaign.Once(c.Ccmapd, func() error { return campaign.Build(ctx, c.Ccmapd, "./cmd/ccmapd") }); err != nil {
			return err
		}
	}
	workloads := c.Path("accuracy")
	if err := campaign.Once(workloads, func() error { return campaign.Build(ctx, workloads, "./testdata/accuracy") }); err != nil {
		return err
	}
	if c.Quick || c.table {
		return nil // no foreign programs
	}
	return errors.Join(
		campaign.Once(c.Path("gojq"), func() error { return install(ctx, c, gojqModule) }),
		campaign.Once(c.Path("fortio"), func() error { return install(ctx, c, fortioModule) }),
	)
}

// install builds a command from the module proxy.
func install(ctx context.Context, c *config, module string) error {
	cmd := exec.CommandContext(ctx, "go", "install", module)
	cmd.Dir = c.Work // outside this module
	cmd.Env = append(os.Environ(), "GOBIN="+c.Work)
	return campaign.Command(cmd)
}

// Foreign programs, from the module proxy.
const (
	gojqModule   = "github.com/itchyny/gojq/cmd/gojq@v0.12.17"
	fortioModule = "fortio.org/fortio@v1.63.0" // as in cmd/ccmapd/real_test.go
)

// query makes records, groups them by a key and sorts the groups by a sum, over
// and over.
const query = `[range(%d) | [range(50000) | {k: (. * 7919 %% 1000 | tostring), v: .}]
| group_by(.k) | map({key: .[0].k, n: length, s: (map(.v) | add)}) | sort_by(.s) | map(tojson | fromjson) | length] | add`

func gojqCommand(c config, rounds int) ([]string, error) {
	return []string{c.Path("gojq"), "-n", fmt.Sprintf(query, rounds)}, nil
}

// compileCommand calls the compiler on a package that takes some seconds.
func compileCommand(c config, _ int) ([]string, error) {
	return compiler.Command("net/http", c.Path("importcfg"))
}

// sampleServer attaches to fortio's HTTP server while it answers a number of
// requests.
func sampleServer(ctx context.Context, c config, m mode, file string, requests int) (recorded, error) {
	server, err := campaign.Launch{Ready: listening, Command: append([]string{c.Path("fortio")}, strings.Fields(
		"server -http-port 127.0.0.1:0 -grpc-port disabled -tcp-port disabled -udp-port disabled -redirect-port disabled")...)}.Start(ctx)
	if err != nil {
		return recorded{}, err
	}
	defer server.Stop()
	s, err := c.Attach(ctx, server.PID(), "", file, m.sampling...)
	if err != nil {
		return recorded{}, err
	}
	// Requests over four connections, as fast as they are answered.
	loaded := campaign.Command(exec.CommandContext(ctx, c.Path("fortio"), "load", "-quiet", "-qps", "0", "-c", "4",
		"-n", strconv.Itoa(requests), "http://"+server.Ready[1]+"/echo?size=500"))
	said, err := s.End()
	return recorded{Rounds: requests, DaemonCPU: said.CPU}, errors.Join(loaded, err)
}

var listening = regexp.MustCompile(`http-echo server listening on tcp ([0-9.:]+)`)
