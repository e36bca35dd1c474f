package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/ccmapd/ccmapd/scripts/campaign"
)

// histogram is where a server tells how long its requests take: the sum and the count of a histogram of Prometheus, of
// the lines that match.
type histogram struct {
	url, name string
	lines     *regexp.Regexp // nil: all
}

// waiter is a server whose requests are asked about.
type waiter struct {
	name string
	server
	histogram
}

// waiters are the servers, in the order of the table.
func waiters() []waiter {
	return []waiter{
		{"prometheus", server{
			about: "prometheus of Debian 13, stripped: 8 clients that query", launch: debianPrometheus, address: prometheusAddress,
			drive: drives(8, prometheusAddress+"/api/v1/query?query=sum(rate(go_gc_duration_seconds_count[1m]))"),
		}, histogram{"http://" + prometheusAddress + "/metrics", "prometheus_http_request_duration_seconds", nil}},
		{"caddy", server{
			about: "caddy of Debian 13, stripped: 8 clients that list a folder", launch: debianCaddy("trixie"), address: caddyAddress,
			drive: drives(8, caddyLoad),
		}, histogram{"http://127.0.0.1:18042/metrics", "caddy_http_request_duration_seconds", regexp.MustCompile(`handler="encode"`)}},
		{"etcd", server{
			about: "etcd 3.6.6, gRPC and a database on disk: 8 clients that put", launch: launchEtcd, address: etcdAddress, drive: driveEtcd,
		}, histogram{"http://" + etcdAddress + "/metrics", "grpc_server_handling_seconds", regexp.MustCompile(`grpc_type="unary"`)}},
		{"registry", server{
			about: "docker-registry of Debian 13: 8 clients that list its catalog", launch: debianRegistry, address: registryAddress,
			drive: drives(8, registryAddress+"/v2/_catalog"),
		}, histogram{"http://" + registryMetrics + "/metrics", "registry_http_request_duration_seconds", nil}},
		{"alertmanager", server{
			about: "alertmanager 0.28.1: 8 clients that read its metrics", launch: launchAlertmanager, address: alertsAddress,
			drive: drives(8, alertsAddress+"/metrics"),
		}, histogram{"http://" + alertsAddress + "/metrics", "alertmanager_http_request_duration_seconds", nil}},
	}
}

// settle starts a server and its clients, and waits until it has come to its usual state.
func (w waiter) settle(ctx context.Context, f *field) (p *campaign.Process, stop func(), err error) {
	p, _, stop, err = w.start(ctx, f)
	if err != nil {
		return nil, nil, err
	}
	pause(ctx, 3*time.Second)
	return p, stop, nil
}

// drives returns requests of some clients, over and over, by a process that does nothing else.
func drives(clients int, url string) func(context.Context, *field) (*campaign.Process, error) {
	return func(ctx context.Context, _ *field) (*campaign.Process, error) {
		campaign.Load(ctx, clients, "http://"+url)
		return campaign.Launch{Command: []string{"sleep", "1h"}}.Start(ctx)
	}
}

const (
	prometheusAddress = "127.0.0.1:18048"
	prometheusConfig  = "global: {scrape_interval: 5s}\nscrape_configs:\n- job_name: self\n  static_configs: [{targets: ['" + prometheusAddress + "']}]\n"
)

func debianPrometheus(ctx context.Context, f *field) (campaign.Launch, error) {
	root, err := f.debian(ctx, "trixie", "prometheus")
	if err != nil {
		return campaign.Launch{}, err
	}
	config, data := f.Path("debian", "prometheus.yml"), f.Path("debian", "prometheus-data")
	return campaign.Launch{
		Command: []string{
			filepath.Join(root, "usr/bin/prometheus"), "--config.file=" + config, "--storage.tsdb.path=" + data, "--web.listen-address=" + prometheusAddress,
		},
		Ready: regexp.MustCompile("Server is ready to receive web requests"),
	}, errors.Join(os.RemoveAll(data), os.WriteFile(config, []byte(prometheusConfig), 0o644))
}

// Modules from the proxy, pinned.
const (
	etcdServer = "go.etcd.io/etcd/server/v3@v3.6.6"
	etcdClient = "go.etcd.io/etcd/client/v3@v3.6.6"

	etcdAddress = "127.0.0.1:18049"
)

