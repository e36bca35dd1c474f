package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"

	"github.com/ccmapd/ccmapd/scripts/campaign"
)

// Modules from the proxy, pinned.
const (
	natsServer = "github.com/nats-io/nats-server/v2@v2.15.2"
	natsClient = "github.com/nats-io/nats.go@v1.55.0"
)

// natsAddress is where nats-server serves its clients; /debug/pprof is at another port.
const (
	natsAddress = "127.0.0.1:18046"
	natsConfig  = "host: 127.0.0.1\nport: 18046\nprof_port: 18047\n"
	natsPprof   = "127.0.0.1:18047"
)

var natsReady = regexp.MustCompile(`Server is ready`)

// nats is nats-server with four publishers and four subscribers, which never wait.
var nats = server{
	about: "nats-server 2.15.2; 4 publishers and 4 subscribers", address: natsPprof,
	launch: func(ctx context.Context, f *field) (campaign.Launch, error) {
		executable, err := f.build(ctx, build{name: "nats-server", requires: []string{natsServer}, target: "github.com/nats-io/nats-server/v2"})
		if err != nil {
			return campaign.Launch{}, err
		}
		config := filepath.Join(filepath.Dir(executable), "nats.conf")
		return campaign.Launch{Command: []string{executable, "-c", config}, Ready: natsReady}, os.WriteFile(config, []byte(natsConfig), 0o644)
	},
	drive: func(ctx context.Context, f *field) (*campaign.Process, error) {
		executable, err := f.build(ctx, build{name: "natsload", requires: []string{natsClient}, files: map[string]string{"main.go": readDriver("natsload/main.go")}})
		if err != nil {
			return nil, fmt.Errorf("build the load of nats-server: %w", err)
		}
		return campaign.Launch{Command: []string{executable, "nats://" + natsAddress}, Ready: regexp.MustCompile(`^loading$`)}.Start(ctx)
	},
}
