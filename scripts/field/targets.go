package main

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strings"

	"github.com/ccmapd/ccmapd/scripts/campaign"
)

// server is a program that serves /debug/pprof while it works.
type server struct {
	about   string
	user    string // of it and ccmapd; empty: the campaign's
	launch  func(context.Context, *field) (campaign.Launch, error)
	address string // of /debug/pprof; empty: a group in the line that says that it is ready
	load    string // address for requests, over and over; empty: it works by itself

	drive func(context.Context, *field) (*campaign.Process, error) // another program that makes it work; nil: none
}

// start starts the server and its work, and returns the address of /debug/pprof.
func (s server) start(ctx context.Context, f *field) (p *campaign.Process, address string, stop func(), err error) {
	l, err := s.launch(ctx, f)
	if err != nil {
		return nil, "", nil, err
	}
	l.User = s.user
	if p, err = l.Start(ctx); err != nil {
		return nil, "", nil, err
	}
	if address = s.address; address == "" {
		address = p.Ready[1]
	}
	ctx, end := context.WithCancel(ctx)
	alone := func() {
		end()
		p.Stop()
	}
	if s.load != "" {
		campaign.Load(ctx, connections, "http://"+strings.Replace(s.load, "ADDRESS", address, 1))
	}
	if s.drive == nil {
		return p, address, alone, nil
	}
	driver, err := s.drive(ctx, f)
	if err != nil {
		alone()
		return nil, "", nil, err
	}
	return p, address, func() {
		driver.Stop()
		alone()
	}, nil
}

// measure watches the server for a window.
func (s server) measure(ctx context.Context, f *field, name string) (row, error) {
	p, address, stop, err := s.start(ctx, f)
	if err != nil {
		return row{}, err
	}
	defer stop()
	f.Say("watching %s", name)
	w, err := f.watch(ctx, p, name, s.user, address)
	if err != nil {
		return row{}, err
	}
	r, err := f.judge(ctx, name, s.about, w)
	if err == nil && len(r.misses()) > 0 && !f.Quick {
		err = f.callWitness(ctx, &r, p, name, s.user, address)
	}
	return r, err
}

// judge makes the row of a window.
func (f *field) judge(ctx context.Context, name, about string, w window) (row, error) {
	r, err := newRow(name, about, w)
	if err != nil {
		return r, err
	}
	if r.pprof, err = readByPprof(ctx, w); err != nil {
		return r, err
	}
	r.pgo, err = readForPGO(ctx, w)
	return r, err
}

// connections is the number of concurrent requests: more than there are CPUs, so that the
// server's threads wait and wake.
const connections = 32

// drivers are small programs of ours around packages from the module proxy.
//
//go:embed testdata/drivers
var drivers embed.FS

const driversFolder = "testdata/drivers"

// driver returns the source of a driver, with the common files.
func driver(name string) map[string]string {
	files := make(map[string]string)
	add := func(file, as string) { files[as] = readDriver(file) }
	add("serve.go", "serve.go")
	root := path.Join(driversFolder, name)
	fs.WalkDir(drivers, root, func(file string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			add(strings.TrimPrefix(file, driversFolder+"/"), strings.TrimPrefix(file, root+"/"))
		}
		return err
	})
	return files
}

// readDriver returns a file of the drivers.
func readDriver(file string) string {
	text, err := drivers.ReadFile(path.Join(driversFolder, file))
	if err != nil {
		panic(err) // it is embedded
	}
	return string(text)
}

var serving = regexp.MustCompile(`^serving (\S+)$`)

// ofDriver starts the executable of a driver.
func ofDriver(b build, args ...string) func(context.Context, *field) (campaign.Launch, error) {
	return func(ctx context.Context, f *field) (campaign.Launch, error) {
		executable, err := f.build(ctx, b)
		return campaign.Launch{Command: append([]string{executable}, args...), Dir: path.Dir(executable), Ready: serving}, err
	}
}

