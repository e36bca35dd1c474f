package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
)

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
	attach.Process.Signal(syscall.SIGINT) // where it has ended, Wait says why
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
