package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"

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
// quick, the foreign programs.
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

// build makes the missing executables: all runs in a work folder are of the same builds,
// or they would not be comparable.
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

// once makes a file unless it exists.
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

// output runs a command and discards its output.
func output(ctx context.Context, name string, args ...string) error {
	if out, err := exec.CommandContext(ctx, name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, out)
	}
	return nil
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
	return []string{c.path("gojq"), "-n", fmt.Sprintf(query, rounds)}, nil
}

// compileCommand calls the compiler on a package that takes some seconds.
func compileCommand(c config, _ int) ([]string, error) {
	return compiler.Command("net/http", c.path("importcfg"))
}

// sampleServer attaches to fortio's HTTP server while it answers a number of
// requests.
func sampleServer(ctx context.Context, c config, m mode, file string, requests int) (recorded, error) {
	server, address, err := startServer(ctx, c)
	if err != nil {
		return recorded{}, err
	}
	defer func() { server.Process.Kill(); server.Wait() }()
	var report, problems bytes.Buffer
	attach := exec.CommandContext(ctx, c.ccmapd,
		append([]string{"attach", strconv.Itoa(server.Process.Pid), "--json", "-o", file}, m.sampling...)...)
	attach.Stdout, attach.Stderr = &report, &problems
	if err := attach.Start(); err != nil {
		return recorded{}, fmt.Errorf("start ccmapd: %w", err)
	}
	loaded := load(ctx, c, address, requests)
	attach.Process.Signal(syscall.SIGINT) // if it has ended, Wait says why
	if err := errors.Join(loaded, attach.Wait()); err != nil {
		return recorded{}, fmt.Errorf("sample server: %w\n%s", err, &problems)
	}
	r := recorded{Rounds: requests}
	r.DaemonCPU, err = daemonCPU(report.Bytes())
	return r, err
}

// load sends requests over four connections, as fast as they are answered.
func load(ctx context.Context, c config, address string, requests int) error {
	return output(ctx, c.path("fortio"), "load", "-quiet", "-qps", "0", "-c", "4",
		"-n", strconv.Itoa(requests), "http://"+address+"/echo?size=500")
}

var listening = regexp.MustCompile(`http-echo server listening on tcp ([0-9.:]+)`)

func startServer(ctx context.Context, c config) (server *exec.Cmd, address string, err error) {
	server = exec.CommandContext(ctx, c.path("fortio"), strings.Fields(
		"server -http-port 127.0.0.1:0 -grpc-port disabled -tcp-port disabled -udp-port disabled -redirect-port disabled")...)
	log, err := server.StderrPipe()
	if err != nil {
		return nil, "", err
	}
	if err := server.Start(); err != nil {
		return nil, "", fmt.Errorf("start fortio: %w", err)
	}
	for lines := bufio.NewScanner(log); lines.Scan(); {
		if m := listening.FindStringSubmatch(lines.Text()); m != nil {
			go io.Copy(io.Discard, log)
			return server, m[1], nil
		}
	}
	return nil, "", errors.Join(errors.New("fortio does not listen"), server.Wait())
}
