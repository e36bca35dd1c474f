// Command ccmapd-hub is the hub of a fleet: it adds up the profiles that daemons send, and serves the sums. See
// ccmapd-hub --help and docs/fleet.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/ccmapd/ccmapd/hub"
	"github.com/ccmapd/ccmapd/hub/bucket"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// settings are the flags.
type settings struct {
	listen, dir, tokens, cert, key string
	s3                             bucket.S3Options
	memory                         int64
	hub                            hub.Options
}

const usage = `ccmapd-hub adds up the profiles that daemons send, and serves the sums.

  ccmapd-hub --dir DIR --tokens FILE
  ccmapd-hub --s3 HOST --bucket NAME --tokens FILE --listen :7800 --tls-cert FILE --tls-key FILE

Keys of S3 come from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, from
AWS_SHARED_CREDENTIALS_FILE or from the metadata of the machine. SIGHUP reads FILE of the
tokens anew.

`

func parse(args []string, stderr io.Writer) (settings, error) {
	var s settings
	f := flag.NewFlagSet("ccmapd-hub", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.Usage = func() { io.WriteString(stderr, usage); f.PrintDefaults() }
	f.StringVar(&s.listen, "listen", "127.0.0.1:7800", "`address` to listen at; TLS where it is not loopback")
	f.StringVar(&s.dir, "dir", "", "the bucket is this `directory`")
	f.StringVar(&s.s3.Endpoint, "s3", "", "the bucket is in S3, at this `host`")
	f.StringVar(&s.s3.Bucket, "bucket", "", "`name` of the bucket in S3")
	f.StringVar(&s.s3.Prefix, "prefix", "", "`prefix` of all keys in S3")
	f.StringVar(&s.s3.Region, "region", "", "`region` of S3")
	f.BoolVar(&s.s3.Insecure, "s3-insecure", false, "reach S3 without TLS: for a server on this machine")
	f.StringVar(&s.tokens, "tokens", "", "`file` of tokens, see docs/fleet.md")
	f.StringVar(&s.cert, "tls-cert", "", "`file` of the certificate")
	f.StringVar(&s.key, "tls-key", "", "`file` of its key")
	f.DurationVar(&s.hub.Window, "window", 250*time.Millisecond, "`time` that a contribution waits for others")
	f.DurationVar(&s.hub.Round, "round", 5*time.Minute, "`time` between two merges, unless much waits")
	f.IntVar(&s.hub.Partitions, "partitions", 1, "`number` of parts of the work that hubs of a bucket share; each costs a write a window")
	f.DurationVar(&s.hub.Lease, "lease", 15*time.Second, "`time` after which others merge what a silent hub had to")
	f.IntVar(&s.hub.Quotas.Builds, "builds", 1000, "`number` of builds that are taken")
	f.DurationVar(&s.hub.Keep, "keep", 90*24*time.Hour, "`time` that hours and days are kept, and builds that nobody sends")
	f.Int64Var(&s.hub.MaxBytes, "max-bytes", 1<<30, "`bytes` of a build: its oldest hours and days go")
	f.Int64Var(&s.memory, "memory", 192<<20, "`bytes` that the hub tries to stay within: near them it takes more CPU time")
	if err := f.Parse(args); err != nil {
		return s, err
	}
	return s, s.check(f.NArg())
}

const leastMemory = 64 << 20

func (s settings) check(rest int) error {
	host, _, err := net.SplitHostPort(s.listen)
	ip := net.ParseIP(host)
	switch {
	case err != nil:
		return fmt.Errorf("--listen %s: %w", s.listen, err)
	case rest > 0:
		return errors.New("ccmapd-hub takes flags alone")
	case (s.dir == "") == (s.s3.Endpoint == ""):
		return errors.New("name a bucket: --dir DIR, or --s3 HOST --bucket NAME")
	case s.s3.Endpoint != "" && s.s3.Bucket == "":
		return errors.New("name the bucket in S3: --bucket NAME")
	case s.tokens == "":
		return errors.New("name a file of tokens: --tokens FILE")
	case (s.cert == "") != (s.key == ""):
		return errors.New("--tls-cert and --tls-key go together")
	case s.cert == "" && (ip == nil || !ip.IsLoopback()):
		return fmt.Errorf("%s is not loopback, and tokens would be sent in the clear: add --tls-cert and --tls-key", s.listen)
	case s.hub.Partitions < 1 || s.hub.Partitions > hub.MostPartitions:
		return fmt.Errorf("--partitions must be 1 to %d", hub.MostPartitions)
	case s.hub.Window <= 0 || s.hub.Lease <= 0 || s.hub.Round <= 0 || s.hub.Keep <= 0 || s.hub.MaxBytes <= 0:
		return errors.New("--window, --round, --lease, --keep and --max-bytes must be more than 0")
	case s.memory < leastMemory:
		return fmt.Errorf("--memory must be at least %d, or the hub would do little else than find free memory", leastMemory)
	}
	return nil
}

func run(args []string, stdout, stderr io.Writer) int {
	s, err := parse(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err == nil {
		err = serve(s, stdout, slog.New(slog.NewTextHandler(stderr, nil)))
	}
	if err != nil {
		fmt.Fprintln(stderr, "ccmapd-hub:", err)
		return 1
	}
	return 0
}

// serve serves until SIGTERM or SIGINT. Requests that have begun are answered.
func serve(s settings, stdout io.Writer, log *slog.Logger) error {
	if os.Geteuid() == 0 {
		log.Warn("running as root: a hub needs no rights, so give it a user of its own")
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	b, err := open(ctx, s)
	if err != nil {
		return err
	}
	s.hub.Bucket, s.hub.Logger = b, log
	if s.hub.Tokens, err = readTokens(s.tokens); err != nil {
		return err
	}
	debug.SetMemoryLimit(s.memory)
	h := hub.New(s.hub)
	listener, err := net.Listen("tcp", s.listen)
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "ccmapd-hub listens at %s\n", listener.Addr())
	go reload(ctx, h, s.tokens, log)
	server := &http.Server{
		Handler: h, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute, WriteTimeout: 2 * time.Minute,
		IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	failed := make(chan error, 1)
	go func() {
		if s.cert != "" {
			failed <- server.ServeTLS(listener, s.cert, s.key)
		} else {
			failed <- server.Serve(listener)
		}
	}()
	running, end := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { h.Run(running); close(ended) }()
	select {
	case err = <-failed:
	case <-ctx.Done():
		most, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		err = server.Shutdown(most) // they wait for the intake, which still runs
	}
	end()
	<-ended
	return err
}

// open opens the bucket, and refuses one whose conditions do not hold.
func open(ctx context.Context, s settings) (bucket.Bucket, error) {
	var b bucket.Bucket
	var err error
	if s.dir != "" {
		b, err = bucket.OpenDir(s.dir)
	} else {
		b, err = bucket.OpenS3(s.s3)
	}
	if err != nil {
		return nil, err
	}
	const writers = 8
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return b, bucket.Check(ctx, b, "check", writers)
}

func readTokens(name string) (*hub.Tokens, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return hub.ReadTokens(io.LimitReader(f, 64<<20))
}

// reload reads the tokens anew after each SIGHUP. A file that cannot be read changes nothing.
func reload(ctx context.Context, h *hub.Hub, name string, log *slog.Logger) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGHUP)
	defer signal.Stop(signals)
	for {
		select {
		case <-ctx.Done():
			return
		case <-signals:
		}
		tokens, err := readTokens(name)
		if err != nil {
			log.Error("the tokens stay as they were", "error", err)
			continue
		}
		h.SetTokens(tokens)
		log.Info("read the tokens anew")
	}
}
