package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/ccmapd/ccmapd/scripts/campaign"
	"github.com/ccmapd/ccmapd/scripts/report"
)

// Whether the compiler decides the same with a minimal profile, and what it saves.
const minimalPortion report.Portion = "scripts/pgofits, minimal"

// asked is a program whose decisions are compared.
type asked struct {
	name     string
	packages string // whose decisions are compared
	cmd      string // that is built
	profile  func(ctx context.Context, dir, ccmapd string) (profile, tree string, err error)
}

var askedPrograms = []asked{
	{"types2, the compiler's own profile", "cmd/compile/internal/types2", "cmd/compile", ofCompiler},
	{"build, types2 by all tools of a whole build, merged", "cmd/compile/internal/types2", "cmd/compile", ofBuild},
	{"ccmapd, as it merges profiles", "./...", "./cmd/ccmapd", ofOwn},
	{"caddy v2.11.9, a file server", "./...", "./cmd/caddy", ofCaddy},
}

// minimal makes a row of each program, or prints those that are named.
func minimal(ctx context.Context, names []string) error {
	began := time.Now()
	var all []string
	for _, a := range askedPrograms {
		all = append(all, a.name)
	}
	if err := checkNames(names, all...); err != nil {
		return err
	}
	dir, ccmapd, err := prepare(ctx)
	if err != nil {
		return err
	}
	t := report.Table{Head: []string{
		"program", "calls", "whole, bytes", "minimal, bytes", "part", "decisions compared, all the same", "`go build -a`, CPU time: whole", "minimal",
	}}
	for _, a := range askedPrograms {
		if !isNamed(a.name, names) {
			continue
		}
		cells, err := a.row(ctx, dir, ccmapd)
		if err != nil {
			return fmt.Errorf("%s: %w", a.name, err)
		}
		fmt.Println(strings.Join(cells, " | "))
		t.Row(cells...)
	}
	if len(names) > 0 {
		return nil
	}
	return minimalPortion.Rewrite("docs/pgo.md", report.Measured(began)+"\n\n"+strings.TrimSuffix(t.String(), "\n"))
}

// isNamed reports whether one of the names begins the name of a program. Without names all are.
func isNamed(program string, names []string) bool {
	return len(names) == 0 || slices.Contains(names, strings.Trim(strings.Fields(program)[0], ","))
}

// checkNames refuses names that no program has.
func checkNames(names []string, programs ...string) error {
	for _, name := range names {
		if !slices.ContainsFunc(programs, func(p string) bool { return isNamed(p, []string{name}) }) {
			return fmt.Errorf("no program is called %q: have %s", name, strings.Join(programs, "; "))
		}
	}
	return nil
}

// prepare enters the tree, and makes ccmapd in a folder that stays.
func prepare(ctx context.Context) (dir, ccmapd string, err error) {
	dir = filepath.Join(os.TempDir(), "ccmapd-pgofits")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", "", err
	}
	if err := campaign.EnterTree(); err != nil {
		return "", "", err
	}
	ccmapd = filepath.Join(dir, "ccmapd")
	return dir, ccmapd, campaign.Build(ctx, ccmapd, "./cmd/ccmapd")
}

func (a asked) row(ctx context.Context, dir, ccmapd string) ([]string, error) {
	profile, tree, err := a.profile(ctx, dir, ccmapd)
	if err != nil {
		return nil, err
	}
	work, err := os.MkdirTemp(dir, "minimal-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(work)
	var files [2]string
	var said [2]exported
	for i, flags := range [][]string{nil, {"--minimal", "--least-samples", "1", "--verify", a.packages}} {
		files[i] = filepath.Join(work, fmt.Sprintf("%d.pgo", i))
		fmt.Fprintf(os.Stderr, "exporting %s %v\n", a.name, flags)
		if said[i], err = export(ctx, ccmapd, tree, append([]string{profile, files[i]}, flags...)); err != nil {
			return nil, err
		}
	}
	cells := []string{
		a.name, report.Number(float64(said[0].Calls), 0), report.Number(float64(said[0].Bytes), 0), report.Number(float64(said[1].Bytes), 0),
		report.Percent(100*float64(said[1].Bytes)/float64(said[0].Bytes)) + " %", report.Number(float64(said[1].Decisions), 0),
	}
	for _, file := range files {
		fmt.Fprintf(os.Stderr, "building %s\n", a.name)
		cmd := exec.CommandContext(ctx, "go", "build", "-a", "-o", "/dev/null", "-pgo="+file, a.cmd)
		cmd.Dir = tree
		if err := campaign.Command(cmd); err != nil {
			return nil, err
		}
		cells = append(cells, report.Seconds((cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds()))
	}
	return cells, nil
}

// exported is what 'pgo export' says.
type exported struct{ Calls, Bytes, Decisions int }

// export exports a profile, in a tree whose packages are asked about.
func export(ctx context.Context, ccmapd, tree string, args []string) (e exported, err error) {
	cmd := exec.CommandContext(ctx, ccmapd, append([]string{"pgo", "export", "--json"}, args...)...)
	cmd.Dir = tree
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return e, fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, said.String())
	}
	return e, json.Unmarshal(out, &e)
}

