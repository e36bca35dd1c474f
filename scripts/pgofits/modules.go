package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ccmapd/ccmapd/internal/feedback/gopgo"
	"github.com/ccmapd/ccmapd/scripts/campaign"
	"github.com/ccmapd/ccmapd/scripts/report"
)

const modulesPortion report.Portion = "scripts/pgofits, modules"

// program is a program of the module proxy that does real work, at two versions.
type program struct {
	module, cmd string
	old, now    string
	prepare     func(dir, source string) (args []string, err error) // of the program
	load        func() error                                        // keeps it busy, and then it is interrupted; nil: it ends by itself
}

var programs = []program{
	{
		module: "github.com/nats-io/nats-server/v2", cmd: ".", old: "v2.14.1", now: "v2.15.2",
		prepare: func(string, string) ([]string, error) { return []string{"-a", "127.0.0.1", "-p", natsPort}, nil },
		load:    publish,
	},
	{
		module: "github.com/evanw/esbuild", cmd: "./cmd/esbuild", old: "v0.27.1", now: "v0.28.2",
		prepare: func(dir, source string) ([]string, error) { return bundle(dir, source, 400) },
	},
	{
		module: "go.etcd.io/bbolt", cmd: "./cmd/bbolt", old: "v1.4.0", now: "v1.5.0",
		prepare: func(dir, _ string) ([]string, error) {
			return []string{"bench", "-count", "1500000", "-batch-size", "1000", "-write-mode", "rnd", "-no-sync", "-path", filepath.Join(dir, "bench.db")}, nil
		},
	},
}

const natsPort = "18146"

// publish sends messages from two clients of a server of NATS to another two.
func publish() error {
	const seconds, clients = 10, 2
	subject := strings.Repeat("x", 8)
	message := "PUB " + subject + " 128\r\n" + strings.Repeat("m", 128) + "\r\n"
	failed := make(chan error, 2*clients)
	end := time.Now().Add(seconds * time.Second)
	for range clients {
		go func() {
			failed <- natsClient(end, "SUB "+subject+" 1\r\n", func(c net.Conn) error {
				_, err := io.Copy(io.Discard, c)
				return err
			})
		}()
		go func() {
			failed <- natsClient(end, "", func(c net.Conn) error {
				w := bufio.NewWriter(c)
				for {
					if _, err := w.WriteString(message); err != nil {
						return err
					}
				}
			})
		}()
	}
	var err error
	for range 2 * clients {
		err = errors.Join(err, <-failed)
	}
	return err
}

// natsClient works for the server until a time.
func natsClient(end time.Time, first string, work func(net.Conn) error) error {
	c, err := net.Dial("tcp", "127.0.0.1:"+natsPort)
	for err != nil && time.Now().Before(end) {
		time.Sleep(10 * time.Millisecond) // the server starts
		c, err = net.Dial("tcp", "127.0.0.1:"+natsPort)
	}
	if err != nil {
		return err
	}
	defer c.Close()
	c.SetDeadline(end)
	if _, err := io.WriteString(c, "CONNECT {\"verbose\":false,\"pedantic\":false}\r\n"+first); err != nil {
		return err
	}
	if err := work(c); !errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("the server hangs up: %w", errors.Join(err, io.ErrUnexpectedEOF))
	}
	return nil
}

// bundle makes copies of esbuild's own library in TypeScript, and returns the arguments that bundle each.
func bundle(dir, source string, copies int) ([]string, error) {
	args := []string{"--bundle", "--platform=node", "--packages=external", "--minify", "--sourcemap", "--log-level=error", "--outdir=" + filepath.Join(dir, "out")}
	for i := range copies {
		to := filepath.Join(dir, "in", strconv.Itoa(i))
		for _, part := range []string{"npm", "shared"} {
			if err := os.CopyFS(filepath.Join(to, part), os.DirFS(filepath.Join(source, "lib", part))); err != nil {
				return nil, err
			}
		}
		args = append(args, filepath.Join(to, "npm", "node.ts"))
	}
	return args, nil
}