func launchEtcd(ctx context.Context, f *field) (campaign.Launch, error) {
	executable, err := f.build(ctx, build{name: "etcd", requires: []string{etcdServer}, target: "go.etcd.io/etcd/server/v3"})
	data, url := f.Path("etcd-data"), "http://"+etcdAddress
	return campaign.Launch{
		Command: []string{
			executable, "--data-dir", data, "--metrics", "extensive", "--listen-client-urls", url, "--advertise-client-urls", url,
			"--listen-peer-urls", "http://127.0.0.1:18050", "--initial-advertise-peer-urls", "http://127.0.0.1:18050",
			"--initial-cluster", "default=http://127.0.0.1:18050",
		},
		Ready: regexp.MustCompile("serving client traffic insecurely"),
	}, errors.Join(err, os.RemoveAll(data))
}

func driveEtcd(ctx context.Context, f *field) (*campaign.Process, error) {
	executable, err := f.build(ctx, build{name: "etcdload", requires: []string{etcdClient}, files: map[string]string{"main.go": readDriver("etcdload/main.go")}})
	if err != nil {
		return nil, fmt.Errorf("build the load of etcd: %w", err)
	}
	return campaign.Launch{Command: []string{executable, etcdAddress}, Ready: regexp.MustCompile(`^loading$`)}.Start(ctx)
}

const (
	registryAddress = "127.0.0.1:18051"
	registryMetrics = "127.0.0.1:18052"
	registryConfig  = `{version: 0.1, log: {level: error, accesslog: {disabled: true}}, storage: {filesystem: {rootdirectory: %q}}, http: {addr: %q,
debug: {addr: %q, prometheus: {enabled: true, path: /metrics}}}}`
	registryFolders = 60 // each request lists them all
)

func debianRegistry(ctx context.Context, f *field) (campaign.Launch, error) {
	root, err := f.debian(ctx, "trixie", "docker-registry")
	if err != nil {
		return campaign.Launch{}, err
	}
	config, data := f.Path("debian", "registry.yml"), f.Path("debian", "registry-data")
	for i := range registryFolders {
		err = errors.Join(err, os.MkdirAll(filepath.Join(data, "docker/registry/v2/repositories", strconv.Itoa(i), "_manifests"), 0o755))
	}
	text := fmt.Sprintf(registryConfig, data, registryAddress, registryMetrics)
	return campaign.Launch{
		Command: []string{filepath.Join(root, "usr/bin/docker-registry"), "serve", config}, // what it logs is not in its histogram
	}, errors.Join(err, os.WriteFile(config, []byte(text), 0o644))
}

const (
	alertmanager  = "github.com/prometheus/alertmanager@v0.28.1"
	alertsAddress = "127.0.0.1:18053"
	alertsConfig  = "{route: {receiver: none}, receivers: [{name: none}]}\n"
)

func launchAlertmanager(ctx context.Context, f *field) (campaign.Launch, error) {
	executable, err := f.build(ctx, build{name: "alertmanager", requires: []string{alertmanager}, target: "github.com/prometheus/alertmanager/cmd/alertmanager"})
	if err != nil {
		return campaign.Launch{}, err
	}
	config := f.Path("alertmanager.yml")
	return campaign.Launch{
		Command: []string{
			executable, "--config.file=" + config, "--storage.path=" + f.Path("alertmanager-data"), "--web.listen-address=" + alertsAddress,
			"--cluster.listen-address=", "--web.get-concurrency=100",
		},
		Ready: regexp.MustCompile("Listening on"),
	}, os.WriteFile(config, []byte(alertsConfig), 0o644)
}

// read returns the sum, in seconds, and the count of the histogram so far.
func (h histogram) read(ctx context.Context) (sum, count float64, err error) {
	var text bytes.Buffer
	if err := campaign.Fetch(ctx, http.DefaultClient, h.url, &text); err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(text.String()) {
		if h.lines != nil && !h.lines.MatchString(line) {
			continue
		}
		fields := strings.Fields(line)
		for suffix, to := range map[string]*float64{"_sum{": &sum, "_count{": &count} {
			if strings.HasPrefix(line, h.name+suffix) {
				v, err := strconv.ParseFloat(fields[len(fields)-1], 64)
				if err != nil {
					return 0, 0, fmt.Errorf("read %s: %w", h.url, err)
				}
				*to += v
			}
		}
	}
	if count == 0 {
		return 0, 0, fmt.Errorf("%s has no %s", h.url, h.name)
	}
	return sum, count, nil
}