// Modules from the proxy, pinned.
const (
	goldmark = "github.com/yuin/goldmark@v1.7.8" // builds with all supported versions of Go
	sqlite   = "github.com/mattn/go-sqlite3@v1.14.32"
	fortio   = "fortio.org/fortio@v1.63.0"
)

func markdown(name string, flags ...string) build {
	return build{name: name, requires: []string{goldmark}, files: driver("markdown"), flags: flags}
}

// toolchains are the last releases of all supported versions of Go.
var toolchains = []string{"go1.18.10", "go1.19.13", "go1.20.14", "go1.21.13", "go1.22.12", "go1.23.12", "go1.24.13", "go1.25.11", "go1.26.8", "go1.27.0"}

// served is a program that serves /debug/pprof.
func served(name string, s server) target { return target{name: name, measure: s.measure, server: &s} }

// targets lists the programs in the order of the table.
func targets() []target {
	all := []target{
		served("fortio", fortioServer("fortio, a server; 32 connections of load", "fortio")),
		served("fortio-pie", fortioServer("the same, `-buildmode=pie`", "fortio-pie", "-buildmode=pie")),
		served("pages", server{about: "net/http and goldmark (driver of ours); 32 connections of load", load: "ADDRESS/page", launch: ofDriver(build{
			name: "pages", requires: []string{goldmark}, files: driver("pages"),
		})}),
		{name: "compile", measure: measureCompiler},
		served("sqlite", server{about: "go-sqlite3 on Debian's libsqlite3, cgo (driver of ours)", launch: ofDriver(build{
			name: "sqlite", requires: []string{sqlite}, files: driver("sqlite"), flags: []string{"-tags=libsqlite3"}, env: []string{"CGO_ENABLED=1"},
		})}),
		served("race", server{about: "goldmark, `-race` (driver of ours)", launch: ofDriver(markdown("race", "-race"))}),
		served("plugin", server{about: "goldmark in a plugin (host of ours)", launch: ofDriver(build{
			name: "host", requires: []string{goldmark}, files: driver("host"), plugins: []string{"plugin"}, env: []string{"CGO_ENABLED=1"},
		}, "plugin.so")}),
		served("stripped", server{about: "goldmark, `-ldflags='-s -w'` (driver of ours)", launch: ofDriver(markdown("stripped", "-ldflags=-s -w"))}),
	}
	for _, toolchain := range toolchains {
		b := markdown(toolchain)
		b.toolchain = toolchain
		all = append(all, served(toolchain, server{about: "goldmark, by " + toolchain + " (driver of ours)", launch: ofDriver(b)}))
	}
	all = append(all, served("nobody", server{about: "goldmark, both as user nobody: user mode only", user: "nobody", launch: ofDriver(markdown("nobody"))}))
	all = append(all, served("nats", nats))
	all = append(all, debianTargets()...)
	all = append(all, guestTargets()...)
	for i := range all {
		switch all[i].name {
		case "pages", "sqlite", toolchains[0], toolchains[len(toolchains)-1]:
			all[i].quick = true
		}
	}
	return all
}

var fortioListens = regexp.MustCompile(`http-echo server listening on tcp ([0-9.:]+)`)

func fortioServer(about, name string, flags ...string) server {
	return server{
		about: about,
		load:  "ADDRESS/echo?size=500",
		launch: func(ctx context.Context, f *field) (campaign.Launch, error) {
			executable, err := f.build(ctx, build{name: name, requires: []string{fortio}, target: "fortio.org/fortio", flags: flags})
			if err != nil {
				return campaign.Launch{}, fmt.Errorf("build fortio: %w", err)
			}
			return campaign.Launch{Ready: fortioListens, Command: append([]string{executable}, strings.Fields(
				"server -pprof -http-port 127.0.0.1:0 -grpc-port disabled -tcp-port disabled -udp-port disabled -redirect-port disabled")...)}, nil
		},
	}
}
