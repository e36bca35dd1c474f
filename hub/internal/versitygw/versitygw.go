// Package versitygw runs a real server of S3 for tests, where one is installed: versitygw.
package versitygw

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// Of the one bucket of a server, and who may use it.
const (
	Bucket = "profiles"
	Region = "us-east-1"
	Key    = "tester"
	Secret = "not-a-secret"
)

// Install says how to get the server.
const Install = "no versitygw: go install github.com/versity/versitygw/cmd/versitygw@v1.8.0"

// Program returns the server's program: $CCMAPD_VERSITYGW, or the one in $PATH.
func Program() (string, error) {
	return exec.LookPath(cmp.Or(os.Getenv("CCMAPD_VERSITYGW"), "versitygw"))
}

// Start starts a server over a directory, and returns where it listens.
func Start(ctx context.Context, program, dir string) (address string, stop func(), err error) {
	if err := os.MkdirAll(filepath.Join(dir, Bucket), 0o700); err != nil {
		return "", nil, err
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	address = free.Addr().String()
	free.Close()
	server := exec.CommandContext(ctx, program, "--port", address, "--quiet", "--keep-alive", "posix", dir)
	server.Env = append(os.Environ(), "ROOT_ACCESS_KEY_ID="+Key, "ROOT_SECRET_ACCESS_KEY="+Secret)
	if err := server.Start(); err != nil {
		return "", nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Wait() }()
	stop = func() { server.Process.Kill(); <-ended }
	for {
		if c, err := net.Dial("tcp", address); err == nil {
			return address, stop, c.Close()
		}
		select {
		case err := <-ended:
			return "", nil, fmt.Errorf("the server of S3 has ended: %w", errors.Join(err, ctx.Err()))
		case <-time.After(10 * time.Millisecond): // until it listens
		}
	}
}