// modules compares the versions of programs, and writes a row for each into the page. Those that are named alone are
// printed.
func modules(ctx context.Context, dir string, names []string) error {
	began := time.Now()
	ccmapd := filepath.Join(dir, "ccmapd")
	if err := campaign.EnterTree(); err != nil {
		return err
	}
	if err := campaign.Build(ctx, ccmapd, "./cmd/ccmapd"); err != nil {
		return err
	}
	t := report.Table{Head: []string{"program", "samples", "calls of the profile", "hot weight that fits", "moved", "gone", "both tell, of the weight", "right", "source: right", "every call of the old binary: right"}}
	for _, p := range programs {
		if len(names) > 0 && !slices.Contains(names, p.name()) {
			continue
		}
		cells, err := p.row(ctx, dir, ccmapd)
		if err != nil {
			return fmt.Errorf("%s: %w", p.module, err)
		}
		fmt.Println(strings.Join(cells, " | "))
		t.Row(cells...)
	}
	if len(names) > 0 {
		return nil
	}
	text := fmt.Sprintf("%s It took %s. The reach is 99 %% right, by weight.\n\n%s", report.Measured(began), report.Seconds(time.Since(began).Seconds()), strings.TrimSuffix(t.String(), "\n"))
	return modulesPortion.Rewrite("docs/pgo.md", text)
}

func (p program) name() string { return filepath.Base(strings.TrimSuffix(p.module, "/v2")) }

// row samples the old version, and compares what becomes of its calls in the new one.
func (p program) row(ctx context.Context, dir, ccmapd string) ([]string, error) {
	var trees [2]string
	for i, version := range []string{p.old, p.now} {
		var err error
		if trees[i], err = p.build(dir, version); err != nil {
			return nil, err
		}
	}
	work := filepath.Join(dir, p.name())
	if err := os.Mkdir(work, 0o700); err != nil {
		return nil, err
	}
	profile, err := p.sample(ctx, work, trees[0], ccmapd)
	if err != nil {
		return nil, err
	}
	s, err := campaign.ReadProfile(profile)
	if err != nil {
		return nil, err
	}
	calls, err := gopgo.CallsOf(s)
	if err != nil {
		return nil, err
	}
	c, err := newComparison(trees[0], trees[1], p.module, p.cmd)
	if err != nil {
		return nil, err
	}
	name := fmt.Sprintf("%s %s, %s", p.name(), p.old, p.now)
	c.truth.noAdded = true
	sampled, err := c.of(name+", sampled", calls)
	if err != nil {
		return nil, err
	}
	every, err := callsOf(trees[0], p.module)
	if err != nil {
		return nil, err
	}
	c.truth.noAdded = false // callsOf has left them out
	all, err := c.of(name+", every call", gopgo.Calls{Edges: every, Hot: len(every)})
	if err != nil {
		return nil, err
	}
	hot := gopgo.TallyOf(sampled.checked, true)
	share := func(weight int64) string {
		return report.Percent(100*float64(weight)/float64(max(hot.Total, 1))) + " %"
	}
	return []string{
		name, report.Count(float64(s.Total().Samples)), report.Number(float64(len(calls.Edges)), 0),
		share(hot.Fits()), share(hot.Of[gopgo.Moved] + hot.Of[gopgo.Renamed]), share(hot.Of[gopgo.Gone]),
		report.Percent(sampled.binary.tells()) + " %", sampled.binary.String(), sampled.source.String(),
		fmt.Sprintf("%s of %s", all.binary, report.Count(float64(all.binary.told))),
	}, os.RemoveAll(work)
}

// build copies a version of the module, and builds it there.
func (p program) build(dir, version string) (tree string, err error) {
	if tree, err = p.source(dir, version); err != nil {
		return "", err
	}
	fmt.Fprintf(os.Stderr, "building %s %s\n", p.name(), version)
	return tree, build(tree, p.cmd)
}

// source copies a version of the module, once.
func (p program) source(dir, version string) (tree string, err error) {
	out, err := exec.Command("go", "mod", "download", "-json", p.module+"@"+version).Output()
	if err != nil {
		return "", fmt.Errorf("download %s: %w", version, err)
	}
	var module struct{ Dir string }
	if err := json.Unmarshal(out, &module); err != nil {
		return "", err
	}
	tree = filepath.Join(dir, p.name()+version)
	return tree, campaign.Once(tree, func() error { return os.CopyFS(tree, os.DirFS(module.Dir)) })
}

// sample runs a tree's program under ccmapd, and returns the profile.
func (p program) sample(ctx context.Context, work, tree, ccmapd string) (string, error) {
	args, err := p.prepare(work, tree)
	if err != nil {
		return "", err
	}
	fmt.Fprintf(os.Stderr, "sampling %s %s\n", p.name(), p.old)
	profile := filepath.Join(work, "profile.pb.gz")
	cmd := exec.CommandContext(ctx, ccmapd, append([]string{"run", "-q", "-i", "1ms", "--tune=false", "-o", profile, "--", binaryOf(tree)}, args...)...)
	if p.load == nil {
		return profile, campaign.Command(cmd)
	}
	if err := cmd.Start(); err != nil {
		return "", err
	}
	failed := p.load()
	cmd.Process.Signal(os.Interrupt)
	cmd.Wait() // with the program's exit code
	return profile, failed
}
