// Package versitygw runs a real server of S3 for tests and measurements, where one is installed: versitygw.
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
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/internal/testrun"
)

// Of the one bucket of a server.
const (
	Bucket = "profiles"
	Region = "us-east-1"
)

// credentials are the environment of a program that may use a server.
var credentials = [][2]string{{"AWS_ACCESS_KEY_ID", "tester"}, {"AWS_SECRET_ACCESS_KEY", "not-a-secret"}}

// Environment returns that of this process, with the right to use a server.
func Environment() []string {
	all := os.Environ()
	for _, c := range credentials {
		all = append(all, c[0]+"="+c[1])
	}
	return all
}

// Options of a server. Its objects are files below [Options.Objects].
type Options struct {
	Dir string
	Log string // file that gets a line of each request; empty: none
}

// Objects returns the directory with the objects of the bucket.
func (o Options) Objects() string { return filepath.Join(o.Dir, Bucket) }

// Find returns the server's program: $CCMAPD_VERSITYGW, or the one in $PATH.
func Find() (string, error) {
	program, err := exec.LookPath(cmp.Or(os.Getenv("CCMAPD_VERSITYGW"), "versitygw"))
	if err != nil {
		return "", fmt.Errorf("find a server of S3: %w: go install github.com/versity/versitygw/cmd/versitygw@v1.8.0", err)
	}
	return program, nil
}

// Start starts a server, and returns where it listens.
func Start(ctx context.Context, o Options) (address string, stop func(), err error) {
	program, err := Find()
	if err != nil {
		return "", nil, err
	}
	if err := os.MkdirAll(o.Objects(), 0o700); err != nil {
		return "", nil, fmt.Errorf("start a server of S3: %w", err)
	}
	if address, err = freeAddress(); err != nil {
		return "", nil, fmt.Errorf("start a server of S3: %w", err)
	}
	args := []string{"--port", address, "--quiet", "--keep-alive"}
	if o.Log != "" {
		args = append(args, "--access-log", o.Log)
	}
	server := exec.CommandContext(ctx, program, append(args, "posix", o.Dir)...)
	server.Env = append(os.Environ(), "ROOT_ACCESS_KEY_ID="+credentials[0][1], "ROOT_SECRET_ACCESS_KEY="+credentials[1][1])
	if err := server.Start(); err != nil {
		return "", nil, fmt.Errorf("start a server of S3: %w", err)
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

func freeAddress() (string, error) {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return free.Addr().String(), free.Close()
}

// ForTest is [Serve] for a test that uses the server itself, and so runs alone.
func ForTest(t *testing.T) (address string) {
	t.Helper()
	for _, c := range credentials {
		t.Setenv(c[0], c[1])
	}
	return Serve(t)
}

// Serve starts a server that ends with a test. Programs with the [Environment] may use it. A machine without one skips
// the test.
func Serve(t *testing.T) (address string) {
	t.Helper()
	if _, err := Find(); err != nil {
		testrun.Lacks(t, "%v", err)
	}
	address, stop, err := Start(t.Context(), Options{Dir: filepath.Join(t.TempDir(), "s3")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return address
}
