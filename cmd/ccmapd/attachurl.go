package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/cmd/ccmapd/internal/output"
	"github.com/ccmapd/ccmapd/cmd/ccmapd/internal/session"
	"github.com/ccmapd/ccmapd/cmd/internal/usage"
	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/internal/figure"
	"github.com/ccmapd/ccmapd/internal/served"
	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/sampler/engine"
)

// serverFlags are the flags of attach that a URL needs.
type serverFlags struct {
	credentials served.Credentials
	authorities string // file
}

// serverFlagNames are the flags of serverFlags.
var serverFlagNames = []string{"bearer-file", "basic-file", "ca-file"}

func (f *serverFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.credentials.BearerFile, "bearer-file", "", "show the server of URL the token in `FILE`")
	flags.StringVar(&f.credentials.BasicFile, "basic-file", "", "log in at the server of URL by `FILE`, which has user:password")
	flags.StringVar(&f.authorities, "ca-file", "", "trust the server of URL by the certificates in `FILE`, in PEM")
	cmd.MarkFlagsMutuallyExclusive("bearer-file", "basic-file")
}

// refuse refuses the flags for a process.
func (f *serverFlags) refuse(cmd *cobra.Command) error {
	for _, name := range serverFlagNames {
		if cmd.Flags().Changed(name) {
			return usage.Errorf("--%s is for a URL, not for a process", name)
		}
	}
	return nil
}

// isURL reports whether an argument of attach is a URL.
func isURL(arg string) bool { return strings.Contains(arg, "://") }

// ofProcesses are flags that do not apply to a URL, and why.
var ofProcesses = []struct {
	flags []string
	why   string
}{
	{[]string{"engine", "interval", "tune", "tune-low", "tune-high", "tune-window", "tune-settled", "min-interval", "max-interval"},
		"the program's own profiler samples it"},
	{[]string{"max-overhead", "max-host-overhead"}, "the program's own profiler decides what sampling costs"},
	{[]string{daemonFlag}, "a daemon samples processes"},
	{[]string{"event"}, "its profiles are of CPU time"},
	{[]string{"hits", "value-hash", "janitor", "dump-values"}, "the program decides which calls its profiles have"},
	{[]string{kernelFlag}, "its profiles have no frames of the kernel"},
	{[]string{"labels"}, "its profiles have their labels, which 'ccmapd convert --labels=false' leaves out"},
}

// forURL checks the flags for a URL, and names the output by its host.
func (f *samplingFlags) forURL(cmd *cobra.Command, address string) error {
	for _, group := range ofProcesses {
		for _, name := range group.flags {
			if cmd.Flags().Changed(name) {
				return usage.Errorf("--%s does not apply to a URL: %s", name, group.why)
			}
		}
	}
	host := "url"
	if u, err := url.Parse(address); err == nil {
		host = strings.Map(inFileName, u.Host)
	}
	f.lone.name = host
	if cmd.Flags().Changed("output") || f.lone.store {
		if slices.ContainsFunc(f.outputs, func(path string) bool { return strings.Contains(path, output.PIDMark) }) {
			return usage.Errorf("%s in --output stands for a process id, which a URL has not", output.PIDMark)
		}
		return nil
	}
	f.outputs = []string{strings.ReplaceAll(output.Default, output.PIDMark, host)}
	return nil
}

// inFileName replaces what does not belong into the name of a file.
func inFileName(r rune) rune {
	if r == '.' || r == '-' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' {
		return r
	}
	return '-'
}

// attachURL takes the profiles that a program serves.
func attachURL(cmd *cobra.Command, env *environment, f *samplingFlags, server serverFlags, address string, live bool) error {
	if err := f.forURL(cmd, address); err != nil {
		return err
	}
	env, err := f.apart(env)
	if err != nil {
		return err
	}
	c := f.config(env)
	c.Began = time.Now() // a server that is slow to answer does not make the session longer
	return explainURL(runAttach(cmd.Context(), env, c, live, func(ctx context.Context) session.Opener {
		return func(o sampler.ProcessOptions) (engine.Choice, error) {
			return openInTime(ctx, c, func(ctx context.Context) (engine.Choice, error) {
				return openServed(ctx, address, server, engine.HTTPOptions{Sink: o.Sink, Logger: o.Logger, Needed: true})
			})
		}
	}))
}

// openInTime opens a source before the end of the session, if that has one.
func openInTime(ctx context.Context, c session.Config, open func(context.Context) (engine.Choice, error)) (engine.Choice, error) {
	if c.Duration == 0 {
		return open(ctx)
	}
	ctx, cancel := context.WithDeadline(ctx, c.Began.Add(c.Duration))
	defer cancel()
	choice, err := open(ctx)
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = fmt.Errorf("%w: no answer within --duration %v", err, c.Duration)
	}
	return choice, err
}

// openServed opens the source of a program that serves its own profiles.
func openServed(ctx context.Context, address string, server serverFlags, o engine.HTTPOptions) (engine.Choice, error) {
	o.URL, o.Read, o.Credentials, o.CAFile = address, readServed, server.credentials, server.authorities
	return engine.OpenServed(ctx, engine.Served{HTTPOptions: o, Maps: engine.MapsOptions{Read: readHosted, MaxMemory: int64(mostServed)}})
}

// mostServed bounds the memory of one profile, or of the maps of all sessions of a program.
const mostServed = 256 * figure.MiB

// readServed reads a profile that a program serves.
func readServed(r io.Reader) (*ccmap.Map, error) {
	m, format, err := export.Read(r, export.ReadOptions{MaxMemory: int64(mostServed)})
	if err == nil && format != export.Pprof {
		err = fmt.Errorf("%w: the answer is %v, not pprof", export.ErrFormat, format)
	}
	return m, err
}

// readHosted reads the map of a session that a program hosts.
func readHosted(r io.Reader, memory int64) (*ccmap.Map, error) {
	m, format, err := export.Read(r, export.ReadOptions{MaxMemory: memory})
	if err == nil && format != export.JSON {
		err = fmt.Errorf("%w: the answer is %v, not JSON", export.ErrFormat, format)
	}
	return m, err
}

// explainURL adds advice to an error in taking profiles.
func explainURL(err error) error {
	switch {
	case errors.Is(err, sampler.ErrNoProcess):
		return withHint(err, "Does the program run, import net/http/pprof or mount api.Handler, and listen there? 'curl URL' tells.")
	case errors.Is(err, sampler.ErrPermission):
		return withHint(err, "--bearer-file or --basic-file names the credentials that the server wants.")
	case errors.Is(err, sampler.ErrUnsupported):
		return withHint(err, "URL is the address of the endpoint, for example http://HOST:6060/debug/pprof, or http://HOST:6060/debug/ccmapd of a program that mounts api.Handler there.")
	}
	return err
}