func ofCompiler(context.Context, string, string) (profile, tree string, err error) {
	root, err := goroot()
	return filepath.Join(root, "src/cmd/compile/default.pgo"), filepath.Join(root, "src"), err
}

// ofBuild samples the tools that build the compiler from nothing, and merges their profiles: a long one of many contexts.
func ofBuild(ctx context.Context, dir, ccmapd string) (profile, tree string, err error) {
	if _, tree, err = ofCompiler(ctx, dir, ccmapd); err != nil {
		return "", "", err
	}
	work, err := os.MkdirTemp(dir, "build-")
	if err != nil {
		return "", "", err
	}
	fmt.Fprintln(os.Stderr, "sampling the tools of a build")
	tool := ccmapd + " run -q -i 1ms --tune=false -o " + filepath.Join(work, "p-%p.pb.gz") + " --"
	cmd := exec.CommandContext(ctx, "go", "build", "-a", "-o", "/dev/null", "-toolexec", tool, "cmd/compile")
	cmd.Dir = tree
	if err := campaign.Command(cmd); err != nil {
		return "", "", err
	}
	parts, err := filepath.Glob(filepath.Join(work, "p-*.pb.gz"))
	if err != nil {
		return "", "", err
	}
	profile = filepath.Join(work, "profile.pb.gz")
	return profile, tree, campaign.Command(exec.CommandContext(ctx, ccmapd, append([]string{"merge", "-o", profile}, parts...)...))
}

func goroot() (string, error) {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return "", fmt.Errorf("find GOROOT: %w", err)
	}
	return strings.TrimSpace(string(root)), nil
}

// ofOwn samples this tree's ccmapd.
func ofOwn(ctx context.Context, dir, ccmapd string) (profile, tree string, err error) {
	work, err := os.MkdirTemp(dir, "own-")
	if err != nil {
		return "", "", err
	}
	const often = 240
	args, err := mergeOften(work, "", often)
	if err != nil {
		return "", "", err
	}
	if tree, err = os.Getwd(); err != nil {
		return "", "", err
	}
	profile = filepath.Join(work, "profile.pb.gz")
	return profile, tree, sampleRun(ctx, ccmapd, profile, append([]string{ccmapd}, args...))
}

// sampleRun runs a program under ccmapd to its end.
func sampleRun(ctx context.Context, ccmapd, profile string, command []string) error {
	return campaign.Command(exec.CommandContext(ctx, ccmapd, append([]string{"run", "-q", "-i", "1ms", "--tune=false", "-o", profile, "--"}, command...)...))
}

const caddyAddress = "127.0.0.1:18147"

var caddy = program{
	module: "github.com/caddyserver/caddy/v2", cmd: "./cmd/caddy", old: "v2.11.9",
	prepare: func(_, tree string) ([]string, error) {
		return []string{"file-server", "--listen", caddyAddress, "--root", tree, "--browse"}, nil
	},
	load: func() error {
		const busy, connections = 10 * time.Second, 4
		ctx, stop := context.WithTimeout(context.Background(), busy)
		defer stop()
		for _, page := range []string{"/", "/README.md", "/modules/"} {
			campaign.Load(ctx, connections, "http://"+caddyAddress+page)
		}
		<-ctx.Done()
		var kept strings.Builder // it has answered
		return campaign.Fetch(context.Background(), http.DefaultClient, "http://"+caddyAddress+"/README.md", &kept)
	},
}

// ofCaddy samples caddy, which has over a thousand packages.
func ofCaddy(ctx context.Context, dir, ccmapd string) (profile, tree string, err error) {
	if tree, err = caddy.source(dir, caddy.old); err != nil {
		return "", "", err
	}
	if err := campaign.Once(binaryOf(tree), func() error { return build(tree, caddy.cmd) }); err != nil {
		return "", "", err
	}
	work, err := os.MkdirTemp(dir, "caddy-")
	if err != nil {
		return "", "", err
	}
	profile, err = caddy.sample(ctx, work, tree, ccmapd)
	return profile, tree, err
}
