package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"

	"github.com/ccmapd/ccmapd/scripts/campaign"
)

// debianTargets are programs as Debian builds and strips them.
func debianTargets() []target {
	return []target{
		served("debian-caddy", server{
			about: "caddy 2.6.2 of Debian 13, stripped; 32 connections of load", launch: debianCaddy("trixie"), load: caddyLoad,
		}),
		served("debian-node-exporter", server{
			about: "prometheus-node-exporter 1.9.0 of Debian 13, stripped", launch: debianExporter, load: "ADDRESS/metrics",
		}),
		served("debian-go1.19", server{
			about: "caddy 2.6.2 of Debian 12, by its Go 1.19, stripped; 32 connections of load", launch: debianCaddy("bookworm"), load: caddyLoad,
		}),
	}
}

// debian fetches a package of a release of Debian and unpacks it into the work folder.
// Nothing is installed, and apt's lists in the work folder are of that release alone.
func (f *field) debian(ctx context.Context, release, name string) (root string, err error) {
	root = f.Path("debian", release, name)
	if _, err := os.Stat(root); err == nil {
		return root, nil
	}
	f.Say("fetching %s of Debian %s", name, release)
	apt := f.Path("debian", release, "apt")
	for _, folder := range []string{"lists/partial", "archives/partial", "download"} {
		if err := os.MkdirAll(filepath.Join(apt, folder), 0o755); err != nil {
			return "", err
		}
	}
	sources := filepath.Join(apt, "sources.list")
	line := fmt.Sprintf("deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian %s main\n", release)
	if err := os.WriteFile(sources, []byte(line), 0o644); err != nil {
		return "", err
	}
	own := []string{"-o", "Dir::Etc::sourcelist=" + sources, "-o", "Dir::Etc::sourceparts=/dev/null",
		"-o", "Dir::State::lists=" + filepath.Join(apt, "lists"), "-o", "Dir::Cache=" + apt}
	for _, step := range [][]string{{"update"}, {"download", name}} {
		cmd := exec.CommandContext(ctx, "apt-get", append(own, step...)...)
		cmd.Dir = filepath.Join(apt, "download")
		if err := campaign.Command(cmd); err != nil {
			return "", err
		}
	}
	packages, err := filepath.Glob(filepath.Join(apt, "download", name+"_*.deb"))
	if err != nil || len(packages) == 0 {
		return "", errors.Join(err, fmt.Errorf("apt-get downloaded no %s", name))
	}
	return root, campaign.Command(exec.CommandContext(ctx, "dpkg-deb", "-x", packages[0], root))
}

var caddyServes = regexp.MustCompile(`admin endpoint started.*"address":"([0-9.:]+)"`)

// caddyAddress is where caddy serves files; /debug/pprof is at its admin endpoint.
const (
	caddyAddress = "127.0.0.1:18043"
	caddyLoad    = caddyAddress + "/"
	caddyConfig  = `{"admin": {"listen": "127.0.0.1:18042"}, "apps": {"http": {"servers": {"field": {"metrics": {},
"listen": [%q], "automatic_https": {"disable": true}, "routes": [{"handle": [
{"handler": "encode", "encodings": {"gzip": {}}}, {"handler": "file_server", "root": %q, "browse": {}}]}]}}}}}`
)

// debianCaddy makes Debian's caddy list a folder.
func debianCaddy(release string) func(context.Context, *field) (campaign.Launch, error) {
	return func(ctx context.Context, f *field) (campaign.Launch, error) {
		root, err := f.debian(ctx, release, "caddy")
		if err != nil {
			return campaign.Launch{}, err
		}
		config := f.Path("debian", "caddy.json")
		text := fmt.Sprintf(caddyConfig, caddyAddress, filepath.Join(root, "usr/share"))
		return campaign.Launch{
			Command: []string{filepath.Join(root, "usr/bin/caddy"), "run", "--config", config},
			Env:     []string{"HOME=" + f.Work}, Ready: caddyServes,
		}, os.WriteFile(config, []byte(text), 0o644)
	}
}

var exporterListens = regexp.MustCompile(`Listening on.*address=([0-9.:]+)`)

func debianExporter(ctx context.Context, f *field) (campaign.Launch, error) {
	root, err := f.debian(ctx, "trixie", "prometheus-node-exporter")
	return campaign.Launch{
		Command: []string{filepath.Join(root, "usr/bin/prometheus-node-exporter"), "--web.listen-address=127.0.0.1:18044", "--web.max-requests=0"},
		Ready:   exporterListens,
	}, err
}
